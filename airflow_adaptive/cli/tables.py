"""What tables show of a job: rows of short texts. JSON and YAML show what the REST API answers instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive.plugin.api import schemas
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import Requirements
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.scheduler.timeline import Rescale

NOTHING: Final = "-"

Row = dict[str, str]


def job(item: schemas.JobItem) -> Row:
    """A job in a list."""
    figures = item.figures
    return {
        "job": item.job,
        "state": _state(item),
        "parallelism": _parallelism(item.parallelism),
        "bounds": _bounds(item.requirements),
        "slots": NOTHING if item.slots is None else f"{item.slots.held}/{item.slots.available}",
        "rows_per_s": _text(None if figures is None else figures.input),
        "backlog": _text(None if figures is None else figures.backlog),
        "restarts": str(item.restarts),
        "rescales": str(item.rescales),
        "since": _moment(item.since),
    }


def details(found: schemas.JobDetails) -> list[Row]:
    """A job, a row for each thing that is known."""
    return [{"property": name, "value": value} for name, value in _properties(found)]


def _properties(found: schemas.JobDetails) -> Iterator[tuple[str, str]]:
    yield "job", found.job
    yield "type", found.job_type
    yield "state", f"{_state(found)} since {_moment(found.since)}"
    if found.cause:
        yield "cause", found.cause
    yield "desired state", _text(found.desired_state)
    for key, asked in found.asked.items():
        until = "" if asked.until is None else f" until {_moment(asked.until)}"
        yield f"asked ({key})", f"by {asked.by} via {asked.via} at {_moment(asked.at)}{until}"
    if found.task is not None:
        yield "task", f"{found.task.dag_id} / {found.task.task_id} / {found.task.run_id}"
    yield "dags", ", ".join(found.dag_ids)
    yield "parallelism", _parallelism(found.parallelism)
    yield "bounds", _bounds(found.requirements)
    yield from _decided(found)
    if found.pending_requirements is not None:
        yield "bounds asked for", _bounds(found.pending_requirements)
    if found.slots is not None:
        yield "slots", f"{found.slots.held} held, {found.slots.available} held or offered"
    yield "restarts", str(found.restarts)
    yield "rescales", str(found.rescales)
    yield "failures", str(found.failures)
    yield from _measured(found.figures)
    yield from _waits(found)
    if found.last_transition is not None:
        yield "last transition", f"{_moment(found.last_transition.at)} {_told(found.last_transition)}"
    yield from ((f"{name} page", url) for name, url in found.urls if url)
    yield "shown at", _moment(found.updated_at)


def _decided(found: schemas.JobDetails) -> Iterator[tuple[str, str]]:
    """Whose the bounds are, and what the policy says."""
    whose, policy = found.bounds_by, found.policy
    if whose is not None:
        until = "" if whose.until is None else f" until {_moment(whose.until)}"
        yield "bounds by", f"{whose.source} since {_moment(whose.since)}{until}"
    if policy is None:
        return
    yield (
        "rescale policy",
        f"{policy.kind}, {'a dry run' if policy.dry_run else 'acts' if policy.acts else 'does not act'}",
    )
    if policy.problem is not None:
        yield "policy's problem", policy.problem
    if policy.advice is not None:
        yield "policy's advice", f"{_bounds(policy.advice.bounds)}: {policy.advice.reason}"
        yield "advice changes", _moment(policy.advice.next_at)


def _measured(figures: schemas.Figures | None) -> Iterator[tuple[str, str]]:
    if figures is not None:
        yield "rows read per s", _text(figures.input)
        yield "rows processed per s", _text(figures.processed)
        yield "batch duration", NOTHING if figures.batch_ms is None else f"{figures.batch_ms} ms"
        yield "backlog", _text(figures.backlog)


def _waits(found: schemas.JobDetails) -> Iterator[tuple[str, str]]:
    """What the scheduler waits for, and until when at the longest."""
    if found.waiting is not None:
        yield "phase", f"{found.waiting.phase}, cooldown until {_moment(found.waiting.cooldown_ends)}"
    if found.backoff is not None:
        yield "backoff", f"{found.backoff.seconds:g} s, until {_moment(found.backoff.ends)}"
    yield from ((f"deadline {clock.name}", _moment(clock.due)) for clock in found.clocks)


def requirements(wanted: Requirements, state: SchedulerState, version: str) -> list[Row]:
    """Bounds, a row for each vertex."""
    declared, most = state.job.requirements, state.job.max_parallelism
    return [
        {
            "vertex": vertex,
            "lower": str(bounds.lower),
            "upper": str(bounds.upper),
            "declared": f"{declared[vertex].lower}:{declared[vertex].upper}",
            "max_parallelism": str(most[vertex]),
            "version": version,
        }
        for vertex, bounds in wanted.items()
    ]


def preview(told: schemas.Preview) -> list[Row]:
    """What bounds would lead to."""
    slots = told.slots
    rows = {
        "consequence": told.consequence.value,
        "reason": told.reason,
        "parallelism": f"{_parallelism(told.before)} -> {_parallelism(told.after)}",
        "tier": _text(told.tier),
        "at the latest": _moment(told.at),
        "cooldown until": _moment(told.held_back_until),
        "slots": f"{slots.available} held or offered, {slots.minimum} to {slots.maximum} wanted, {slots.missing} missing",
    }
    return [{"property": name, "value": value} for name, value in rows.items()]


def transition(item: schemas.Transition) -> Row:
    """A change of state."""
    return {
        "at": _moment(item.at),
        "from": item.source,
        "to": item.target,
        "parallelism": f"{_parallelism(item.before)} -> {_parallelism(item.after)}",
        "tier": NOTHING if item.tier is None else Tier(item.tier).name,
        "reason": item.reason,
    }


def decision(item: schemas.Decision) -> Row:
    """Why something was done, or nothing."""
    return {"at": _moment(item.at), "state": item.state, "reason": item.reason}


def rescale(item: Rescale) -> Row:
    """A rescale, or the attempt at one."""
    amounts = item.vertices
    return {
        "number": str(item.number),
        "start": _moment(item.start),
        "cause": item.trigger_cause.value,
        "parallelism": f"{_parallelism(amounts.before)} -> {_parallelism(amounts.after)}",
        "tier": NOTHING if item.tier is None else item.tier.name,
        "downtime": _duration(item.downtime),
        "took": NOTHING if item.end is None else _duration(item.end - item.start),
        "end": "under way" if item.terminated_reason is None else item.terminated_reason.value,
    }


def failure(item: schemas.FailureEntry) -> Row:
    """A failure, and what followed from it."""
    told = item.failure
    return {
        "at": _moment(item.at),
        "state": item.state,
        "failure": f"{told.error_class}: {' '.join(told.message.split())}",
        "cause": told.causes[-1] if told.causes else NOTHING,
        "decision": item.decision,
    }


def newest(items: Iterable[Any], most: int) -> Sequence[Any]:
    """The newest items, the newest first, of some of which the oldest comes first."""
    return [*items][::-1][:most]


def _told(item: schemas.Transition) -> str:
    return f"{item.source} -> {item.target}: {item.reason}"


def _state(item: schemas.Summary) -> str:
    return item.state.value if item.outcome is None else f"{item.state.value} ({item.outcome})"


def _parallelism(parallelism: Mapping[str, int] | None) -> str:
    """`job=2, sink=1`; one number is enough where there is one vertex."""
    if not parallelism:
        return NOTHING
    if len(parallelism) == 1:
        return str(next(iter(parallelism.values())))
    return ", ".join(f"{vertex}={count}" for vertex, count in parallelism.items())


def _bounds(ranges: Mapping[str, schemas.Range]) -> str:
    texts = {vertex: f"{bounds.lower}:{bounds.upper}" for vertex, bounds in ranges.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{vertex}={text}" for vertex, text in texts.items()) or NOTHING


def _moment(moment: datetime | None) -> str:
    return NOTHING if moment is None else moment.isoformat(timespec="seconds")


def _duration(duration: timedelta | None) -> str:
    return NOTHING if duration is None else f"{duration.total_seconds():.1f} s"


def _text(value: Any) -> str:
    return NOTHING if value is None else str(value)
