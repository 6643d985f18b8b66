"""Runs the scenario of the demo, a change of the cluster in each quarter of the year, once or as a playground."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import httpx

from airflow_adaptive._core.scheduler.timeline import Transition
from airflow_adaptive.local.airflow import USERNAME, LocalAirflowError
from airflow_adaptive.local.demo.cluster import (
    ClusterChange,
    DemoCluster,
    DemoEnvironmentError,
    KubernetesOptions,
    StandaloneDemo,
)
from airflow_adaptive.local.demo.environment import DemoEnvironment
from airflow_adaptive.local.demo.flights import differences, expected_rows, flights
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
from airflow_adaptive.local.demo.replay import END
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

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
