"""The diagnosis of a driver's log: a cause in the failure, and lines in the task log."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import ClusterUnreachableError, DriverLog, SubmissionState, SubmissionStatus
from airflow_adaptive._core.scheduler.events import DriverSubmitted
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._engine.observation import driver_log_diagnosis
from airflow_adaptive._engine.observation.driver_log_diagnosis import (
    MESSAGE_CHARACTERS,
    DriverLogDiagnosis,
    explain,
    logged_problem,
)
from airflow_adaptive._engine.observation.observer import JobObservation
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.scenario import Scenario
from tests.lab.simulation.one_job import Simulation

LOST = Failure(error_class=FailureCode.DRIVER_LOST, message="the driver's process has ended (FAILED)")
WORKER = "h1:7078"

BEGINNING = (
    'Launch Command: "/usr/bin/java" "-cp" "/spark/jars/*" "org.apache.spark.deploy.worker.DriverWrapper"\n'
    "========================================\n\n"
    "WARNING: Using incubator modules: jdk.incubator.vector\n"
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties\n"
    "26/11/21 08:37:26 INFO DriverWrapper: Driver address: 127.0.0.1:34689\n"
)

IMPORT_ERROR = DriverLog(
    stdout="hello\n"
    "Traceback (most recent call last):\n"
    '  File "/jobs/code/departures.py", line 3, in <module>\n'
    "    import airports\n"
    "ModuleNotFoundError: No module named 'airports'\n",
    stderr=BEGINNING,
)

UNPUBLISHED_PACKAGE = DriverLog(
    stdout="Traceback (most recent call last):\n"
    '  File "/tmp/spark-1/airflow_adaptive.zip/airflow_adaptive/job/entry/packages.py", line 60, in resolve_packages\n'
    "airflow_adaptive.job.entry.packages.UnpublishedPackageError: the packages cannot be resolved: [unresolved dependency: "
    "org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]; the newest published version of "
    "org.apache.spark:spark-sql-kafka-0-10_2.13 is 4.2.0\n",
    stderr=BEGINNING,
)

ANALYSIS_ERROR = DriverLog(
    stdout="Traceback (most recent call last):\n"
    '  File "/jobs/code/departures.py", line 7, in <module>\n'
    "    spark.read.parquet('/nowhere').show()\n"
    '  File "/spark/python/lib/pyspark.zip/pyspark/sql/readwriter.py", line 699, in parquet\n'
    "pyspark.errors.exceptions.captured.AnalysisException: [PATH_NOT_FOUND] Path does not exist: file:/nowhere.\n"
)

NO_PYTHON = DriverLog(
    stderr=BEGINNING + 'Exception in thread "main" java.lang.reflect.InvocationTargetException\n'
    "\tat java.base/java.lang.reflect.Method.invoke(Method.java:569)\n"
    'Caused by: java.io.IOException: Cannot run program "/nowhere/python3": error=2, No such file or directory\n'
    "\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n"
    "\t... 6 more\n"
    "Caused by: java.io.IOException: error=2, No such file or directory\n"
    "\tat java.base/java.lang.ProcessImpl.forkAndExec(Native Method)\n"
)


EXECUTOR = "26/11/21 08:38:02 INFO StandaloneAppClient$ClientEndpoint: Executor"

NO_MASTER = DriverLog(
    stdout="py4j.protocol.Py4JJavaError\n: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n",
    stderr="26/11/28 21:07:17 INFO SparkContext: Running Spark version 4.1.4\n"
    "26/11/28 21:08:23 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! Giving up.\n",
)

NO_EXECUTORS = DriverLog(
    stdout="Traceback (most recent call last):\n"
    "py4j.protocol.Py4JJavaError: Cannot call methods on a stopped SparkContext.\n",
    stderr=BEGINNING + f"{EXECUTOR} added: app-1/8 on worker-1-h2-7078 (h2:7078) with 1 core(s)\n"
    f"{EXECUTOR} updated: app-1/8 is now EXITED (Command exited with code 1)\n"
    f"{EXECUTOR} added: app-1/9 on worker-1-h3-7078 (h3:7078) with 1 core(s)\n"
    f"{EXECUTOR} updated: app-1/9 is now RUNNING\n"
    f"{EXECUTOR} updated: app-1/9 is now FAILED (Error running executor: java.io.IOException: Cannot run program "
    '"/opt/java/bin/java" (in directory "/work"): error=2, No such file or directory)\n'
    "26/11/21 08:38:03 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: Master removed our "
    "application: FAILED\n",
)


def explained(log: DriverLog, *, reported: bool = False) -> Failure:
    return explain(LOST, log, WORKER, reported=reported)


def test_script_that_does_not_import_names_module_line_and_fix() -> None:
    failure = explained(IMPORT_ERROR)
    assert failure.summary == (
        "ModuleNotFoundError: No module named 'airports' (departures.py:3): install the module on the workers, or add it to "
        "`py_files`"
    )
    assert not is_recoverable(failure)


@pytest.mark.parametrize(
    ("py_files", "advice"),
    [
        ([], "install the module on the workers, or add it to `py_files`"),
        (["other.py"], "install the module on the workers, or add it to `py_files`"),
        (
            ["airports.py"],
            "`py_files` contains airports.py, but the process in which Spark runs streaming readers of Python data sources does not get "
            "`py_files`: install the module on the workers, or in their image",
        ),
        (
            ["libs.zip"],
            "install the module on the workers, or in their image, or add it to libs.zip in `py_files`; the process in which Spark runs "
            "streaming readers of Python data sources does not get `py_files`",
        ),
    ],
)
@pytest.mark.parametrize("reported", [False, True])
def test_advice_for_a_missing_module_does_not_name_what_the_job_declares(
    py_files: list[str], advice: str, reported: bool
) -> None:
    uris = [f"file:///jobs/code/{name}" for name in ("departures.py", *py_files)]
    reports = Failure(error_class="PythonException", message="ModuleNotFoundError: No module named 'airports'")
    failure = explain(reports if reported else LOST, IMPORT_ERROR, WORKER, uris, reported=reported)
    assert failure.message.endswith(f": {advice}")


@pytest.mark.parametrize("module", ["airflow", "airflow.sdk", "airflow_adaptive.operators"])
def test_module_of_airflow_has_the_advice_to_pass_an_argument(module: str) -> None:
    """The module is in a file of `py_files`, or the script imports it."""
    failure = explain(
        Failure(error_class="ModuleNotFoundError", message=f"No module named '{module}'"),
        IMPORT_ERROR,
        WORKER,
        ["shop.py"],
        reported=True,
    )
    assert failure.message == (
        f"No module named '{module}': Airflow is not on the workers: do not import it there, and pass what the script needs from it as an argument"
    )


def test_package_that_is_not_published_is_the_cause() -> None:
    failure = explained(UNPUBLISHED_PACKAGE)
    assert failure.message == (
        "the packages cannot be resolved: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]; "
        "the newest published version of org.apache.spark:spark-sql-kafka-0-10_2.13 is 4.2.0"
    )
    assert not is_recoverable(failure)


def test_sparks_own_error_class_is_the_failures() -> None:
    failure = explained(ANALYSIS_ERROR)
    assert failure.summary.startswith(
        "PATH_NOT_FOUND: [PATH_NOT_FOUND] Path does not exist: file:/nowhere. (departures.py:7): the script runs from a copy, in the working "
        "folder of its driver on a worker"
    )
    assert not is_recoverable(failure)


@pytest.mark.parametrize(
    "message",
    [
        "[PATH_NOT_FOUND] Path does not exist: file:/work/in",
        "[Errno 2] No such file or directory: 'config.yaml'",
        "java.io.FileNotFoundException: File file:/work/in does not exist",
    ],
)
def test_error_for_a_missing_input_explains_that_the_script_runs_from_a_copy(message: str) -> None:
    failure = explain(Failure(error_class="reported", message=message), DriverLog(), WORKER, reported=True)
    assert failure.message.startswith(f"{message}: the script runs from a copy")
    assert failure.message.endswith("use an absolute path that all workers can access, or the parameter `files`")


@pytest.mark.parametrize(("has_run", "recoverable"), [(False, False), (True, True)])
def test_mistake_of_the_script_is_hopeless_until_the_job_has_run(has_run: bool, recoverable: bool) -> None:
    raised = 'Traceback (most recent call last):\n  File "/jobs/x.py", line 2, in <module>\nIndexError: out of range\n'
    assert is_recoverable(explained(DriverLog(stdout=raised)), has_run=has_run) is recoverable


def test_missing_python_names_worker_and_fix() -> None:
    assert explained(NO_PYTHON).summary == (
        'java.io.IOException: Cannot run program "/nowhere/python3": error=2, No such file or directory: Python is '
        "missing on worker h1:7078: install Python there, or set PYSPARK_PYTHON in `env_vars` to another interpreter"
    )
    assert is_recoverable(explained(NO_PYTHON))


def test_missing_java_is_reported_by_the_cluster_itself() -> None:
    message = 'ended (FAILED) java.io.IOException: Cannot run program "/nowhere/java/bin/java" (in directory "/work")'
    failure = explain(replace(LOST, message=message), DriverLog(), WORKER, reported=False)
    assert failure.message == f"{message}: Java is missing on worker h1:7078: install Java there, or correct JAVA_HOME"


@pytest.mark.parametrize("thread", ["main", "stream execution thread"])
def test_memory_that_ran_out_is_the_cause(thread: str) -> None:
    stderr = f'{BEGINNING}Exception in thread "{thread}" java.lang.OutOfMemoryError: Java heap space\n'
    assert explained(DriverLog(stderr=stderr)).summary == "java.lang.OutOfMemoryError: Java heap space"


def test_exception_that_a_running_driver_wrote_is_no_result() -> None:
    failure = explained(IMPORT_ERROR, reported=True)
    assert failure.error_class == FailureCode.DRIVER_LOST
    assert "ModuleNotFoundError: No module named 'airports'" in failure.message
    assert is_recoverable(failure)


def test_exception_that_the_reason_contains_is_not_repeated() -> None:
    text = "ModuleNotFoundError: No module named 'airports' (departures.py:3)"
    failure = replace(LOST, message=f"driver pod p was deleted; {text}")
    assert explain(failure, IMPORT_ERROR, "", reported=True).message.count(text) == 1


def test_without_an_exception_the_last_lines_that_matter_are_reported() -> None:
    noise = "26/11/21 08:38:09 WARN MicroBatchExecution: Disabling AQE\n"
    lines = noise + "".join(
        f"26/11/21 08:38:0{i} ERROR TaskSchedulerImpl: Lost executor {i}\n\tat frame\n" for i in range(7)
    )
    message = explained(DriverLog(stderr=BEGINNING + lines + noise)).message
    assert message.startswith("the driver's process has ended (FAILED); its last output: 26/11/21 08:38:02 ERROR")
    assert message.endswith("Lost executor 6")
    assert message.count("Lost executor") == 5
    assert "frame" not in message


def test_what_ivy_reports_about_packages_is_not_quoted() -> None:
    written = (
        ":: loading settings :: url = jar:file:/opt/spark/jars/ivy-2.5.3.jar!/org/apache/ivy/core/settings/ivysettings.xml\n"
        "https://repository.example.org/maven added as a remote repository with the name: repo-1\n"
        "Ivy Default Cache set to: /root/.ivy2.5.2/cache\n"
        "The jars for the packages stored in: /root/.ivy2.5.2/jars\n"
        "org.apache.iceberg#iceberg-spark-runtime-4.1_2.13 added as a dependency\n"
        ":: resolving dependencies :: org.apache.spark#spark-submit-parent-6f0c;1.0\n"
        "\tconfs: [default]\n"
        "downloading https://repo1.maven.org/maven2/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13-1.11.0.jar ...\n"
        ":: retrieving :: org.apache.spark#spark-submit-parent-6f0c\n"
        "::::::::::::::::::::::::::::::::::::::::::::::\n"
    )
    assert explained(DriverLog(stderr=BEGINNING + written)).message == "the driver's process has ended (FAILED)"


def test_plans_and_progress_that_spark_wrote_are_not_the_cause() -> None:
    written = (
        '26/11/21 08:38:09 INFO MicroBatchExecution: made progress: {\n  "batchId" : 1\n}\n~WriteTo Sink\n+- ~Project\n'
    )
    assert explained(DriverLog(stderr=BEGINNING + written)) == LOST


@pytest.mark.parametrize("reported", [True, False])
def test_application_without_executors_names_the_worker_of_the_last_one_and_what_to_do(reported: bool) -> None:
    failure = explained(NO_EXECUTORS, reported=reported)
    assert failure.error_class == FailureCode.APPLICATION_REMOVED
    assert failure.message.startswith(
        "the master removed the application because no executor stayed alive; the last one, "
    )
    assert "on worker h3:7078: Error running executor: java.io.IOException: Cannot run program" in failure.message
    assert failure.message.endswith("Java is missing on worker h3:7078: install Java there, or correct JAVA_HOME")
    assert is_recoverable(failure)


def test_application_whose_executors_are_not_reported_leads_to_the_workers() -> None:
    message = explained(DriverLog(stderr=NO_EXECUTORS.stderr.splitlines()[-1])).message
    assert "no executor stayed alive; see the workers' logs, and check Java (17 or later)" in message


def test_driver_that_the_master_does_not_answer_names_its_version_of_spark() -> None:
    failure = explained(NO_MASTER)
    assert failure.error_class == FailureCode.MASTER_UNRESPONSIVE
    assert failure.message.startswith(
        "the master did not answer the driver, with Spark 4.1.4, which requested executors: install the same"
    )
    assert explained(NO_MASTER, reported=True).error_class != FailureCode.MASTER_UNRESPONSIVE


def test_message_is_bounded() -> None:
    raised = f"Traceback (most recent call last):\nValueError: {'x' * 10_000}\n"
    assert len(explained(DriverLog(stdout=raised)).message) <= MESSAGE_CHARACTERS


def test_secrets_are_masked() -> None:
    raised = "Traceback (most recent call last):\nValueError: jdbc:postgresql://h/db?user=u&password=hush\n"
    stderr = "26/11/21 ERROR AzureBlob: fs.azure.account.key=hush rejected\n"
    assert "hush" not in explained(DriverLog(stdout=raised)).summary
    assert "hush" not in explained(DriverLog(stderr=stderr)).summary


# ---- in the loop ----------------------------------------------------------------------------------------------------


@pytest.fixture
def job() -> Simulation:
    """A job whose drivers never report, with room for one."""
    simulation = Simulation(resource_stabilization_timeout="2 s", driver_heartbeat_timeout="10 min")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.drivers.hang = True
    return simulation


def end_driver(simulation: Simulation, log: DriverLog) -> None:
    driver = next(reversed(simulation.cluster.submissions))
    simulation.cluster.write(driver, stdout=log.stdout, stderr=log.stderr)
    simulation.cluster.kill_driver(driver)


def test_job_whose_script_does_not_import_fails_at_once(job: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    job.clock.at(20, lambda: end_driver(job, IMPORT_ERROR))
    end = job.run_to_end()
    assert end.outcome is Outcome.FAILED
    assert end.cause is not None
    assert end.cause.error_class == "ModuleNotFoundError"
    assert len(job.cluster.submissions) == 1
    assert "stdout |     import airports" in caplog.text


def test_log_that_can_not_be_read_delays_nothing(job: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(_: str) -> DriverLog:
        raise ClusterUnreachableError("http://h1:8081: connection refused")

    monkeypatch.setattr(job.cluster, "driver_log", unreachable)
    job.clock.at(20, lambda: end_driver(job, IMPORT_ERROR))
    job.clock.at(25, lambda: setattr(job.drivers, "hang", False))
    job.clock.at(60, job.drivers.finish)
    assert job.run_to_end().outcome is Outcome.FINISHED
    assert len(job.cluster.submissions) == 2


def test_log_is_reported_once_for_the_same_failure(job: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=driver_log_diagnosis.__name__)
    job.drivers.hang = False
    job.clock.at(20, job.drivers.fail_query)
    job.clock.at(60, job.drivers.finish)
    job.run_to_end()
    assert len([record for record in caplog.records if "SparkException" in record.getMessage()]) == 1


def test_log_of_a_driver_that_ends_in_order_is_not_read(job: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    queried: list[str] = []
    monkeypatch.setattr(job.cluster, "driver_log", queried.append)
    job.drivers.hang = False
    job.clock.at(20, job.drivers.finish)
    assert job.run_to_end().outcome is Outcome.FINISHED
    assert queried == []


# ---- a deadline that the job has missed -----------------------------------------------------------------------------

WARNING = "26/11/21 08:38:09 WARN MicroBatchExecution: Disabling AQE\n"
NO_RESOURCES = (
    "26/11/21 08:38:09 WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI\n"
)
NO_CONNECTION = (
    "26/11/21 08:38:09 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master h1:7077\n"
    "org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
    "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)\n"
    "Caused by: java.io.IOException: Failed to connect to h1/10.0.0.1:7077\n"
    "\tat org.apache.spark.network.client.TransportClientFactory.createClient(TransportClientFactory.java:294)\n"
)


REFUSED_FOLDER = (
    "26/11/28 16:54:10 ERROR JavaUtils: Failed to create directory /tmp/spark-aeb2\n"
    "java.nio.file.FileSystemException: /tmp/spark-aeb2: {cause}\n"
    "\tat java.base/sun.nio.fs.UnixException.translateToIOException(UnixException.java:100)\n"
    'Exception in thread "main" java.io.IOException: Failed to create a temp directory (under /tmp) after 10 attempts!\n'
    "\tat org.apache.spark.network.util.JavaUtils.createDirectory(JavaUtils.java:490)\n"
)


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ("Read-only file system", "mount a writable volume there"),
        ("No space left on device", "free space there"),
        ("Disk quota exceeded", "free space there"),
        ("Permission denied", "let the user of the process on worker h1:7078"),
    ],
)
def test_an_error_of_the_disk_in_the_log_is_part_of_the_reason(cause: str, advice: str) -> None:
    """Spark reports only that it could not create a folder."""
    failure = explain(LOST, DriverLog(stderr=REFUSED_FOLDER.format(cause=cause)), WORKER, reported=False)
    assert failure.error_class == "java.io.IOException"
    begin = "Failed to create a temp directory (under /tmp) after 10 attempts!; java.nio.file.FileSystemException: /tmp/spark-aeb2"
    assert failure.message.startswith(f"{begin}: {cause}: ")
    assert advice in failure.message
    assert explain(failure, DriverLog(), WORKER, reported=False) == failure


@pytest.mark.parametrize(
    ("stderr", "problem"),
    [
        (BEGINNING + WARNING, ""),
        (NO_RESOURCES + WARNING, NO_RESOURCES.strip()),
        (NO_CONNECTION + NO_RESOURCES, "java.io.IOException: Failed to connect to h1/10.0.0.1:7077"),
        ("", ""),
    ],
    ids=["only warnings", "no resources", "an exception", "nothing"],
)
def test_newest_problem_in_the_log_of_a_running_driver_is_found(stderr: str, problem: str) -> None:
    assert logged_problem(stderr) == problem


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("observation", "log", "explanation"),
    [
        (
            JobObservation(
                submission=SubmissionStatus(state=SubmissionState.RUNNING, message="executor e-1 cannot start")
            ),
            DriverLog(waits="executor pod e-1 waits: Unschedulable", stderr=NO_CONNECTION),
            "executor e-1 cannot start; executor pod e-1 waits: Unschedulable; the driver's log: java.io.IOException: Failed to connect to "
            "h1/10.0.0.1:7077",
        ),
        (
            JobObservation(submission=SubmissionStatus(state=SubmissionState.RUNNING, message="an executor ended")),
            DriverLog(waits="an executor ended; its last output: no database"),
            "an executor ended; its last output: no database",
        ),
        (
            JobObservation(submission=SubmissionStatus(state=SubmissionState.RUNNING, message="an executor ended")),
            DriverLog(waits="an executor ended"),
            "an executor ended",
        ),
        (
            JobObservation(submission=SubmissionStatus(state=SubmissionState.SUBMITTED)),
            DriverLog(stderr=NO_CONNECTION),
            "the driver still waits for its start",
        ),
        (
            JobObservation(cluster_error="the cluster does not answer: timeout"),
            DriverLog(),
            "the cluster does not answer: timeout",
        ),
        (JobObservation(), DriverLog(), ""),
    ],
    ids=["executors wait", "executors fail", "one report", "driver waits", "no answer", "nothing known"],
)
async def test_missed_deadline_is_explained_by_what_cluster_and_driver_report(
    observation: JobObservation, log: DriverLog, explanation: str
) -> None:
    async def driver_log(submission_id: str) -> DriverLog:
        assert submission_id == "driver-1"
        return log

    cluster = FakeCluster()
    cluster.driver_log = driver_log  # type: ignore[method-assign]
    job = Scenario().given_deploying(2)
    state = job.when(DriverSubmitted(at=job.now, epoch=1, submission_id="driver-1")).state
    assert await DriverLogDiagnosis(cluster).explain_wait(state, observation) == explanation
