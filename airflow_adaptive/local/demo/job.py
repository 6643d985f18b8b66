"""The streaming job of the demo, as Airflow's REST API presents the job, and the printed output of the demo."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive._core.codec import decode
from airflow_adaptive._core.scheduler.timeline import Transition
from airflow_adaptive.local.airflow import AirflowApi

TASKS = ("resources", "departures")

UNFINISHED = ("queued", "running")


class JobEndedError(Exception):
    """The DAG run has ended unexpectedly. The message contains the logs of the tasks."""


class DemoRun:
    """One DAG run and the streaming job that the DAG run executes."""

    def __init__(self, airflow: AirflowApi, dag: str, run_id: str) -> None:
        """Describe a DAG run that was triggered before.

        Args:
            airflow: client of the Airflow that runs the DAG.
            dag: ID of the DAG. The job has the same name.
            run_id: ID of the DAG run.
        """
        self._airflow = airflow
        self._dag = dag
        self._run_id = run_id

    @property
    def run_state(self) -> str:
        """State of the DAG run."""
        return self._airflow.run_state(self._dag, self._run_id)

    @property
    def has_ended(self) -> bool:
        """Whether the DAG run has ended, successfully or not."""
        return self.run_state not in UNFINISHED

    @property
    def state(self) -> str | None:
        """State of the job, None before the job has published a state."""
        state: str | None = self._xcom("state")
        return state

    @property
    def parallelism(self) -> int:
        """Slots that the job uses, 0 without a plan."""
        return slots(self._xcom("parallelism"))

    @property
    def transitions(self) -> list[Transition]:
        """All transitions, the oldest first."""
        return [decode(Transition, item) for item in self._xcom("transitions") or ()]

    def suspend(self) -> None:
        """Request a graceful stop."""
        self._airflow.suspend_job(self._dag)

    def require_running(self) -> None:
        """Raise `JobEndedError` if the DAG run has ended."""
        if self.has_ended:
            raise self._ended()

    def require_success(self) -> None:
        """Raise `JobEndedError` unless the DAG run has succeeded."""
        if self.run_state != "success":
            raise self._ended()

    def _ended(self) -> JobEndedError:
        logs = "\n".join(self._airflow.task_log(self._dag, self._run_id, task) for task in TASKS)
        return JobEndedError(f"the DAG run ended as {self.run_state!r}; log of its tasks:\n{logs}")

    def _xcom(self, key: str) -> Any:
        return self._airflow.xcom(self._dag, self._run_id, TASKS[-1], key)


def slots(parallelism: Mapping[str, int] | None) -> int:
    """Return the slots of a plan in which all vertices share their slots."""
    return max((parallelism or {}).values(), default=0)


MAX_REASON_CHARACTERS = 100
"""Length of a reason in the table. The progress lines contain the complete reasons."""


class Reporter:
    """Prints lines with the time since the start of the demo."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def report(self, text: str) -> None:
        """Print a line."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        print(f"{minutes:2}:{seconds:02}  {text}", flush=True)

    def heading(self, text: str) -> None:
        """Print the heading of a new step."""
        print(flush=True)
        self.report(f"== {text}")


def transition_line(transition: Transition) -> str:
    """Format a transition as one line."""
    return f"{transition.source} -> {transition.target} [{slot_change(transition)}]: {transition.reason}"


def slot_change(transition: Transition) -> str:
    """Format the slots in use before and after a transition."""
    before, after = (str(slots(plan) or "-") for plan in (transition.before, transition.after))
    return before if before == after else f"{before} -> {after}"


def transitions_table(transitions: Sequence[Transition]) -> str:
    """Format all transitions, each with the time that the job spent in the state before the transition."""
    entered: datetime | None = None
    rows = [("time (UTC)", "from", "took", "to", "slots", "reason")]
    for transition in transitions:
        took = "" if entered is None else seconds(transition.at - entered)
        time_of_day = transition.at.strftime("%H:%M:%S")
        reason = textwrap.shorten(transition.reason, MAX_REASON_CHARACTERS, placeholder="...")
        rows.append((time_of_day, transition.source, took, transition.target, slot_change(transition), reason))
        entered = transition.at
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned columns. The first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def seconds(duration: timedelta) -> str:
    """Format a duration."""
    return f"{duration.total_seconds():.1f} s"
