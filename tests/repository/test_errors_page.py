"""docs/reference/errors.md contains the messages of the code. `WRITE_PAGE=1 pytest tests/repository/test_errors_page.py` corrects its messages."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

import httpx
import pytest

from airflow_adaptive._airflow.process.loop_events import superseded_event
from airflow_adaptive._core import failure_code
from airflow_adaptive._core.failure_code import FailureCode, error_code
from airflow_adaptive._core.ports import DriverLog, DriverSubmission, PortError
from airflow_adaptive._core.protocol.conf import read_settings
from airflow_adaptive._core.protocol.documents import FORMATS
from airflow_adaptive._core.python_version import require_python
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._web.data import user_requests
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.job.entry import unmanaged_script
from airflow_adaptive.job.queries.script_queries import NEVER_STARTED
from airflow_adaptive.job.queries.writers import require_same_queries, require_writers
from airflow_adaptive.job.spark_internals import require_supported
from airflow_adaptive.operators.job_control import SetResourceRequirementsOperator, StopAdaptiveJobOperator
from airflow_adaptive.sensors.adaptive_job import AdaptiveJobSensor
from tests.lab.simulation.one_job import Simulation
from tests.repository.error_situations import (
    OF_BEGINNERS,
    Desk,
    answer,
    damaged_checkpoint,
    dies,
    down,
    end_of,
    equal_failures,
    failed,
    falls_silent,
    hanging_storage,
    lost_node,
    missing_input,
    no_answer,
    not_writable,
    older_airflow,
    refused,
    refused_executors,
    remedied,
    session_of,
    starts_a_query,
    starts_a_query_before_the_job,
    starts_with_a_relative_checkpoint,
    table_created_again,
    text_of,
    too_small,
    topic_created_again,
    with_driver,
    without_connector,
    without_loop,
)
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_documents import batch
from tests.support.driver.fake_spark import Stream
from tests.support.repository import ROOT
from tests.unit._engine.observation.test_driver_log_diagnosis import (
    IMPORT_ERROR,
    NO_EXECUTORS,
    NO_MASTER,
    NO_PYTHON,
    UNPUBLISHED_PACKAGE,
)

PAGE: Final = ROOT / "docs" / "reference" / "errors.md"

ENTRY: Final = re.compile(r"^(\*\*(?P<condition>.+)\*\* \(.+\):\n\n> )(?P<message>.*)$", re.MULTILINE)
"""A condition, the place where its message appears, and the message. What a reader does follows."""

OWN_CODE: Final = re.compile(r"\[([a-z-]+)\]$")
FAILURE: Final = re.compile(r"(?:job 'departures' failed: )?(?:[a-z]\w*\.)*([A-Z]\w+)(?:\.\w+)?: ")
"""The text of a failure: its code is the simple name of the exception, or the error condition without its subclass."""

MEANINGS: Final = dict(
    re.findall(r'    (\w+) = "\w+"\n    """(.+?)"""', Path(failure_code.__file__).read_text(), re.DOTALL)
)
"""Code of this package -> what it means."""

NAMED_PROBLEM: Final = re.compile(
    r'(?:conflict\(|NotRescalableError\(|HTTPStatus\.\w+,|kind =|1,)\s*"([a-z]+(?:-[a-z]+)*)"'
)
"""How the sources name the codes of problems."""

OPERATOR: Final = "from airflow_adaptive.operators import AdaptiveSparkOperator"
SCRIPT_BESIDE: Final = "AdaptiveSparkOperator(task_id='a', job='departures', application='{}/gone.py', job_directory='file:///jobs', parallelism=1)"

TOO_MUCH = scheduled_policy(zone="UTC", windows=[window("day", (2, 9), start="08:00", end="20:00")])


def in_the_dag_file(desk: Desk) -> dict[str, str]:
    return {
        "Function that uses a name of the DAG file": desk.import_error(
            "return spark.readStream.text(INPUT).writeStream", before='INPUT = "/data"'
        ),
        "Function that starts its query": desk.import_error(
            "return spark.readStream.text('/data').writeStream.start()"
        ),
        "Function that writes to a table": desk.import_error(
            "return spark.readStream.text('/data').writeStream.toTable('departures')"
        ),
        "Function that sets a checkpoint": desk.import_error(
            "return spark.readStream.text('/data').writeStream.option('checkpointLocation', '/checkpoint')"
        ),
        "Positional arguments": desk.import_error(
            "return spark", parameters="spark, parallelism, path", call="departures('/data')"
        ),
        "Airflow's context as a parameter": desk.import_error("return spark", parameters="spark, parallelism, ds"),
        "Other first parameters": desk.import_error("return spark", parameters="session"),
        "Id with other characters": desk.refusal(job="départs"),
        "Id with a space": desk.refusal(job="my job"),
        "Template as an id": desk.refusal(job="{{ ds }}"),
        "Script missing beside the DAG file": desk.import_error(
            "return spark", call=SCRIPT_BESIDE.format(desk.folder), before=OPERATOR
        ),
        "Class of a policy instead of a policy": desk.refusal(rescale_policy=LoadPolicy),
        "One job in two tasks of a DAG": desk.import_error("return spark", call="[departures() for _ in range(2)]"),
        "Job without bounds": desk.refusal(parallelism=None),
        "Mapped function without the parameter `job`": desk.import_error(
            "return spark", call="departures.expand(job=['a', 'b'])"
        ),
        "Invalid rescale policy": desk.invalid(lambda: LoadPolicy(target=2)),
        "Airflow older than this package supports": older_airflow(),
    }


def declared(desk: Desk) -> dict[str, str]:
    (desk.folder / "broken.py").write_text("def departures(:\n")
    return {
        "Unknown connection": desk.refusal(conn_id="spark_test"),
        "Connection of another cluster manager": desk.refusal(conn_id="yarn"),
        "Connection of another type": desk.refusal(conn_id="http"),
        "Script missing": desk.refusal(application=f"{desk.folder}/gone.py"),
        "Script with a syntax error": desk.refusal(application=f"{desk.folder}/broken.py"),
        "Lower bound above the upper": desk.refusal(parallelism=(4, 1)),
        "A bound of zero": desk.refusal(parallelism=(0, 4)),
        "Bound above the maximum": desk.refusal(parallelism=(1, 8), max_parallelism=4),
        "Bounds that are not numbers": desk.refusal(parallelism="1-4"),
        "Misspelled parameter": desk.refusal(stop_timout="5 s"),
        "Parameters of SparkSubmitOperator": desk.refusal(num_executors=4, verbose=True),
        "JVM application": desk.refusal(application="/opt/jobs/departures.jar"),
        "Jar missing": desk.refusal(jars="/opt/jars/gone.jar"),
        "File that is not an archive": desk.refusal(archives="s3a://models/model.bin#model"),
        "Unknown option of Flink's": desk.refusal(**{"jobmanager.adaptive-scheduler.scaling-interval.mini": "5 s"}),
        "Malformed duration": desk.refusal(stop_timeout="soon"),
        "Contradictory options": desk.refusal(scaling_interval_max="10 s"),
        "Object that is not a rescale policy": desk.refusal(rescale_policy="daily"),
        "Rescale policy beyond the job's maximum": desk.refusal(rescale_policy=TOO_MUCH),
        "Memory below the minimum of Spark": desk.refusal(executor_memory="100m"),
        "Memory size without a unit": desk.refusal(executor_memory="2"),
        "Arguments as one text": desk.refusal(application_args="--days 7"),
        "Parameter of Kubernetes, and a standalone cluster": desk.refusal(image="apache/spark:4.3.0"),
        "Value that an option does not have": desk.refusal(standby="yes"),
        "Spark property that a parameter determines": desk.refusal(conf={"spark.executor.memory": "4g"}),
        "Secret in the DAG": desk.refusal(conf={"spark.hadoop.fs.s3a.secret.key": "..."}),
        "Several violations": desk.refusal(executor_memory="100m", stop_timeout="soon"),
        "Job directory not absolute": desk.refusal(job_directory="jobs"),
        "Object store whose Airflow provider is missing": desk.refusal(job_directory="gs://streaming/jobs"),
        "Job directory not writable": not_writable(),
        "Job directory that hangs": hanging_storage(),
        "Directory of another job": desk.refused_log("arrivals"),
        "The same job in two tasks": desk.second_task(),
        "Written by a newer version": desk.refused_log("departures", format=FORMATS[-1] + 1),
    }


def at_the_cluster() -> dict[str, str]:
    submission = DriverSubmission(name="n", epoch=1, nonce="n", script="s")
    return {
        "Master down, at the start or later": answer(refused(), lambda cluster: cluster.snapshot()),
        "Not a master": answer(httpx.Response(200, text="<html>"), lambda cluster: cluster.snapshot()),
        "REST server of the master off": answer(refused(), lambda cluster: cluster.submit(submission)),
        "Master requires a token": answer(httpx.Response(401), lambda cluster: cluster.snapshot()),
    }


def in_the_driver() -> dict[str, str]:
    def launched_without_java(simulation: Simulation, driver: str) -> None:
        reason = 'Exception from the cluster: java.io.IOException: Cannot run program "/opt/java/bin/java": error=2'
        simulation.cluster.kill_driver(driver, reason)

    exited = unmanaged_script.report_end(SystemExit(3))
    return {
        "Script that does not import": failed(with_driver(dies(IMPORT_ERROR))),
        "Package that is not published": failed(with_driver(dies(UNPUBLISHED_PACKAGE))),
        "Topic of Kafka that was created again": topic_created_again(),
        "Table of Delta Lake that was created again": table_created_again(),
        "Missing or damaged file of a checkpoint": damaged_checkpoint(),
        "Account of the driver without rights to the storage or the brokers": remedied(
            "java.nio.file.AccessDeniedException", "s3a://rows/checkpoints: 403 Forbidden"
        ),
        "Checkpoint of another query: other sources, operators, schemas or input folders": remedied(
            "java.lang.AssertionError",
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested by the query",
        ),
        "The same failure again and again before the first batch": equal_failures(),
        "Script that starts no query, and never calls `run`": failed(
            with_driver(lambda simulation, driver: simulation.cluster.finish_driver(driver))
        ),
        "Script that sets a master": text_of(
            lambda: session_of(master="spark://h1:7077").require({"spark.master": "local[*]"})
        ),
        "Script that sets a property which a parameter of the operator determines": text_of(
            lambda: session_of(executor_memory="1g").require({"spark.executor.memory": "2g"})
        ),
        "[script without `AdaptiveJob`](../guides/unmanaged-scripts.md) whose checkpoint does not outlive its driver": text_of(
            starts_with_a_relative_checkpoint
        ),
        "Script whose input is missing": missing_input(),
        "Script that starts a query itself, and then calls `run`": text_of(starts_a_query_before_the_job),
        "Script without `AdaptiveJob` that ends itself": f"{exited.error_class}: {exited.message}",
        "Script whose function starts its query": text_of(lambda: starts_a_query("start")),
        "Script whose function writes to a table": text_of(lambda: starts_a_query("toTable")),
        "Script whose function returns queries without names": text_of(
            lambda: require_writers([Stream(), Stream()], "departures", "departures")
        ),
        "Script whose function returns queries with one name": text_of(
            lambda: require_writers([Stream("daily"), Stream("daily")], "departures", "departures")
        ),
        "Script that ends before its first query has begun": f"{NEVER_STARTED.error_class}: {NEVER_STARTED.message}",
        "Spark that is too old": text_of(lambda: require_supported("3.5.6")),
        "Python on the cluster that is too old": text_of(lambda: require_python((3, 9, 2))),
        "Connector missing, here that of Delta Lake": without_connector(
            "DATA_SOURCE_NOT_FOUND", "Failed to find the data source: delta. Make sure the provider name is correct"
        ),
        "Connector of Kafka missing": without_connector(
            "KAFKA_DATA_SOURCE_NOT_ENABLED",
            "Failed to find data source: kafka. Please deploy the application as per the guide",
        ),
        **{condition: remedied(*failure) for condition, failure in OF_BEGINNERS.items()},
        "Script whose function returns nothing": text_of(lambda: require_writers(None, "departures", "departures")),
        "Script whose function returns other queries for another plan": text_of(
            lambda: require_same_queries(["hourly", "weekly"], ["hourly", "daily"], "departures")
        ),
        "Python missing on a worker": failed(with_driver(dies(NO_PYTHON))),
        "Java missing on a worker": failed(with_driver(launched_without_java)),
        "No executor stays alive: no Java, no memory, a wrong image": failed(
            with_driver(dies(DriverLog(stderr=NO_EXECUTORS.stderr.splitlines()[-1])))
        ),
        "Workers with another version of Spark than the master": failed(with_driver(dies(NO_MASTER))),
        "Executors with another version of Python than the driver": remedied(
            "PYTHON_VERSION_MISMATCH",
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.",
        ),
        "Image of the executors with another version of Spark than the image of the driver": remedied(
            "DEPLOY_TIMEOUT",
            "the plan was not active after 300 s; 0 slot(s) had arrived; executor pod departures-1-exec-1 (image spark:4.1.4; the driver has spark:4.2.1): "
            "java.io.InvalidClassException: org.apache.spark.resource.ResourceProfile; local class incompatible",
        ),
        "Driver that ends before its first driver status, without output": failed(with_driver(dies(DriverLog()))),
        "Script that a user runs with spark-submit": text_of(lambda: read_settings(lambda _: None)),
        "Driver that hangs": falls_silent(),
        "Submission without an answer, for example because `rest-port` is the port of the master URL": no_answer(),
        "Node or worker of the driver lost": lost_node(),
        "Executors that do not arrive within `deploy_timeout`": refused_executors(),
    }


def at_the_end(desk: Desk) -> dict[str, str]:
    taken_over = superseded_event(SupersededError(7, "departures/job/manual__2026/2f6c#loop"))
    return {
        "The same job in two runs": desk.end(taken_over),
        "Cluster too small for the minimum until `resource_wait_timeout`": desk.end(end_of(too_small())),
        "Master down until `resource_wait_timeout`": desk.end(end_of(down())),
        "Job whose script does not import": desk.end(end_of(with_driver(dies(IMPORT_ERROR)))),
        "Cancellation by a user": desk.end({"outcome": "CANCELED", "timed_out": False}),
    }


def without_a_loop() -> dict[str, str]:
    return {
        "The task has ended or was deleted, and nothing has published the end of the job: for example, a user marked the task while no triggerer ran": without_loop(
            user_requests._require_loop
        ),
        "A job without a control loop of which nothing is published": without_loop(user_requests.base_of),
    }


def in_other_dags(desk: Desk) -> dict[str, str]:
    shrink = SetResourceRequirementsOperator(task_id="shrink", job="departures", parallelism=1)
    return {
        "Operator for a job that Airflow does not know": desk.task_error(shrink),
        "Override for a batch job": desk.task_error(shrink, batch()),
        "Sensor for a state that does not exist": desk.task_error(
            AdaptiveJobSensor(task_id="wait", job="departures", states="Excuting")
        ),
        "Job that does not end in time": desk.late(StopAdaptiveJobOperator(task_id="stop", job="departures")),
        "Sensor whose state does not come in time": desk.late(
            AdaptiveJobSensor(task_id="wait", job="departures", states="Executing")
        ),
    }


@pytest.fixture
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_default: None) -> dict[str, str]:
    """Condition -> what the code states."""
    monkeypatch.setenv("AIRFLOW_CONN_HTTP", json.dumps({"conn_type": "http", "host": "master"}))
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn"}))
    desk = Desk(tmp_path, FakeComms.install(monkeypatch))
    return (
        in_the_dag_file(desk)
        | declared(desk)
        | at_the_cluster()
        | in_the_driver()
        | at_the_end(desk)
        | without_a_loop()
        | in_other_dags(desk)
    )


@pytest.mark.long
def test_page_shows_what_the_code_states(messages: dict[str, str]) -> None:
    if os.environ.get("WRITE_PAGE"):
        PAGE.write_text(ENTRY.sub(lambda entry: entry[1] + messages[entry["condition"]], PAGE.read_text()))
    present = {entry["condition"]: entry["message"] for entry in ENTRY.finditer(PAGE.read_text())}
    assert present == messages


def test_each_code_is_a_heading_with_its_meaning_and_its_messages() -> None:
    codes = []
    for part in PAGE.read_text().split("\n## ")[1:]:
        code, _, text = part.partition("\n\n")
        codes.append(code)
        assert text.startswith(MEANINGS.get(code, "")), code
        assert len(text.split()) > 15, f"{code}: say what to check, and what to do"
        assert {_code(entry["message"]) for entry in ENTRY.finditer(text)} <= {code}
    assert codes == sorted({*codes, *FailureCode}, key=str.lower)


def test_every_problem_that_the_sources_name_has_an_entry() -> None:
    package = ROOT / "airflow_adaptive"
    sources = [*(package / "_web").rglob("*.py"), package / "_core" / "requirements" / "request_bodies.py"]
    named = {
        code for file in sources if "node_modules" not in file.parts for code in NAMED_PROBLEM.findall(file.read_text())
    }
    assert len(named) > 20
    page_text = PAGE.read_text()
    assert [code for code in named | _codes_below(PortError) if f"\n## {code}\n" not in page_text] == []


def _codes_below(kind: type[Exception]) -> set[str]:
    below = [_codes_below(each) for each in kind.__subclasses__() if each.__module__.startswith("airflow_adaptive")]
    return {error_code(kind.__new__(kind))}.union(*below)


def _code(message: str) -> str:
    """Return the code of an error."""
    found = FAILURE.match(message) or OWN_CODE.search(message)
    assert found, message
    return found[1]


@pytest.mark.long
def test_every_message_is_one_line_with_the_job_named_at_most_once(messages: dict[str, str]) -> None:
    for condition, message in messages.items():
        assert _code(message), condition
        assert OWN_CODE.search(message) or not message.startswith("job 'departures': "), condition
        assert "\n" not in message, condition
        assert message.count("job 'departures'") <= 1, condition
        assert "Traceback" not in message, condition
