"""The story: four quarters of the year, and what befalls the job in each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from airflow_adaptive.local.cluster import LocalWorker
from airflow_adaptive.local.demo.flights import flights
from airflow_adaptive.local.demo.job import Job, Transition
from airflow_adaptive.local.demo.replay import END
from airflow_adaptive.local.demo.report import Reporter, differences, seconds, table, transition_line, transitions_table
from airflow_adaptive.local.demo.sink import read_hours
from airflow_adaptive.local.demo.stage import Stage
from airflow_adaptive.local.demo.truth import hours
from airflow_adaptive.local.waiting import wait_until

EXECUTING = "Executing"

WAIT_TIMEOUT_S = 300.0
"""For anything that the job must do: on a busy machine a driver's first batch takes 20 s."""

POLL_INTERVAL_S = 0.5

PROGRESS_INTERVAL_S = 5.0

LAST_HOUR_ENDS = datetime(2014, 1, 1, 5, tzinfo=UTC)
"""The result is complete when the watermark has passed it."""


class StoryError(Exception):
    """The job did not do what it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A part of the story.

    Attributes:
        title: what happens.
        until: flights before this day are published in it.
        happens: makes it happen; called while data flow.
        slots: with how many the job comes out of it.
    """

    title: str
    until: date
    happens: Callable[[], None]
    slots: int


class Story:
    """Plays the acts on a stage and judges the result."""

    def __init__(self, stage: Stage, reporter: Reporter) -> None:
        """Begin: the DAG is triggered while the cluster has no worker."""
        self._stage = stage
        self._reporter = reporter
        self._job: Job = stage.trigger()
        self._workers: list[LocalWorker] = []
        self._transitions: Sequence[Transition] = ()
        self._progress_shown = 0.0
        self._recoveries = [("what happened", "running on after")]

    def play(self) -> bool:
        """Play it to its end; return whether the output is what it must be.

        Raises:
            StoryError: the DAG run ended too early, or badly.
            TimeoutError: the job did not do its part in time.
        """
        for act in self._acts():
            self._play(act)
        self._reporter.title("The job reads to the end of the data, then is asked to stop gracefully")
        self._wait_for(self._all_is_written, "the result of the last hour")
        self._job.suspend()
        self._wait_for_end()
        self._print_tables()
        return self._compare()

    def _acts(self) -> Sequence[Act]:
        return (
            Act(
                title="The job waits for resources; a worker joins, with room for the driver and one slot",
                until=date(2013, 4, 1),
                happens=lambda: self._add_worker(cores=2, memory_mb=2048),
                slots=1,
            ),
            Act(
                title="A second worker joins, with one slot: the job grows",
                until=date(2013, 7, 1),
                happens=lambda: self._add_worker(cores=1, memory_mb=1024),
                slots=2,
            ),
            Act(
                title="The second worker is killed with -9: the job goes on with what is left",
                until=date(2013, 10, 1),
                happens=lambda: self._stage.cluster.kill_worker(self._workers.pop()),
                slots=1,
            ),
            Act(
                title="The driver is killed with -9: the job restarts after a backoff",
                until=END,
                happens=lambda: self._stage.cluster.kill_driver(self._job.submission_id),
                slots=1,
            ),
        )

    def _play(self, act: Act) -> None:
        self._reporter.title(act.title)
        self._stage.generator.release(act.until)
        self._wait_for_commit()
        before = self._version
        began = datetime.now(UTC)
        act.happens()
        self._wait_for(lambda: self._version > before and self._runs_with(act.slots), act.title)
        took = seconds(self._transitions[-1].at - began)
        self._recoveries.append((act.title, took))
        self._reporter.say(f"the job runs with {act.slots} slot(s), {took} after it happened")

    def _add_worker(self, cores: int, memory_mb: int) -> None:
        self._workers.append(self._stage.cluster.add_worker(cores=cores, memory_mb=memory_mb))

    @property
    def _version(self) -> int:
        return self._transitions[-1].version if self._transitions else 0

    def _runs_with(self, slots: int) -> bool:
        last = self._transitions[-1]
        return last.target == EXECUTING and last.after == slots

    def _wait_for_commit(self) -> None:
        """Wait until another batch is committed, so that what happens next happens to a job at work."""
        query = self._job.query
        if query is not None:
            self._wait_for(lambda: (now := self._job.query) is not None and now.batch_id > query.batch_id, "a batch")

    def _all_is_written(self) -> bool:
        query = self._job.query
        watermark = query and query.watermark
        return bool(watermark) and datetime.fromisoformat(str(watermark)) >= LAST_HOUR_ENDS

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def looked_and_true() -> bool:
            self._look()
            if self._job.is_over:
                raise StoryError(f"the DAG run ended as {self._job.run_state!r}; its tasks' log:\n{self._job.log()}")
            return condition()

        wait_until(looked_and_true, WAIT_TIMEOUT_S, what, POLL_INTERVAL_S)

    def _wait_for_end(self) -> None:
        wait_until(lambda: self._job.is_over, WAIT_TIMEOUT_S, "the end of the DAG run", POLL_INTERVAL_S)
        self._look()
        self._reporter.say(f"the DAG run is over: {self._job.run_state}")
        if self._job.run_state != "success":
            raise StoryError(f"the DAG run did not succeed; its tasks' log:\n{self._job.log()}")

    def _look(self) -> None:
        """See what is new, and show it."""
        before = self._version
        self._transitions = self._job.transitions or self._transitions
        for transition in self._transitions:
            if transition.version > before:
                self._reporter.say(transition_line(transition))
        if time.monotonic() - self._progress_shown > PROGRESS_INTERVAL_S:
            self._progress_shown = time.monotonic()
            self._reporter.say(self._progress())

    def _progress(self) -> str:
        query = self._job.query
        state = self._job.state
        if state is None:
            return "... Airflow is starting the task"
        if query is None or query.watermark is None:
            return f"... {state}, parallelism {self._job.parallelism}, no batch yet"
        return f"... {state}, parallelism {self._job.parallelism}, batch {query.batch_id}, event time {query.watermark}"

    def _print_tables(self) -> None:
        print(f"\n{transitions_table(self._transitions)}\n\n{table(self._recoveries)}\n", flush=True)

    def _compare(self) -> bool:
        truth = hours(flights())
        found = differences(read_hours(self._stage.output), truth)
        for line in found:
            self._reporter.say(line)
        if not found:
            self._reporter.say(
                f"the output is complete: {len(truth):,} rows, each equal to the figures computed without Spark"
            )
        return not found
