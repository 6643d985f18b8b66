"""Histories: what a scheduler was told in a real run, and what it made of it, to be replayed step by step.

A history begins with a new job. It holds the job and its options as people write them, so it stays readable when the
scheduler's state gets other fields; of each step it holds the event, and the state, the plan, the commands and the reason
that followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args, get_type_hints
from unittest import mock

from airflow_adaptive.scheduler import machine, snapshot
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.errors import AdaptiveSchedulerError
from airflow_adaptive.scheduler.events import Event
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.state import Finished, SchedulerState
from airflow_adaptive.scheduler.state_transitions import Step

_EVENTS = {kind.__name__: kind for kind in get_args(Event)}
_TYPE = "type"


class HistoryError(AdaptiveSchedulerError):
    """A history can't be recorded or read as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One life of a job.

    Attributes:
        title: what happened, for people.
        source: where it was recorded.
        job: id of the job.
        vertices: of the job: name, bounds, and what else is not as by default.
        options: those that were set, by name.
        steps: each with its event, and what followed.
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
        """The job when nothing had happened."""
        vertices = tuple(JobVertex(**{**v, "parallelism": ParallelismRange(*v["parallelism"])}) for v in self.vertices)
        job, options = JobGraph(job=self.job, vertices=vertices), Options.of(self.options)
        return machine.create(job, options, deployment=self.deployment)

    def write(self, file: Path) -> None:
        """Write it as JSON, a line for each step."""
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "steps"}
        steps = ",\n".join(f"  {json.dumps(step)}" for step in self.steps)
        file.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "steps": [\n{steps}\n ]\n}}\n')

    @classmethod
    def read(cls, file: Path) -> History:
        """Read what `write` wrote. Raises `HistoryError`."""
        try:
            return cls(**json.loads(file.read_text()))
        except (OSError, TypeError, ValueError) as error:
            raise HistoryError(f"{file} is no history: {error}") from error


def replay(history: History) -> Iterator[str]:
    """Take every step again, and tell what is not as it was."""
    state = history.begin()
    for number, recorded in enumerate(history.steps, start=1):
        event = decode_event(recorded["event"])
        step = machine.step(state, event)
        state = step.state
        told = outcome(step)
        for name in told:
            if told[name] != recorded[name]:
                yield f"step {number}, {type(event).__name__}: {name} was {recorded[name]!r}, is {told[name]!r}"


def outcome(step: Step) -> dict[str, Any]:
    """What a history holds of a step's outcome."""
    state, current = step.state, step.state.current
    return {
        "state": f"{state.name}({current.outcome})" if isinstance(current, Finished) else state.name,
        "version": state.version,
        "parallelism": None if state.plan is None else dict(state.plan.parallelism),
        "commands": [snapshot.encode(command) for command in step.commands],
        "reason_code": None if step.decision is None else step.decision.reason_code.value,
        "reason": None if step.decision is None else step.decision.reason,
    }


# ---- recording ------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Writes down every step that the scheduler takes in this process while it is open.

        with Recorder(options={"scaling_interval_min": 5}) as recorder:
            ...  # run one loop of one job to its end
        recorder.history("title", "source").write(file)

    Attributes:
        options: those of the job that are set.
    """

    options: Mapping[str, Any]
    _taken: list[tuple[SchedulerState, Event, Step]] = field(default_factory=list)
    _tap: Any = None

    def __enter__(self) -> Self:
        """Begin."""
        take = machine.step

        def noted(state: SchedulerState, event: Event) -> Step:
            step = take(state, event)
            self._taken.append((state, event, step))
            return step

        self._tap = mock.patch.object(machine, "step", noted)
        self._tap.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self._tap.stop()

    def history(self, title: str, source: str) -> History:
        """What happened, without the steps that the loop put off and took again later.

        Raises:
            HistoryError: nothing happened, or more than one life of one job.
        """
        if not self._taken:
            raise HistoryError("nothing was recorded")
        kept: list[tuple[SchedulerState, Event, Step]] = []
        for state, event, step in self._taken:
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
            raise HistoryError(f"the job had begun before: {first.name}")
        return history


# ---- JSON -----------------------------------------------------------------------------------------------------------


def decode_event(data: Mapping[str, Any]) -> Event:
    """An event of a history; fields that it does not have are as by default.

    Raises:
        HistoryError: there is no such event.
    """
    kind = _EVENTS.get(data.get(_TYPE, ""))
    if kind is None:
        raise HistoryError(f"there is no event {data.get(_TYPE)!r}")
    hints = get_type_hints(kind)
    event: Event = kind(**{name: snapshot.decode(hints[name], item) for name, item in data.items() if name != _TYPE})
    return event


def _encoded(event: Event) -> dict[str, Any]:
    encoded: dict[str, Any] = snapshot.encode(event)
    return encoded


def _vertex(vertex: JobVertex) -> dict[str, Any]:
    plain = JobVertex(name=vertex.name, parallelism=vertex.parallelism)
    told = {f.name: getattr(vertex, f.name) for f in fields(vertex)}
    bounds = [vertex.parallelism.lower, vertex.parallelism.upper]
    changed = {name: value for name, value in told.items() if value != getattr(plain, name)}
    return {"name": vertex.name, "parallelism": bounds, **changed}
