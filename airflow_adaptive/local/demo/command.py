"""Runs the scenario of the demo, a change of the cluster in each quarter of the year, once or as a playground."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

import httpx
import pyarrow
import pyarrow.parquet

import airflow_adaptive
from airflow_adaptive._core.scheduler.timeline import Transition
from airflow_adaptive.local.airflow import USERNAME, LocalAirflow, LocalAirflowError
from airflow_adaptive.local.demo.cluster import (
    ClusterChange,
    DemoCluster,
    DemoEnvironmentError,
    KubernetesOptions,
    StandaloneDemo,
)
from airflow_adaptive.local.demo.job import (
    DemoRun,
    JobEndedError,
    Reporter,
    seconds,
    slots,
    table,
    transition_line,
    transitions_table,
)
from airflow_adaptive.local.demo.replay import END, CarrierHour, Replay, differences, expected_rows, flights
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

PARSE_TIMEOUT_S = 300.0
"""Maximum time until Airflow has parsed the DAG."""


class DemoEnvironment:
    """A context manager that starts all processes and stops them again. The working directory stays.

    Attributes:
        cluster: cluster, without a slot at first.
        airflow: Airflow, whose default connections point at the cluster.
        generator: generator, which has published nothing at first.
        sink: output of the job.
    """

    def __init__(self, cluster: DemoCluster, directory: Path, reporter: Reporter) -> None:
        """Describe the environment.

        Args:
            cluster: cluster, which was not started.
            directory: working directory. Its content is deleted first.
            reporter: prints the addresses of the started processes.
        """
        self._directory = directory.resolve()
        self._flights = self._directory / "flights"
        self._reporter = reporter
        self._dags = example_dags(Path(airflow_adaptive.__file__).parent)
        self._closing = ExitStack()
        self.cluster = cluster
        self.sink = Sink(self._flights / "output")

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._start(closing)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def trigger_job(self) -> DemoRun:
        """Start a DAG run, which runs the job on the data of this environment."""
        dag, parameters = self.cluster.dag, self.cluster.parameters(self._flights)
        return DemoRun(self.airflow.api, dag, self.airflow.api.trigger(dag, parameters))

    def _start(self, closing: ExitStack) -> None:
        empty(self._directory)
        (self._flights / "input").mkdir(parents=True)
        closing.enter_context(self.cluster)
        self._reporter.report(f"the cluster runs without a slot: {self.cluster.description}")
        env = self.cluster.airflow_environment
        self.airflow = closing.enter_context(LocalAirflow(self._directory / "airflow", self._dags, env=env))
        wait_until(self._dag_is_parsed, PARSE_TIMEOUT_S, f"DAG {self.cluster.dag!r} in {self._dags}")
        self._reporter.report(
            f"Airflow runs: {self.airflow.url} (user {USERNAME}, password in {self.airflow.password_file})"
        )
        self.generator = Replay(self.cluster.generator_target(self._flights))
        closing.callback(self.generator.stop)

    def _dag_is_parsed(self) -> bool:
        errors = self.airflow.api.import_errors()
        if errors:
            raise DemoEnvironmentError("\n".join(errors))
        return self.airflow.api.has_dag(self.cluster.dag)


def empty(directory: Path) -> None:
    """Create a directory, or delete its content. The directory itself stays, because the nodes of a Kubernetes cluster may mount it."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()


def example_dags(package: Path) -> Path:
    """Return the folder of the example DAGs.

    A wheel contains the examples inside the package. In a clone, and in an editable installation of a clone, the
    examples are in the folder `dags` beside the package.

    Args:
        package: folder of the package `airflow_adaptive`.

    Raises:
        FileNotFoundError: neither folder exists.
    """
    for folder in (package / "example_dags", package.parent / "dags"):
        if (folder / "flight_departures.py").is_file():
            return folder
    raise FileNotFoundError(
        f"the example DAGs are neither in {package / 'example_dags'} nor in {package.parent / 'dags'}"
    )


LOG_VERSION = "v1"
COMPACT = ".compact"


class SinkLogError(ValueError):
    """The log of the sink has an unknown format."""


class Sink:
    """The output directory of the job.

    The class reads each data file only once, because data files never change.
    """

    def __init__(self, output: Path) -> None:
        """Describe the output directory, which may not exist yet."""
        self._output = output
        self._rows: dict[Path, list[CarrierHour]] = {}

    @property
    def last_batch(self) -> int:
        """ID of the newest committed batch, -1 before the first batch."""
        return max(_log_files(self._output), default=-1)

    @property
    def last_hour(self) -> datetime | None:
        """Latest hour in the committed rows, None without rows."""
        return max((row.hour for row in self.rows()), default=None)

    def rows(self) -> list[CarrierHour]:
        """Return all committed rows in ascending order. Duplicate rows stay duplicates.

        Raises:
            SinkLogError: a log file has an unknown version.
        """
        files = committed_files(self._output)
        self._rows |= {file: list(_read_rows(file)) for file in files if file not in self._rows}
        return sorted(row for file in files for row in self._rows[file])


def committed_files(output: Path) -> list[Path]:
    """Return the data files that `_spark_metadata` lists (Spark's `FileStreamSinkLog`).

    The log has a file `<batch>` for each batch. Instead of some of them, the log has a file `<batch>.compact`, which lists the
    files of all batches up to this one.

    Raises:
        SinkLogError: a log file has an unknown version.
    """
    logs = _log_files(output)
    compacted = [batch for batch, log in logs.items() if log.name.endswith(COMPACT)]
    first = max(compacted, default=0)
    return [file for batch in sorted(logs) if batch >= first for file in _entries(logs[batch])]


def _log_files(output: Path) -> dict[int, Path]:
    """Return the log files by batch ID. Names of checksums and unfinished files begin with a dot."""
    files = [file for file in (output / "_spark_metadata").glob("*") if file.name[0].isdigit()]
    return {int(file.name.removesuffix(COMPACT)): file for file in files}


def _entries(log: Path) -> Iterator[Path]:
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != LOG_VERSION:
        raise SinkLogError(f"{log} has version {version!r} instead of {LOG_VERSION!r}")
    return (Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines)


def _read_rows(file: Path) -> Iterator[CarrierHour]:
    table = pyarrow.parquet.read_table(file)
    column = table.schema.get_field_index("hour")
    hours = table["hour"].cast(pyarrow.timestamp("us", tz="UTC"))  # Spark writes UTC without the time zone.
    return (CarrierHour(**row) for row in table.set_column(column, "hour", hours).to_pylist())


EXECUTING = "Executing"

WAIT_TIMEOUT_S = 300.0
"""Maximum time without a new transition and without a new batch of the job."""

POLL_INTERVAL_S = 0.5

PROGRESS_INTERVAL_S = 5.0

QUARTERS = (date(2013, 4, 1), date(2013, 7, 1), date(2013, 10, 1), END)
"""The generator publishes the flights before these days, one after another."""

LAST_HOUR = datetime(2014, 1, 1, 4, tzinfo=UTC)
"""The last hour of the result. The output is complete when the output contains this hour."""


class Scenario:
    """Runs the steps in an environment and checks the result."""

    def __init__(self, environment: DemoEnvironment, reporter: Reporter, days_per_second: float) -> None:
        self._environment = environment
        self._days_per_second = days_per_second
        self._reporter = reporter
        self._job = environment.trigger_job()
        self._has_slots = False
        self._transitions: Sequence[Transition] = ()
        self._progress_reported = 0.0
        self._awaited = ""
        self._recoveries = [("change", "job runs again after")]

    def run(self) -> bool:
        """Run all steps and return whether the output is correct.

        Raises:
            JobEndedError: the DAG run ended too early or failed.
            TimeoutError: nothing progressed for a long time.
        """
        for change, until in zip(self._environment.cluster.changes(), QUARTERS, strict=True):
            self._run_step(change, until)
        self._reporter.heading("The job reads the rest of the data and is then suspended")
        self._wait_for(lambda: self._environment.sink.last_hour == LAST_HOUR, "the result of the last hour")
        self._job.suspend()
        self._wait_for_end()
        print(f"\n{transitions_table(self._transitions)}\n\n{table(self._recoveries)}\n", flush=True)
        return self._check_output()

    def _run_step(self, change: ClusterChange, until: date) -> None:
        self._reporter.heading(change.title)
        self._environment.generator.release(until, self._days_per_second)
        self._wait_for_commit()
        before = self._version
        started = datetime.now(UTC)
        change.apply()
        self._has_slots = True
        self._wait_for(
            lambda: self._version > before and self._runs_with(change.slots), f"{change.slots} slot(s) in use"
        )
        took = seconds(self._transitions[-1].at - started)
        self._recoveries.append((change.title, took))
        self._reporter.report(f"the job runs with {change.slots} slot(s), {took} after the change")

    @property
    def _version(self) -> int:
        return self._transitions[-1].version if self._transitions else 0

    def _runs_with(self, number: int) -> bool:
        last = self._transitions[-1]
        return last.target == EXECUTING and slots(last.after) == number

    def _wait_for_commit(self) -> None:
        """Wait for another committed batch, so that the change happens while the job processes data."""
        sink = self._environment.sink
        before = sink.last_batch
        if self._has_slots:
            self._wait_for(lambda: sink.last_batch > before, "a committed batch")

    def _wait_for(self, condition: Callable[[], bool], what: str, *, is_running: bool = True) -> None:
        """Wait for a condition for as long as the job has new transitions or batches. Raises `TimeoutError`."""
        self._awaited = what
        progress, deadline = None, 0.0
        while True:
            self._report_changes()
            if is_running:
                self._job.require_running()
            if condition():
                return
            current = (self._version, self._environment.sink.last_batch)
            if current != progress:
                progress, deadline = current, time.monotonic() + WAIT_TIMEOUT_S
            elif time.monotonic() > deadline:
                raise TimeoutError(
                    f"nothing has progressed for {WAIT_TIMEOUT_S:g} s: {self._progress().removeprefix('... ')}"
                )
            time.sleep(POLL_INTERVAL_S)

    def _wait_for_end(self) -> None:
        self._wait_for(lambda: self._job.has_ended, "the end of the DAG run", is_running=False)
        self._reporter.report(f"the DAG run has ended: {self._job.run_state}")
        self._job.require_success()

    def _report_changes(self) -> None:
        """Report new transitions, and the progress from time to time."""
        before = self._version
        self._transitions = self._job.transitions or self._transitions
        for transition in self._transitions:
            if transition.version > before:
                self._reporter.report(transition_line(transition))
        if time.monotonic() - self._progress_reported > PROGRESS_INTERVAL_S:
            self._progress_reported = time.monotonic()
            self._reporter.report(self._progress())

    def _progress(self) -> str:
        state = self._job.state
        awaited = f"waiting for: {self._awaited}"
        if state is None:
            return f"... Airflow is starting the task; {awaited}"
        sink = self._environment.sink
        text = f"... {state}, parallelism {self._job.parallelism}"
        if sink.last_hour is None:
            return f"{text}, no output yet; {awaited}"
        return f"{text}, batch {sink.last_batch}, output up to {sink.last_hour:%Y-%m-%d %H:%M}; {awaited}"

    def _check_output(self) -> bool:
        expected = expected_rows(flights())
        found = differences(self._environment.sink.rows(), expected)
        for line in found:
            self._reporter.report(line)
        if not found:
            self._reporter.report(
                f"the output is correct: {len(expected):,} rows, equal to the result computed without Spark"
            )
        return not found


OK, FAILED, INTERRUPTED = 0, 1, 130

ERRORS = (
    LocalAirflowError,
    LocalClusterError,
    DemoEnvironmentError,
    JobEndedError,
    FileNotFoundError,
    TimeoutError,
    httpx.HTTPError,
)


def run(
    directory: Path,
    days_per_second: float,
    *,
    stay: bool = False,
    kubernetes: KubernetesOptions | None = None,
    bootstrap_servers: str | None = None,
) -> int:
    """Run the demo, and stop every process and remove every object that it created.

    Args:
        directory: working directory. The demo deletes its content first and leaves logs and output in it.
        days_per_second: days of flights that the generator publishes per second.
        stay: whether the job continues after the scenario until the user presses Ctrl-C.
        kubernetes: cluster on which the job runs; a Spark standalone cluster on this machine without it.
        bootstrap_servers: addresses of brokers of Kafka; without them, the job reads files.
    """
    reporter, has_pods = Reporter(), False
    try:
        cluster = _cluster(directory.resolve(), kubernetes, bootstrap_servers)
        with DemoEnvironment(cluster, directory, reporter) as environment:
            has_pods = kubernetes is not None
            correct = Scenario(environment, reporter, days_per_second).run()
            if stay:
                run_playground(environment, reporter)
            reporter.report("stopping all processes")
    except KeyboardInterrupt:
        reporter.report("interrupted: all processes are stopped")
        return INTERRUPTED
    except ERRORS as error:
        reporter.report(f"FAILED: {error}")
        if kubernetes is not None and has_pods:
            reporter.report(
                f"the pods had the image {kubernetes.image!r} (--image, make: IMAGE=...) and {len(kubernetes.conf)} Spark properties of --conf "
                "(make: CONF='NAME=VALUE ...'): see docs/reference/kubernetes.md for a cluster without DNS or with Pod Security"
            )
        reporter.report(f"the logs are in {directory.resolve()}")
        return FAILED
    reporter.report("done" if correct else "FAILED: the output of the job is wrong")
    return OK if correct else FAILED


def _cluster(directory: Path, kubernetes: KubernetesOptions | None, bootstrap_servers: str | None) -> DemoCluster:
    if bootstrap_servers is not None:
        from airflow_adaptive.local.demo.kafka import KafkaDemo  # noqa: PLC0415  needs the extra "kafka"

        return KafkaDemo(directory / "spark", bootstrap_servers)
    if kubernetes is None:
        return StandaloneDemo(directory / "spark")
    from airflow_adaptive.local.demo.kubernetes import KubernetesDemo  # noqa: PLC0415  needs the extra "kubernetes"

    return KubernetesDemo(kubernetes, directory)


DAYS_PER_SECOND = 1.0
"""The generator writes about 5 MB of flights per minute at this speed."""


def run_playground(environment: DemoEnvironment, reporter: Reporter) -> None:
    """Resume the job, print the addresses, and return when the user presses Ctrl-C.

    Raises:
        JobEndedError: the job ended instead of running.
        TimeoutError: the job does not run in time.
    """
    with suppress(KeyboardInterrupt):
        reporter.heading("A new DAG run resumes the job, and the cluster gets two more slots")
        environment.cluster.add_two_slots()
        environment.generator.release(date.max, DAYS_PER_SECOND)
        _wait_until_executing(environment.trigger_job())
        _print_addresses(environment)
        while True:
            signal.pause()


def _wait_until_executing(job: DemoRun) -> None:
    def poll() -> bool:
        job.require_running()
        return job.state == EXECUTING

    wait_until(poll, WAIT_TIMEOUT_S, "the resumed job", POLL_INTERVAL_S)


def _print_addresses(environment: DemoEnvironment) -> None:
    airflow = environment.airflow
    print(
        f"""
The job runs and reads new flights (about 5 MB per minute).

  Airflow       {airflow.url}
                Log in as {USERNAME}. The password is in {airflow.password_file}.
  The job       {airflow.url}/adaptive/ui/jobs/{environment.cluster.dag}
                The same page is in Airflow under Browse, Adaptive jobs.
  The cluster   {environment.cluster.description}

Change the bounds of the job between 1 and 3, or suspend and resume the job, on the job's page.
Press Ctrl-C to stop all processes.
""",
        flush=True,
    )
