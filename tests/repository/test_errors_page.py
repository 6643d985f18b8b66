"""docs/reference/errors.md contains the messages of the code. Regenerate the page with `WRITE_PAGE=1 pytest tests/repository/test_errors_page.py`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pytest

from airflow_adaptive._airflow.process.loop_events import superseded_event
from airflow_adaptive._core import failure_code
from airflow_adaptive._core.failure_code import FailureCode, error_code
from airflow_adaptive._core.ports import DriverLog, DriverSubmission, PortError
from airflow_adaptive._core.protocol.documents import FORMATS
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._web.data import control_requests
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.operators.job_control import SetResourceRequirementsOperator, StopAdaptiveJobOperator
from airflow_adaptive.sensors.adaptive_job import AdaptiveJobSensor
from tests.lab.simulation.one_job import Simulation
from tests.repository.error_situations import (
    Desk,
    account_without_rights,
    answer,
    by_hand,
    checkpoint_of_another_query,
    damaged_checkpoint,
    dies,
    down,
    end_of,
    equal_failures,
    exit_code,
    failed,
    falls_silent,
    hanging_storage,
    lost_node,
    missing_input,
    no_answer,
    not_writable,
    other_master,
    other_python,
    other_sizes,
    other_spark,
    query_before_the_job,
    refused,
    refused_executors,
    relative_checkpoint,
    returned_nothing,
    returned_other_queries,
    started_a_query,
    table_created_again,
    too_small,
    topic_created_again,
    with_driver,
    without_loop,
)
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_documents import batch
from tests.support.repository import ROOT
from tests.unit._engine.observation.test_driver_log_diagnosis import (
    IMPORT_ERROR,
    NO_EXECUTORS,
    NO_MASTER,
    NO_PYTHON,
    UNPUBLISHED_PACKAGE,
)

PAGE = ROOT / "docs" / "reference" / "errors.md"
WRITE = "WRITE_PAGE"

HEAD = """# Errors

Each heading is the code of an error. The text of a failure of a job begins with its code (`DRIVER_LOST: the driver's process has ended`), which is a code of this package, the
name of an exception, or an error condition of Spark. Every other text ends with its code in brackets (`[owned-job]`). In the problem details of the REST API, `type` ends with
the code. Search this page for the words of your error. Each entry names the place where the error appears.

"""

OWN_CODE: Final = re.compile(r"\[([a-z-]+)\]$")
FAILURE: Final = re.compile(r"(?:job 'departures' failed: )?(?:[a-z]\w*\.)*([A-Z]\w+)(?:\.\w+)?: ")
"""The text of a failure: its code is the simple name of the exception, or the error condition without its subclass."""

MEANINGS: Final = dict(
    re.findall(r'    (\w+) = "\w+"\n    """(.+?)"""', Path(failure_code.__file__).read_text(), re.DOTALL)
)
"""Code of this package -> what it means."""

PROBLEMS: Final = {
    "batch": "A batch job keeps the parallelism with which it was submitted. Change its bounds in its DAG.",
    "canceling": "The job is being canceled, which cannot be undone. Wait for its end, and run its DAG again.",
    "cluster-refused": "The cluster has no place for the job, or its policies refuse it. The text quotes them. Change the cluster or the parameters of the job.",
    "cluster-unreachable": "The cluster manager does not answer, or refuses the credentials. The text quotes its last answer. The job continues where it can, and the loop asks again.",
    "credentials": "The credentials of the connection cannot be loaded. Correct the connection; see [connections](connections.md).",
    "cross-site": "A page of another site sent the request. Use the page of Airflow, or a client that is not a browser.",
    "database-unavailable": "Airflow's database does not answer the API server. Retry the request.",
    "finished": "The job has ended, so that nothing can be changed or stopped. Run its DAG again.",
    "forbidden": "You need the permission for every DAG that runs the job. An administrator of Airflow gives it.",
    "internal": "The request failed for a reason that only the log of the API server contains.",
    "invalid-expiry": "The duration or the end of an override is malformed or in the past. Correct it.",
    "invalid-parameters": "A parameter of the request is invalid. The text names it.",
    "invalid-requirements": "The bounds do not fit the job. Each line is one violation. See [change bounds](../guides/change-bounds.md).",
    "lost-update": "Another user has changed the bounds since you read them. Read them again, and repeat the change.",
    "no-checkpoint": "The job has no checkpoint in its directory, so that a reset has no effect.",
    "missing-kafka": "The triggerers do not have the library of Kafka. Install `airflow-adaptive[kafka]`, or remove `kafka_conn_id`.",
    "no-directory": "The job was never deployed. Run its DAG.",
    "no-driver": "The job has had no driver, or none of its recent journal. Run its DAG.",
    "not-confirmed": "The command asks before it does what cannot be undone. Answer `y`, or use `--yes`.",
    "not-found": "The job does not exist before its first run, or you may not read its DAGs.",
    "not-persisted": "The database did not store the request, which therefore has no effect. Retry it.",
    "other-version": "Airflow's components have different versions of airflow-adaptive. Install the same version, and clear the task.",
    "port": "An external system cannot be used. The text names it.",
    "reactive": "A job in reactive mode uses all slots and ignores bounds. See `reactive` in [options](options.md).",
    "requirements": "The bounds do not fit the job. See [change bounds](../guides/change-bounds.md).",
    "run-gone": "The DAG run of the suspended job was deleted. Trigger the DAG; the job continues from its checkpoint.",
    "running": "The job has not ended, or has started again. Suspend or cancel it, and wait for its end.",
    "scale-up-controller": "A class of `scale_up_controller` cannot be loaded, or has failed. See [options](options.md).",
    "snapshot": "Another version of airflow-adaptive wrote a document. Install the same version in all components, and clear the task.",
    "source-unreachable": "No broker answers the triggerer. The text names the servers. The lag of the job is unknown until one does.",
    "store-unavailable": "Airflow's API server or secrets backend does not answer. Retry, or clear the task.",
    "submission-refused": "The cluster refuses the driver. The text quotes the reason, for example a quota or an invalid pod template.",
    "suspended": "The job is suspended already. Resume it before another change.",
    "suspending": "The job is stopping. Retry when Airflow has ended its task.",
    "timeout": "What the command, the sensor or the operator waits for has not come in time.",
    "too-large": "The body of the request is larger than 64 KiB.",
    "too-many-subscribers": "Too many pages watch jobs on this API server. The page retries.",
    "too-many-subscriptions": "You watch too many jobs on this API server. Close other pages.",
    "unavailable": "An external system does not answer now, or the REST API could not be imported, for example with an untested version of Airflow. The text names the cause.",
    "unbounded": "Nothing limits the namespace, so that its free capacity is unknown. Set `max-cores`; see [connections](connections.md).",
    "unknown-log": "The cluster has no output of the driver: it has written nothing, or its output was removed, on Kubernetes with its pod. After a failure, the log of the task "
    "contains the end of the output.",
    "unknown-state": "The job has published no state yet, or an unreadable one. Retry in some seconds.",
    "unreachable": "The API server, or the machine of the command, cannot use the job directory or the cluster. The text names the cause. See "
    "[connections](connections.md).",
    "unsupported-media-type": "The request has no header `Content-Type: application/json`.",
    "usage": "An argument of the command is invalid. The text names it; see [commands](cli.md).",
}
"""Code of a problem of the REST API and the commands -> its meaning, and what to do."""

NAMED_PROBLEM: Final = re.compile(
    r'(?:conflict\(|NotRescalableError\(|HTTPStatus\.\w+,|kind =|1,)\s*"([a-z]+(?:-[a-z]+)*)"'
)
"""How the sources name the codes of problems."""

TOO_MUCH = scheduled_policy(zone="UTC", windows=[window("day", (2, 9), start="08:00", end="20:00")])


class Row(NamedTuple):
    """A condition, its message, and the remedy."""

    condition: str
    message: str
    advice: str

    @property
    def code(self) -> str:
        """The code of the error."""
        found = FAILURE.match(self.message) or OWN_CODE.search(self.message)
        assert found, self.message
        return found[1]


def in_the_dag_file(desk: Desk) -> list[Row]:
    return [
        Row(
            "function that uses a name of the DAG file",
            desk.import_error("return spark.readStream.text(INPUT).writeStream", before='INPUT = "/data"'),
            "See [the function in the DAG file](scripts.md#the-function-in-the-dag-file).",
        ),
        Row(
            "function that starts its query",
            desk.import_error("return spark.readStream.text('/data').writeStream.start()"),
            "Return the writer.",
        ),
        Row(
            "positional arguments",
            desk.import_error("return spark", parameters="spark, parallelism, path", call="departures('/data')"),
            'Write `departures(path="/data")`.',
        ),
        Row(
            "Airflow's context as a parameter",
            desk.import_error("return spark", parameters="spark, parallelism, ds"),
            "Pass a template in the call.",
        ),
        Row("other first parameters", desk.import_error("return spark", parameters="session"), "Rename them."),
        Row("id with other characters", desk.refusal(job="départs"), "Rename the job."),
        Row(
            "one job in two tasks of a DAG",
            desk.import_error("return spark", call="[departures() for _ in range(2)]"),
            "Use two ids.",
        ),
        Row("job without bounds", desk.refusal(parallelism=None), "Declare the bounds."),
        Row(
            "mapped function without the parameter `job`",
            desk.import_error("return spark", call="departures.expand(job=['a', 'b'])"),
            "Each item then has a job of its own.",
        ),
        Row("invalid rescale policy", desk.invalid(lambda: LoadPolicy(target=2)), "Correct the values."),
    ]


def declared(desk: Desk) -> list[Row]:
    (desk.folder / "broken.py").write_text("def departures(:\n")
    return [
        Row(
            "unknown connection",
            desk.refusal(conn_id="spark_test"),
            "Define the connection, or use another connection. Airflow retries the task, because it reports the same if its secrets backend does not answer.",
        ),
        Row(
            "connection of another cluster manager",
            desk.refusal(conn_id="yarn"),
            "Use a connection to a Spark standalone cluster or to a Kubernetes cluster. No other cluster manager is supported.",
        ),
        Row(
            "script missing",
            desk.refusal(application=f"{desk.folder}/gone.py"),
            "Use a path that Airflow can read. Spark does not need the path.",
        ),
        Row("script with a syntax error", desk.refusal(application=f"{desk.folder}/broken.py"), "Correct the line."),
        Row("lower bound above the upper", desk.refusal(parallelism=(4, 1)), "Swap the bounds."),
        Row("a bound of zero", desk.refusal(parallelism=(0, 4)), "Use a lower bound of at least 1."),
        Row(
            "bound above the maximum",
            desk.refusal(parallelism=(1, 8), max_parallelism=4),
            "Increase `max_parallelism`. A job with a checkpoint adopts it [by a repartition](../internals/state-repartition.md) on Spark 4.2 and later.",
        ),
        Row("bounds that are not numbers", desk.refusal(parallelism="1-4"), "Write `(1, 4)`."),
        Row(
            "misspelled parameter",
            desk.refusal(stop_timout="5 s"),
            "Correct the name. Airflow reports this error as an import error of the DAG.",
        ),
        Row(
            "parameters of SparkSubmitOperator",
            desk.refusal(num_executors=4, verbose=True),
            "See [from SparkSubmitOperator](../start/from-spark-submit.md). Airflow reports this error as an import error of the DAG.",
        ),
        Row(
            "JVM application",
            desk.refusal(application="/opt/jobs/departures.jar"),
            "Write a PySpark script, or use `SparkSubmitOperator`.",
        ),
        Row(
            "jar missing",
            desk.refusal(jars="/opt/jars/gone.jar"),
            "Use a path that Airflow can read, or a URI that Spark can read.",
        ),
        Row(
            "file that is not an archive",
            desk.refusal(archives="s3a://models/model.bin#model"),
            "Use an archive of a type that Spark unpacks.",
        ),
        Row(
            "unknown option of Flink's",
            desk.refusal(**{"jobmanager.adaptive-scheduler.scaling-interval.mini": "5 s"}),
            "See [options](options.md) for all names.",
        ),
        Row("malformed duration", desk.refusal(stop_timeout="soon"), "Use one of these forms."),
        Row("contradictory options", desk.refusal(scaling_interval_max="10 s"), "See [options](options.md)."),
        Row(
            "object that is not a rescale policy",
            desk.refusal(rescale_policy="daily"),
            "See [rescale policies](../concepts/policies.md).",
        ),
        Row(
            "rescale policy beyond the job's maximum",
            desk.refusal(rescale_policy=TOO_MUCH),
            "Or increase the `max_parallelism` of the job.",
        ),
        Row("memory below the minimum of Spark", desk.refusal(executor_memory="100m"), "Increase the memory."),
        Row(
            "Spark property that a parameter determines",
            desk.refusal(conf={"spark.executor.memory": "4g"}),
            "Use the parameter of the operator.",
        ),
        Row(
            "secret in the DAG",
            desk.refusal(conf={"spark.hadoop.fs.s3a.secret.key": "..."}),
            'Move the secret to the extra field of the connection: `{"secret-conf": {...}}` or `{"secret-env": {...}}`. See [secrets](../guides/secrets.md).',
        ),
        Row(
            "several violations",
            desk.refusal(executor_memory="100m", stop_timeout="soon"),
            "Correct all violations. One message lists all of them.",
        ),
        Row(
            "job directory not absolute",
            desk.refusal(job_directory="jobs"),
            "Use an absolute URI. Airflow and Spark must access the same folder.",
        ),
        Row(
            "object store whose Airflow provider is missing",
            desk.refusal(job_directory="gs://streaming/jobs"),
            "Install the extra of the storage into the environment of every Airflow component.",
        ),
        Row(
            "job directory not writable",
            not_writable(),
            "Correct the permissions. Airflow retries the task if the task has retries.",
        ),
        Row(
            "job directory that hangs",
            hanging_storage(),
            "Restore the connection between Airflow and the storage. Until then the driver continues, and the loop changes nothing (see `job_directory_timeout`).",
        ),
        Row("directory of another job", desk.refused_log("arrivals"), "Use a different folder for each job."),
        Row(
            "the same job in two tasks",
            desk.second_task(),
            "The first task that runs a job owns it, also after its end. See [Move a job to another task](../guides/move.md#move-a-job-to-another-task).",
        ),
        Row(
            "written by a newer version",
            desk.refused_log("departures", format=FORMATS[-1] + 1),
            "Install the same version in all Airflow components.",
        ),
    ]


def at_the_cluster() -> list[Row]:
    foreign = httpx.Response(200, text="<html>")
    return [
        Row(
            "master down, at the start or later",
            answer(refused(), lambda cluster: cluster.snapshot()),
            "Restart the master. Without the master the scheduler makes no decision, and running queries continue.",
        ),
        Row(
            "not a master",
            answer(foreign, lambda cluster: cluster.snapshot()),
            "Correct the host and the ports of the connection.",
        ),
        Row(
            "REST server of the master off",
            answer(
                refused(), lambda cluster: cluster.submit(DriverSubmission(name="n", epoch=1, nonce="n", script="s"))
            ),
            "Turn the REST server on. Until then the job restarts with backoff.",
        ),
        Row(
            "master requires a token",
            answer(httpx.Response(401), lambda cluster: cluster.snapshot()),
            "Set the password of the connection.",
        ),
    ]


def in_the_driver() -> list[Row]:
    def launched_without_java(simulation: Simulation, driver: str) -> None:
        reason = 'Exception from the cluster: java.io.IOException: Cannot run program "/opt/java/bin/java": error=2'
        simulation.cluster.kill_driver(driver, reason)

    return [
        Row(
            "script that does not import",
            failed(with_driver(dies(IMPORT_ERROR))),
            "Install the module, or add it to `py_files`. The job does not restart.",
        ),
        Row(
            "package that is not published",
            failed(with_driver(dies(UNPUBLISHED_PACKAGE))),
            "Correct `packages`. The job does not restart. See [packages](../start/from-spark-submit.md#packages).",
        ),
        Row(
            "topic of Kafka that was created again",
            topic_created_again(),
            "Decide how to continue. The job does not restart. See [lost records](../guides/kafka.md#lost-records).",
        ),
        Row(
            "table of Delta Lake that was created again",
            table_created_again(),
            "Rename the query or the job. The job does not restart. See [tables as sources](../guides/tables.md#tables-as-sources).",
        ),
        Row(
            "missing or damaged file of a checkpoint",
            damaged_checkpoint(),
            "Follow one of the ways that the message names. The job does not restart, and no batch was written. See [damaged checkpoints](../guides/damaged-checkpoints.md).",
        ),
        Row(
            "account of the driver without rights to the storage or the brokers",
            account_without_rights(),
            "Give the account the rights. Before the first run of a plan, the job does not restart. Afterwards it restarts with backoff, because a token "
            "may have expired.",
        ),
        Row(
            "checkpoint of another query: other sources, operators, schemas or input folders",
            checkpoint_of_another_query(),
            "Restore the earlier query, or begin with a new checkpoint. The job does not restart.",
        ),
        Row(
            "the same failure again and again before the first batch",
            equal_failures(),
            "Remove the cause. The job does not restart. See [failures before the first batch](options.md#failures-before-the-first-batch).",
        ),
        Row(
            "script that starts no query, and never calls `run`",
            failed(with_driver(lambda simulation, driver: simulation.cluster.finish_driver(driver))),
            "Correct the script, or see [batches](../guides/batches.md). The job does not restart.",
        ),
        Row(
            "script that sets a master",
            other_master(),
            "Correct the script. The job does not restart.",
        ),
        Row(
            "script that sets a property which a parameter of the operator determines",
            other_sizes(),
            "Correct the script. The job does not restart. See [the session](scripts.md#the-session).",
        ),
        Row(
            "[script without `AdaptiveJob`](../guides/unmanaged-scripts.md) whose checkpoint does not outlive its driver",
            relative_checkpoint(),
            "Correct the location. The job does not restart, and the query has not started.",
        ),
        Row(
            "script whose input is missing",
            missing_input(),
            "Use an absolute path that all workers can access.",
        ),
        Row(
            "script that starts a query itself, and then calls `run`",
            query_before_the_job(),
            "Correct the script. The job does not restart.",
        ),
        Row(
            "script without `AdaptiveJob` that ends itself",
            exit_code(),
            "The job restarts with backoff. With exit code 0 the job finishes.",
        ),
        Row(
            "script whose function starts its query",
            started_a_query(),
            "Correct the function. The job does not restart.",
        ),
        Row(
            "script whose function returns nothing",
            returned_nothing(),
            "Correct the function. The job does not restart.",
        ),
        Row(
            "script whose function returns other queries for another plan",
            returned_other_queries(),
            "Correct the function. The queries continue with the previous plan (`rejection` in the driver status).",
        ),
        Row(
            "Python missing on a worker",
            failed(with_driver(dies(NO_PYTHON))),
            "Install Python. The job restarts with backoff.",
        ),
        Row(
            "Java missing on a worker",
            failed(with_driver(launched_without_java)),
            "Install Java. The job restarts with backoff.",
        ),
        Row(
            "no executor stays alive: no Java, no memory, a wrong image",
            failed(with_driver(dies(DriverLog(stderr=NO_EXECUTORS.stderr.splitlines()[-1])))),
            "Read the logs of the workers. The job restarts with backoff.",
        ),
        Row(
            "workers with another version of Spark than the master",
            failed(with_driver(dies(NO_MASTER))),
            "Install the same version of Spark on the master and all workers.",
        ),
        Row(
            "executors with another version of Python than the driver",
            other_python(),
            "Use one version of Python. The job does not restart.",
        ),
        Row(
            "image of the executors with another version of Spark than the image of the driver",
            other_spark(),
            "Use one image, or images with the same version of Spark. The job does not restart.",
        ),
        Row(
            "driver that ends before its first driver status, without output",
            failed(with_driver(dies(DriverLog()))),
            "Read the log of the worker and the system log. Another program may have killed the driver.",
        ),
        Row("script that a user runs with spark-submit", by_hand(), "Run the script with the operator."),
        Row(
            "driver that hangs",
            falls_silent(),
            "The scheduler kills and replaces the driver. If the error repeats, read the thread dump of the driver.",
        ),
        Row(
            "submission without an answer, for example because `rest-port` is the port of the master URL",
            no_answer(),
            "Correct the connection. A driver may exist, so the job waits for the end of its lease before it submits another one.",
        ),
        Row(
            "node or worker of the driver lost",
            lost_node(),
            "The scheduler waits for the end of the lease, and starts another driver. Repair the node.",
        ),
        Row(
            "executors that do not arrive within `deploy_timeout`",
            refused_executors(),
            "Correct what the driver's log names, here the pod template of the executors. The job restarts with backoff.",
        ),
    ]


def at_the_end(desk: Desk) -> list[Row]:
    taken_over = superseded_event(SupersededError(7, "departures/job/manual__2026/2f6c#loop"))
    return [
        Row(
            "the same job in two runs",
            desk.end(taken_over),
            "The newest run controls the job, and the task of the earlier run fails without a retry. The log of the newer task contains a warning "
            "with the earlier task. Set `max_active_runs=1`.",
        ),
        Row(
            "cluster too small for the minimum until `resource_wait_timeout`",
            desk.end(end_of(too_small())),
            "Add workers, or find the application that uses the cores in the web UI of the master.",
        ),
        Row(
            "master down until `resource_wait_timeout`",
            desk.end(end_of(down())),
            "Restart the master, and retry the task. A job that has run before waits without a timeout.",
        ),
        Row(
            "script that does not import",
            desk.end(end_of(with_driver(dies(IMPORT_ERROR)))),
            "Correct the script. Airflow does not retry the task.",
        ),
        Row(
            "cancellation by a user",
            desk.end({"outcome": "CANCELED", "timed_out": False}),
            "Airflow does not retry the task.",
        ),
    ]


def without_a_loop() -> list[Row]:
    return [
        Row(
            "the task has ended or was deleted, and nothing has published the end of the job: for example, a user marked the task while no triggerer ran",
            without_loop(control_requests._require_loop),
            "The driver may run. Cancel the job, so that a triggerer stops the driver, or run the DAG again, so that the next loop takes the driver "
            "over. See [troubleshooting](../guides/troubleshoot.md#states-and-remedies).",
        ),
        Row(
            "a job without a control loop of which nothing is published",
            without_loop(control_requests.base_of),
            "Find the driver in the web UI of the cluster, and kill the driver.",
        ),
    ]


def in_other_dags(desk: Desk) -> list[Row]:
    shrink = SetResourceRequirementsOperator(task_id="shrink", job="departures", parallelism=1)
    return [
        Row(
            "operator for a job that Airflow does not know",
            desk.task_error(shrink),
            "Write the id as in the DAG of the job.",
        ),
        Row(
            "override for a batch job",
            desk.task_error(shrink, batch()),
            "Change its bounds in its DAG.",
        ),
        Row(
            "sensor for a state that does not exist",
            desk.task_error(AdaptiveJobSensor(task_id="wait", job="departures", states="Excuting")),
            "Use a state of [the list](../concepts/states.md), or an outcome.",
        ),
        Row(
            "job that does not end in time",
            desk.late(StopAdaptiveJobOperator(task_id="stop", job="departures")),
            "A retry waits for the end again.",
        ),
        Row(
            "sensor whose state does not come in time",
            desk.late(AdaptiveJobSensor(task_id="wait", job="departures", states="Executing")),
            "Increase `timeout`, or see [troubleshooting](../guides/troubleshoot.md) for the state of the job.",
        ),
    ]


def page(desk: Desk) -> str:
    parts = {
        "import error of the DAG": in_the_dag_file(desk),
        "log of the task, at its start": declared(desk),
        "log of the task, after `the cluster does not answer`": at_the_cluster(),
        "log of the task, the page, and the XComs `failures` and `transitions`": in_the_driver(),
        "log of the task, at its end": at_the_end(desk),
        "REST API, page and command line": without_a_loop(),
        "log of a task that observes or changes a job": in_other_dags(desk),
    }
    entries: dict[str, list[str]] = {
        code: []
        for code in sorted(
            {row.code for rows in parts.values() for row in rows} | {*FailureCode} | PROBLEMS.keys(), key=str.lower
        )
    }
    for place, rows in parts.items():
        for row in rows:
            entries[row.code].append(
                f"**{row.condition[0].upper()}{row.condition[1:]}** ({place}):\n\n> {row.message}\n\n{row.advice}\n"
            )
    texts = [
        "\n".join([*(f"{texts[code]}\n" for texts in (MEANINGS, PROBLEMS) if code in texts), *found])
        for code, found in entries.items()
    ]
    return HEAD + "\n".join(f"## {code}\n\n{text}" for code, text in zip(entries, texts, strict=True))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_default: None) -> Desk:
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn"}))
    return Desk(tmp_path, FakeComms.install(monkeypatch))


def test_page_shows_what_the_code_states(desk: Desk) -> None:
    page_text = page(desk)
    if os.environ.get(WRITE):
        PAGE.write_text(page_text)
    assert PAGE.read_text() == page_text


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


def test_every_message_is_one_line_with_the_job_named_at_most_once(desk: Desk) -> None:
    rows = [
        *in_the_dag_file(desk),
        *declared(desk),
        *at_the_cluster(),
        *in_the_driver(),
        *at_the_end(desk),
        *without_a_loop(),
    ]
    for row in rows:
        assert row.code, row.condition
        assert OWN_CODE.search(row.message) or not row.message.startswith("job 'departures': "), row.condition
        assert "\n" not in row.message, row.condition
        assert row.message.count("job 'departures'") <= 1, row.condition
        assert "Traceback" not in row.message, row.condition
