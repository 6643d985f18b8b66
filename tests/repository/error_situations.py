"""Situations in which the code reports an error, for the page of errors."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._airflow import internals
from airflow_adaptive._airflow.process.loop_events import finished_event, task_result
from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.failure_code import error_code, with_code
from airflow_adaptive._core.ports import ClusterUnreachableError, DriverLog, JobDirectoryError, OwnedJobError, PortError
from airflow_adaptive._core.protocol.conf import MissingSettingsError
from airflow_adaptive._core.protocol.documents import Action, Directive, JournalDocument, encode_document, journal_name
from airflow_adaptive._core.python_version import UnsupportedVersionError
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.first_batch import gave_up
from airflow_adaptive._core.scheduler.policies.known_causes import name_artifact, with_remedy
from airflow_adaptive._core.scheduler.state import Finished
from airflow_adaptive._engine.directory_outage import DirectoryOutage
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from airflow_adaptive._engine.observation.driver_log_diagnosis import explain
from airflow_adaptive._web.data.errors import RequestRefusedError
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.metadata_database.state_store import StoreKey
from airflow_adaptive._web.data.published_state import PublishedState
from airflow_adaptive.job.entry.submitted_session import SubmittedSession
from airflow_adaptive.job.entry.unmanaged_script import QueryStart, TransientFolders, UnmanagedScript
from airflow_adaptive.job.queries.script_queries import ScriptQueries
from airflow_adaptive.job.queries.sources.table_commits import TableReplacedError
from airflow_adaptive.job.queries.sources.topic_ids import FILE, KnownTopics, TopicGuard, TopicRecreatedError
from airflow_adaptive.job.queries.writers import AdaptiveJobError, starts_rejected
from airflow_adaptive.job.state.damage import DamagedCheckpointError, require_sound_logs
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario
from tests.lab.simulation.one_job import Simulation
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.operator_fakes import TASK
from tests.support.airflow.published_documents import published
from tests.support.airflow.published_job import CONTEXT
from tests.support.driver.fake_spark import Spark, Stream
from tests.unit.job.state.test_damage import Checkpoint

SCRIPT = "from airflow_adaptive.job import AdaptiveJob\n"


class Desk:
    """A DAG author's desk: a script, a place for jobs, and a connection to a cluster that does not exist."""

    def __init__(self, folder: Path, airflow: FakeComms) -> None:
        self.folder = folder
        self.airflow = airflow
        (folder / "departures.py").write_text(SCRIPT)

    def operator(self, **changes: Any) -> AdaptiveSparkOperator:
        declared: dict[str, Any] = {
            "task_id": "departures",
            "job": "departures",
            "application": str(self.folder / "departures.py"),
            "job_directory": f"file://{self.folder}/jobs",
            "parallelism": 1,
        }
        return AdaptiveSparkOperator(**declared | changes)

    def refusal(self, **changes: Any) -> str:
        """What the task's error says of a wrong declaration."""
        with pytest.raises((AirflowException, TypeError, ValueError)) as raised:
            self.operator(**changes)._spec("attempt", TASK)
        return self._printed(raised.value)

    def import_error(
        self, body: str, parameters: str = "spark, parallelism", call: str = "departures()", before: str = ""
    ) -> str:
        """Return the import error of a DAG file with this function."""
        lines = [
            "from airflow.sdk import DAG, task",
            before,
            'with DAG("flights", schedule=None):',
            '    @task.adaptive_spark(job="departures", job_directory="file:///jobs", parallelism=1)',
            f"    def departures({parameters}):",
            f"        {body}",
            f"    {call}",
        ]
        file = self.folder / f"{uuid4().hex}.py"
        file.write_text("\n".join(lines) + "\n")
        with pytest.raises((TypeError, ValueError)) as raised:
            runpy.run_path(str(file))
        return self._printed(raised.value)

    def refused_log(self, job: str, **fields: Any) -> str:
        """What it says when this is the newest document in the log of its job."""
        directive = Directive(epoch=1, nonce="n", version=1, action=Action.RUN, plan=None)
        document = JournalDocument(job=job, number=1, at="", owner="o", directive=directive, scheduler={})
        log = self.folder / "jobs" / "departures" / "journal"
        log.mkdir(parents=True, exist_ok=True)
        (log / journal_name(1)).write_text(json.dumps(json.loads(encode_document(document)) | fields))
        refused = self.refusal()
        (log / journal_name(1)).unlink()
        return refused

    def second_task(self) -> str:
        """Return the error of a second task that would run a job."""
        directory = FsspecJobDirectory(Storage.at(str(self.folder / "owned")), "departures")
        asyncio.run(directory.claim("arrivals/job"))
        with pytest.raises(OwnedJobError) as raised:
            asyncio.run(directory.claim("departures/job"))
        return f"job 'departures': {self._printed(raised.value)} [{error_code(raised.value)}]"

    def end(self, event: dict[str, Any]) -> str:
        """What the task's error says of such an end."""
        with pytest.raises(AirflowException) as raised:
            task_result("departures", event, None)
        return self._printed(raised.value)

    def invalid(self, make: Callable[[], object]) -> str:
        """What the error says of an object that cannot be made in a DAG file."""
        with pytest.raises(ValueError) as raised:  # noqa: PT011  the page shows the message
            make()
        return self._printed(raised.value)

    def late(self, task: BaseOperator) -> str:
        """What the error of a task says whose wait ends without what it waits for."""
        with pytest.raises(AirflowException) as raised:
            task.execute_complete(CONTEXT, {"status": "timeout", "state": "Created"})  # type: ignore[attr-defined]
        return self._printed(raised.value)

    def task_error(self, task: BaseOperator, job: Scenario | None = None) -> str:
        """What the error of a task says that uses a job, of which Airflow knows what is published; None for nothing."""
        self.airflow.asset_states = {} if job is None else published(job)
        with pytest.raises(AirflowException) as raised:
            task.execute(CONTEXT)
        return self._printed(raised.value)

    def _printed(self, error: BaseException) -> str:
        return str(error).replace(str(self.folder), "/opt/jobs")


def failed(simulation: Simulation) -> str:
    """The newest failure of a job that has run to its end, as the XCom `failures` shows it."""
    simulation.run()
    printed: str = simulation.store.views[-1].recent_failures[-1].failure.summary
    return printed


def with_driver(act: Callable[[Simulation, str], None], **options: Any) -> Simulation:
    """A job whose driver never reports, until something happens to it."""
    simulation = Simulation(resource_stabilization_timeout="2 s", restart_strategy="none", **options)
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.drivers.hang = True
    simulation.clock.at(20, lambda: act(simulation, next(reversed(simulation.cluster.submissions))))
    return simulation


def dies(log: DriverLog) -> Callable[[Simulation, str], None]:
    def act(simulation: Simulation, driver: str) -> None:
        simulation.cluster.write(driver, stdout=log.stdout, stderr=log.stderr)
        simulation.cluster.kill_driver(driver)

    return act


def falls_silent() -> str:
    simulation = Simulation(resource_stabilization_timeout="2 s", restart_strategy="none")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.clock.at(60, lambda: setattr(simulation.drivers, "hang", True))
    return failed(simulation)


def no_answer() -> str:
    """The address of the REST server belongs to a server of another protocol, which closes the connection."""
    simulation = Simulation(resource_stabilization_timeout="2 s", restart_strategy="none")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    disconnected = httpx.RemoteProtocolError("Server disconnected without sending a response.")
    simulation.cluster.submit = client(disconnected).submit  # type: ignore[method-assign]
    return failed(simulation)


def lost_node() -> str:
    return failed(
        with_driver(
            lambda simulation, driver: simulation.cluster.lose_driver(
                driver, "node n1 is not ready: the driver may still run"
            )
        )
    )


def refused_executors() -> str:
    """The driver runs, and cannot create its executors."""
    logged = (
        "26/11/21 08:38:09 WARN ExecutorPodsSnapshotsStoreImpl: Exception when notifying snapshot subscriber.\n"
        "io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: https://h1/api/v1/namespaces/spark/pods. Message: "
        'pods "departures-1-exec-1" is forbidden: violates PodSecurity "restricted:latest".\n'
        "\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.requestFailure(OperationSupport.java:660)\n"
    )
    simulation = with_driver(lambda simulation, driver: simulation.cluster.write(driver, stderr=logged))
    simulation.drivers.hang, simulation.drivers.registers = False, 1000
    return failed(simulation)


def end_of(simulation: Simulation) -> dict[str, Any]:
    """The event by which the trigger tells how a job has ended."""
    loop = simulation.loop()
    state = asyncio.run(loop.run())
    assert isinstance(state.current, Finished)
    return finished_event(state, state.current, None, loop.last_error)


def too_small() -> Simulation:
    simulation = Simulation(parallelism=(3, 4), resource_wait_timeout="10 s")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    return simulation


def down() -> Simulation:
    simulation = Simulation(resource_wait_timeout="10 s")
    simulation.ports = replace(simulation.ports, cluster=client(refused()))
    return simulation


def client(result: httpx.Response | Exception) -> StandaloneCluster:
    def handle(_: httpx.Request) -> httpx.Response:
        if isinstance(result, Exception):
            raise result
        return result

    address = ClusterAddress(masters=(MasterAddress(host="h1"),))
    return StandaloneCluster(address, transport=httpx.MockTransport(handle))


def answer(result: httpx.Response | Exception, request: Callable[[StandaloneCluster], Coroutine[Any, Any, Any]]) -> str:
    """What the client of a cluster says whose master answers so."""

    async def refused() -> str:
        cluster = client(result)
        with pytest.raises((ClusterUnreachableError, PortError)) as raised:
            await request(cluster)
        await cluster.close()
        return with_code(raised.value)

    return asyncio.run(refused())


def refused() -> httpx.ConnectError:
    error = httpx.ConnectError("refused")
    error.__cause__ = ConnectionRefusedError()
    return error


class ReadOnly(LocalFileSystem):
    """A filesystem of another owner."""

    def ls(self, path: str, **_: Any) -> Any:
        raise PermissionError(13, "Permission denied", path)


def not_writable() -> str:
    with pytest.raises(JobDirectoryError) as raised:
        Storage(ReadOnly(), "/shared/jobs/departures").names("journal")
    return f"job 'departures': {with_code(raised.value)}"


def hanging_storage() -> str:
    outage, error = DirectoryOutage(None), StorageThreads()._reject_all(60.0)
    reports = [outage.tolerate(cast(JobDirectoryError, error), START) for _ in range(2)]
    return str(reports[-1])


def text_of(act: Callable[[], object]) -> str:
    """The text of the failure of a job whose driver, or whose script, this call ends with an error."""
    errors = (
        AdaptiveJobError,
        DamagedCheckpointError,
        MissingSettingsError,
        TopicRecreatedError,
        UnsupportedVersionError,
    )
    with pytest.raises(errors) as raised:
        act()
    return f"{type(raised.value).__name__}: {raised.value}"


def older_airflow() -> str:
    """The text of the import of this package with an Airflow that it does not support."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(internals, "installed_airflow", lambda: "3.0.6")
        with pytest.raises(internals.UnsupportedAirflowError) as raised:
            internals.require_airflow()
    return str(raised.value)


def remedied(error_class: str, message: str) -> str:
    """The text of a failure for which the scheduler knows the remedy."""
    return with_remedy(Failure(error_class=error_class, message=message)).summary


OF_BEGINNERS = {
    "Complete or update mode, and a sink of files": (
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
        "[STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE] Invalid streaming output mode: complete. This output mode is not supported in Data Source parquet.",
    ),
    "Aggregation without a watermark in append mode": (
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. This output mode is not supported for streaming aggregations "
        "without watermark on streaming DataFrames/DataSets.",
    ),
    "Call of `count()`, `collect()` or `show()` on a stream": (
        "org.apache.spark.sql.catalyst.ExtendedAnalysisException",
        "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table or flow definition.",
    ),
    "Function that waits for its query": (
        "AttributeError",
        "'DataStreamWriter' object has no attribute 'awaitTermination' (departures.py:9)",
    ),
    "Two queries of a script with one name": (
        "java.lang.IllegalArgumentException",
        "Cannot start query with name departures as a query with that name is already active in this SparkSession",
    ),
    "Source of files without a schema": (
        "org.apache.spark.SparkIllegalArgumentException",
        "Schema must be specified when creating a streaming source DataFrame.",
    ),
    "Source or sink without a path": ("org.apache.spark.SparkIllegalArgumentException", "'path' is not specified."),
    "Misspelled column": (
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `carier` cannot be resolved. Did you mean one of the "
        "following? [`carrier`, `time`]. SQLSTATE: 42703",
    ),
    "`writeStream` of a batch": (
        "WRITE_STREAM_NOT_ALLOWED",
        "[WRITE_STREAM_NOT_ALLOWED] `writeStream` can be called only on streaming Dataset/DataFrame.",
    ),
}
"""Condition -> error class and message, as Spark 4.3 reports it."""


def without_connector(error_class: str, message: str) -> str:
    """The text of a failure of a driver with Spark 4.2.1 that lacks a jar."""
    return name_artifact(Failure(error_class=error_class, message=f"[{error_class}] {message}"), "4.2.1").summary


def topic_created_again() -> str:
    class Ids:
        def read(self) -> dict[int, KnownTopics]:
            return {0: KnownTopics("MkU3OEVBNTcwNTJENDM2Qk", {"flights": "Yx2hHbNvT1KgXaYvDgkzSw"})}

        def __str__(self) -> str:
            return f"file:///data/jobs/departures/checkpoints/departures/{FILE}"

    guard = TopicGuard(Ids(), 0, fail_on_data_loss=True, warn=print)
    return text_of(lambda: guard.require_same("MkU3OEVBNTcwNTJENDM2Qk", {"flights": "Zq3rHbNvT1KgXaYvDgkzSw"}))


def damaged_checkpoint() -> str:
    with TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder), newest=11)
        checkpoint.write("commits/11", b"")
        return text_of(lambda: require_sound_logs(checkpoint))


def table_created_again() -> str:
    error = TableReplacedError(
        "s3a://lake/flights", "5b0fd6f6-d70c-49ab-8a88-0ce0af0bd1a3", "e1b1c1b6-3ac1-4a44-8b0e-3a0d5d7a2f55"
    )
    return remedied(type(error).__name__, str(error))


def equal_failures() -> str:
    text = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/flights.json.gz."
    return gave_up(Failure(error_class="FAILED_READ_FILE.NO_HINT", message=text), 3).summary


def starts_a_query(method: str) -> None:
    with starts_rejected("departures"):
        getattr(DataStreamWriter.__new__(DataStreamWriter), method)()


def session_of(**submitted: str) -> SubmittedSession:
    """The session of a driver that was submitted with these properties."""
    session = SubmittedSession()
    session._submitted = {f"spark.{name.replace('_', '.')}": value for name, value in submitted.items()}
    return session


def starts_with_a_relative_checkpoint() -> None:
    session: Any = Spark()
    query = QueryStart(lambda writer: None, Stream("orders", session), (), {})
    query.location = "checkpoints/orders"
    TransientFolders(None).require_durable(session, query, "file:///shared/jobs/departures")


def missing_input() -> str:
    failure = Failure(
        error_class="PATH_NOT_FOUND", message="[PATH_NOT_FOUND] Path does not exist: file:/work/d/in. SQLSTATE: 42K03"
    )
    return explain(failure, DriverLog(), "", reported=True).summary


def starts_a_query_before_the_job() -> None:
    script = UnmanagedScript()
    script._queries = ScriptQueries(cast(Any, None), job="departures")
    script.disable_hooks()


def without_loop(request: Callable[[Job, PublishedState], object]) -> str:
    """What is reported of a request for a job whose task has ended without the end of the job."""
    published = PublishedState(documents={}, revisions={}, task_state="failed")
    task = ("departures", "job")
    job = Job(
        name="departures", asset="adaptive://job/departures", store=StoreKey(1), dag_ids=frozenset(), tasks=(task,)
    )
    with pytest.raises(RequestRefusedError) as raised:
        request(job, published)
    return f"{raised.value.detail} [{raised.value.kind}]"
