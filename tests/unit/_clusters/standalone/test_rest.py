"""The documents of Spark's REST submission protocol, as Spark 4.3 writes them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from airflow_adaptive._clusters.standalone.http import NotLeadingError, ProtocolError, RefusalError
from airflow_adaptive._clusters.standalone.rest import (
    create_request,
    read_kill,
    read_state,
    read_status,
    read_submission,
)
from airflow_adaptive._core.ports import (
    MIB,
    ActiveDriver,
    DriverSubmission,
    Resources,
    SubmissionState,
    SubmissionStatus,
)
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE

MASTER_URL = "spark://h1:7077,h2:7077"

SUBMISSION = DriverSubmission(
    name="departures",
    epoch=1,
    nonce="n",
    script="/jobs/departures.py",
    py_files=("/jobs/runtime.zip", "/jobs/more.zip"),
    args=("--from", "JFK"),
    conf={"spark.driver.extraJavaOptions": "-Dx=1", "spark.db.password": "hush"},
    env={"PYSPARK_PYTHON": "/opt/python"},
    driver_cores=2,
    driver_memory_mb=768,
    executor_memory_mb=512,
)

STATE: dict[str, Any] = {
    "url": "spark://h1:7077",
    "workers": [
        {
            "id": "worker-2",
            "host": "h2",
            "port": 7078,
            "webuiaddress": "http://h2:8081",
            "cores": 4,
            "coresused": 3,
            "coresfree": 1,
            "memory": 4096,
            "memoryused": 3072,
            "memoryfree": 1024,
            "state": "ALIVE",
        },
        {
            "id": "worker-1",
            "host": "h1",
            "port": 7078,
            "webuiaddress": "http://h1:8081",
            "cores": 4,
            "coresused": 0,
            "coresfree": 4,
            "memory": 4096,
            "memoryused": 0,
            "memoryfree": 4096,
            "state": "DEAD",
        },
    ],
    "activeapps": [{"id": "app-1", "name": "departures", "cores": 3, "state": "RUNNING"}],
    "activedrivers": [
        {"id": "driver-1", "state": "RUNNING", "cores": 1, "memory": 512, "worker": "worker-2"},
        {"id": "driver-2", "state": "SUBMITTED", "cores": 2, "memory": 768, "worker": "None"},
    ],
    "status": "ALIVE",
}


def response(action: str, **fields: object) -> dict[str, object]:
    return {"action": action, "serverSparkVersion": "4.3.0", **fields}


def status_response(**fields: object) -> dict[str, object]:
    return response("SubmissionStatusResponse", **{"submissionId": "driver-1", "success": True, **fields})


def test_request_runs_the_script_under_spark_submit() -> None:
    request = create_request(SUBMISSION, MASTER_URL)
    assert request["action"] == "CreateSubmissionRequest"
    assert request["mainClass"] == "org.apache.spark.deploy.SparkSubmit"
    arguments = request["appArgs"]
    assert arguments[:6] == [
        *("--master", MASTER_URL),
        *("--name", "departures"),
        *("--py-files", "/jobs/runtime.zip,/jobs/more.zip"),
    ]
    assert arguments[-3:] == ["/jobs/departures.py", "--from", "JFK"]
    assert "spark.executor.memory=512m" in arguments


def test_request_sizes_the_driver() -> None:
    properties = create_request(SUBMISSION, MASTER_URL)["sparkProperties"]
    assert properties == {
        "spark.app.name": "departures",
        "spark.master": MASTER_URL,
        "spark.driver.cores": "2",
        "spark.driver.memory": "768m",
        "spark.driver.supervise": "false",
        "spark.driver.extraJavaOptions": "-Dx=1",
    }


def test_secret_properties_travel_in_the_environment_only() -> None:
    request = create_request(SUBMISSION, MASTER_URL)
    environment = request.pop("environmentVariables")
    assert json.loads(environment.pop(SECRET_CONF_VARIABLE)) == {"spark.db.password": "hush"}
    assert environment == {"SPARK_ENV_LOADED": "1", "PYSPARK_PYTHON": "/opt/python"}
    assert "hush" not in json.dumps(request)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.my.credential", "hush"),
        ("spark.hadoop.fs.azure.sas.flights", "hush"),
        ("spark.hadoop.fs.s3a.encryption.key", "hush"),
        ("spark.my.sasl.jaas.config", "hush"),
        ("spark.executorEnv.DB_PWD", "hush"),
        ("spark.my.url", "amqp://me:hush@h1"),
    ],
)
def test_spark_redacts_the_properties_that_are_secret(name: str, value: str) -> None:
    pattern = redaction_pattern({})
    assert re.search(pattern, name) or re.search(pattern, value)
    assert not re.search(pattern, "spark.sql.shuffle.partitions")


def test_named_properties_are_secret_whatever_their_names() -> None:
    conf, names = {"spark.region": "hush", "spark.a": "open"}, frozenset({"spark.region"})
    submission = DriverSubmission(name="n", epoch=1, nonce="n", script="s.py", conf=conf, secret_names=names)
    request = create_request(submission, MASTER_URL)
    assert json.loads(request.pop("environmentVariables")[SECRET_CONF_VARIABLE]) == {"spark.region": "hush"}
    assert "spark.a=open" in request["appArgs"]
    assert "hush" not in json.dumps(request)
    (pattern,) = [argument for argument in request["appArgs"] if argument.startswith("spark.redaction.regex=")]
    assert re.search(pattern.partition("=")[2], "spark.region")
    assert not re.search(pattern.partition("=")[2], "spark_region")


def test_redaction_of_the_user_takes_precedence() -> None:
    assert redaction_pattern({"spark.redaction.regex": "(?i)mine"}) == "(?i)mine"


def redaction_pattern(conf: dict[str, str]) -> str:
    """The pattern of names and values that Spark's pages redact."""
    arguments = create_request(DriverSubmission(name="n", epoch=1, nonce="n", script="s.py", conf=conf), MASTER_URL)[
        "appArgs"
    ]
    (argument,) = [argument for argument in arguments if argument.startswith("spark.redaction.regex=")]
    return str(argument.partition("=")[2])


def test_url_with_a_password_travels_in_the_environment_unless_spark_submit_reads_it() -> None:
    conf = {"spark.my.url": "amqp://me:hush@h1", "spark.jars.repositories": "https://me:hush@repo"}
    request = create_request(DriverSubmission(name="n", epoch=1, nonce="n", script="s.py", conf=conf), MASTER_URL)
    assert json.loads(request["environmentVariables"][SECRET_CONF_VARIABLE]) == {"spark.my.url": "amqp://me:hush@h1"}
    assert "spark.jars.repositories=https://me:hush@repo" in request["appArgs"]


def test_secret_variables_are_in_the_environment_and_the_driver_knows_their_names() -> None:
    submission = DriverSubmission(name="n", epoch=1, nonce="n", script="s.py", secret_env={"DB_LOGIN": "hush"})
    request = create_request(submission, MASTER_URL)
    environment = request.pop("environmentVariables")
    assert environment == {"SPARK_ENV_LOADED": "1", "DB_LOGIN": "hush", SECRET_ENV_VARIABLE: '["DB_LOGIN"]'}
    assert "hush" not in json.dumps(request)
    assert "hush" not in repr(submission)


def test_no_variable_of_the_environment_replaces_a_secret_variable() -> None:
    """The DAG declares a variable under the name of a secret of the connection, or under a name that the launcher reads."""
    env = {"DB_LOGIN": "guest", SECRET_CONF_VARIABLE: "{}", SECRET_ENV_VARIABLE: "[]"}
    submission = DriverSubmission(
        name="n",
        epoch=1,
        nonce="n",
        script="s.py",
        conf={"spark.db.password": "hush"},
        env=env,
        secret_env={"DB_LOGIN": "hush"},
    )
    environment = create_request(submission, MASTER_URL)["environmentVariables"]
    assert environment["DB_LOGIN"] == "hush"
    assert json.loads(environment[SECRET_CONF_VARIABLE]) == {"spark.db.password": "hush"}
    assert json.loads(environment[SECRET_ENV_VARIABLE]) == ["DB_LOGIN"]


def test_environment_has_no_secrets_when_there_are_none() -> None:
    request = create_request(DriverSubmission(name="n", epoch=1, nonce="n", script="s.py"), MASTER_URL)
    assert request["environmentVariables"] == {"SPARK_ENV_LOADED": "1"}


def test_state_gives_living_workers_and_grants() -> None:
    snapshot = read_state(STATE, "spark://h1:7077", "http://h1:8080")
    (worker,) = snapshot.workers
    assert (worker.worker_id, worker.address) == ("worker-2", "http://h2:8081")
    assert (worker.total, worker.free) == (Resources(4000, 4096 * MIB), Resources(1000, 1024 * MIB))
    assert snapshot.granted == {"app-1": 3}
    assert (snapshot.master_url, snapshot.ui_url) == ("spark://h1:7077", "http://h1:8080")


def test_state_gives_drivers_that_have_not_ended_and_names_of_applications() -> None:
    snapshot = read_state(STATE, "spark://h1:7077", "http://h1:8080")
    assert snapshot.drivers == {
        "driver-1": ActiveDriver(state=SubmissionState.RUNNING, request=Resources(1000 * 1, 512 * MIB)),
        "driver-2": ActiveDriver(state=SubmissionState.SUBMITTED, request=Resources(1000 * 2, 768 * MIB)),
    }
    assert snapshot.names == {"app-1": "departures"}


def test_workers_are_ordered_by_id() -> None:
    workers = [{**worker, "state": "ALIVE"} for worker in STATE["workers"]]
    snapshot = read_state({**STATE, "workers": workers}, "spark://h1:7077", "http://h1:8080")
    assert [worker.worker_id for worker in snapshot.workers] == ["worker-1", "worker-2"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "ok",
        {},
        {**STATE, "workers": None},
        {**STATE, "workers": ["worker-1"]},
        {**STATE, "workers": [{"state": "ALIVE"}]},
        {**STATE, "workers": [{**STATE["workers"][0], "cores": "many"}]},
        {**STATE, "workers": [{**STATE["workers"][0], "cores": math.inf}]},
        {**STATE, "activeapps": [{"id": "app-1"}]},
    ],
)
def test_foreign_state_is_no_state(answer: object) -> None:
    with pytest.raises(ProtocolError):
        read_state(answer, "", "")


def test_accepted_submission_has_an_id() -> None:
    answer = response(
        "CreateSubmissionResponse", success=True, submissionId="driver-1", message="submitted as driver-1"
    )
    assert read_submission(answer) == "driver-1"


def test_refused_submission_carries_the_masters_reason() -> None:
    answer = response("CreateSubmissionResponse", success=False, message="no drivers today")
    with pytest.raises(RefusalError, match="no drivers today"):
        read_submission(answer)


@pytest.mark.parametrize("read", [read_submission, read_status, read_kill])
def test_standby_master_is_not_leading(read: Any) -> None:
    message = "Exception from the cluster:\njava.lang.Exception: Current state is not alive: STANDBY.\n\tat org.Some"
    for action in ("CreateSubmissionResponse", "SubmissionStatusResponse", "KillSubmissionResponse"):
        with pytest.raises(NotLeadingError, match="STANDBY"):
            read(response(action, success=False, message=message))


@pytest.mark.parametrize("read", [read_submission, read_status, read_kill])
@pytest.mark.parametrize(("answer", "why"), [([], "list"), ({}, "not a ")])
def test_foreign_response_is_no_response(read: Any, answer: object, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        read(answer)


@pytest.mark.parametrize("read", [read_submission, read_status, read_kill])
@pytest.mark.parametrize("message", ["Unknown protocol version 'v2'", None])
def test_error_response_is_a_refusal_in_the_masters_words(read: Any, message: str | None) -> None:
    with pytest.raises(RefusalError, match=message or "without a message"):
        read(response("ErrorResponse", message=message))


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            "Malformed request: org.apache.spark.deploy.rest.SubmitRestMissingFieldException: Valid application jar path is required\n\tat x",
            "spark.master.rest.allowedAppResourcePatterns of the master refuses .* Add the pattern () to the setting",
        ),
        (
            "The request body exceeds the maximum allowed size (1024 bytes). Adjust spark.master.rest.maxRequestBodySize to change the limit.",
            "increase this setting of the master, or move long arguments and properties to a file in the job directory",
        ),
    ],
)
def test_setting_of_the_master_that_refuses_submissions_is_explained(message: str, remedy: str) -> None:
    with pytest.raises(RefusalError, match=remedy.replace("()", r"\(\)")):
        read_submission(response("ErrorResponse", message=message))


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING", "FINISHED", "FAILED", "KILLED"])
def test_status_gives_the_state_and_the_worker(state: str) -> None:
    answer = status_response(driverState=state, workerHostPort="h1:7078")
    assert read_status(answer) == SubmissionStatus(state=SubmissionState(state), worker_address="h1:7078")


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"driverState": "RELAUNCHING"}, SubmissionState.SUBMITTED),
        ({"driverState": "UNKNOWN"}, SubmissionState.UNKNOWN),
        ({"driverState": "A_STATE_OF_SPARK_5"}, SubmissionState.UNKNOWN),
        ({"success": False}, SubmissionState.UNKNOWN),
    ],
)
def test_status_without_a_counterpart_is_read_cautiously(fields: dict[str, object], state: SubmissionState) -> None:
    assert read_status(status_response(**fields)).state is state


def test_driver_that_could_not_be_launched_is_failed() -> None:
    message = (
        "Exception from the cluster:\njava.io.FileNotFoundException: /jobs/gone.py\n\torg.apache.Some\n\tat java.Any"
    )
    status = read_status(status_response(driverState="ERROR", message=message))
    assert status.state is SubmissionState.FAILED
    assert status.message == "Exception from the cluster: java.io.FileNotFoundException: /jobs/gone.py"


def test_driver_of_a_lost_worker_is_not_over() -> None:
    status = read_status(status_response(driverState="ERROR", workerHostPort="h1:7078"))
    assert status.state is SubmissionState.UNKNOWN
    assert "worker was lost" in status.message


def test_kill_of_a_dead_driver_is_no_error() -> None:
    read_kill(response("KillSubmissionResponse", success=False, message="Driver driver-1 has already finished"))


def test_driver_on_a_decommissioned_worker_will_have_to_leave() -> None:
    workers = [{**worker, "state": "DECOMMISSIONED"} for worker in STATE["workers"]]
    drivers = read_state({**STATE, "workers": workers}, "spark://h1:7077", "http://h1:8080").drivers
    assert [driver.leaves for driver in drivers.values()] == ["the worker of the driver on h2 was decommissioned", ""]
