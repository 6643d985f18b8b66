"""Histories: the recorded events of a job and the results of the scheduler, for a replay step by step.

A history begins with a new job. A history contains the declaration of the job and its options, so that a history stays readable
if the fields of the scheduler state change. For each step, a history contains the event and the resulting state, plan, commands
and reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

from airflow_adaptive._core import codec
from airflow_adaptive._core.scheduler import machine, snapshot
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.errors import AdaptiveSchedulerError, SnapshotError
from airflow_adaptive._core.scheduler.events import Event
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Finished, SchedulerState
from airflow_adaptive._core.scheduler.steps import Step


class HistoryError(AdaptiveSchedulerError):
    """A history is invalid or cannot be recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The steps of one job, from its creation.

    Attributes:
        title: human-readable summary.
        source: kind of the cluster on which the history was recorded.
        job: ID of the job.
        vertices: name, bounds and non-default fields of each vertex.
        options: options that the job sets, by name.
        steps: event and outcome of each step.
        deployment: fingerprint of the first deployment (`SchedulerState.deployment`).
    """

    title: str
    source: str
    job: str
    vertices: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    deployment: str = ""

    def begin(self) -> SchedulerState:
        """Return the state of the job before the first step."""
        vertices = tuple(JobVertex(**{**v, "parallelism": ParallelismRange(*v["parallelism"])}) for v in self.vertices)
        job, options = JobGraph(job=self.job, vertices=vertices), Options.of(self.options)
        return machine.create(job, options, deployment=self.deployment)

    def write(self, file: Path) -> None:
        """Write the history to a file, as JSON with one line for each step."""
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "steps"}
        steps = ",\n".join(f"  {json.dumps(step)}" for step in self.steps)
        file.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "steps": [\n{steps}\n ]\n}}\n')

    @classmethod
    def read(cls, file: Path) -> History:
        """Read the history from a file of `write`. Raises `HistoryError`."""
        try:
            return cls(**json.loads(file.read_text()))
        except (OSError, TypeError, ValueError) as error:
            raise HistoryError(f"{file} is not a history: {error}") from error


def replay(history: History) -> Iterator[str]:
    """Repeat every step, and yield a description of each difference from the recorded outcome."""
    state = history.begin()
    for number, recorded in enumerate(history.steps, start=1):
        event = decode_event(recorded["event"])
        step = machine.step(state, event)
        state = step.state
        for name, value in outcome(step).items():
            if value != recorded[name]:
                yield f"step {number}, {type(event).__name__}: {name} was {recorded[name]!r}, is {value!r}"


def outcome(step: Step) -> dict[str, Any]:
    """Return the recorded part of the outcome of a step."""
    state, current = step.state, step.state.current
    return {
        "state": f"{state.name}({current.outcome})" if isinstance(current, Finished) else state.name,
        "version": state.version,
        "parallelism": None if state.plan is None else dict(state.plan.parallelism),
        "commands": [codec.encode(command) for command in step.commands],
        "reason_code": None if step.decision is None else step.decision.reason_code.value,
        "reason": None if step.decision is None else step.decision.reason,
    }


# ---- recording ------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Records every step of the scheduler in this process while the context is open.

        with Recorder(options={"scaling_interval_min": 5}) as recorder:
            ...  # run one loop of one job to its end
        recorder.history("title", "source").write(file)

    Attributes:
        options: options that the job sets, by name.
    """

    options: Mapping[str, Any]
    _steps: list[tuple[SchedulerState, Event, Step]] = field(default_factory=list)
    _patch: Any = None

    def __enter__(self) -> Self:
        """Start recording."""
        original = machine.step

        def record(state: SchedulerState, event: Event) -> Step:
            step = original(state, event)
            self._steps.append((state, event, step))
            return step

        self._patch = mock.patch.object(machine, "step", record)
        self._patch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop recording."""
        self._patch.stop()

    def history(self, title: str, source: str) -> History:
        """Return the recorded history, without the steps that the loop discarded and repeated later.

        Raises:
            HistoryError: the recording is empty, or does not consist of one job from its creation.
        """
        if not self._steps:
            raise HistoryError("nothing was recorded")
        kept: list[tuple[SchedulerState, Event, Step]] = []
        for state, event, step in self._steps:
            while kept and kept[-1][2].state != state:
                kept.pop()
            kept.append((state, event, step))
        first = kept[0][0]
        history = History(
            title=title,
            source=source,
            job=first.job.job,
            vertices=[_vertex(vertex) for vertex in first.job.vertices],
            options=self.options,
            deployment=first.deployment,
            steps=[{"event": _encoded(event), **outcome(step)} for _, event, step in kept],
        )
        if history.begin() != first:
            raise HistoryError(f"the job had already started: {first.name}")
        return history


# ---- JSON -----------------------------------------------------------------------------------------------------------


def decode_event(data: Mapping[str, Any]) -> Event:
    """Decode an event of a history. Missing fields have their defaults.

    Raises:
        HistoryError: the type of the event is unknown.
    """
    try:
        event: Event = snapshot.decode(Event, data)
    except SnapshotError as error:
        if not isinstance(error.__cause__, KeyError):
            raise
        raise HistoryError(f"unknown type of event: {data.get('type')!r}") from error
    return event


def _encoded(event: Event) -> dict[str, Any]:
    encoded: dict[str, Any] = codec.encode(event)
    return encoded


def _vertex(vertex: JobVertex) -> dict[str, Any]:
    default = JobVertex(name=vertex.name, parallelism=vertex.parallelism)
    values = {f.name: getattr(vertex, f.name) for f in fields(vertex)}
    bounds = [vertex.parallelism.lower, vertex.parallelism.upper]
    changed = {name: value for name, value in values.items() if value != getattr(default, name)}
    return {"name": vertex.name, "parallelism": bounds, **changed}
