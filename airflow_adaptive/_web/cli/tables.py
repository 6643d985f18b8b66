"""Rows of the tables that the commands print. The outputs JSON and YAML contain the response bodies of the REST API instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, Final

from airflow_adaptive._core.protocol.documents import PreparedQuery, StateSchema
from airflow_adaptive._core.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.timeline import Decision, Rescale, Transition
from airflow_adaptive._web.api import schemas
from airflow_adaptive._web.data.published_state import CurrentMetrics

NOTHING: Final = "-"

Row = dict[str, str]


def job(item: schemas.JobItem) -> Row:
    """Return a job in a list."""
    metrics = item.metrics
    return {
        "job": item.job,
        "health": item.health.value,
        "state": _state(item),
        "parallelism": _parallelism(item.parallelism),
        "bounds": _bounds(item.requirements),
        "slots": NOTHING if item.slots is None else f"{item.slots.held}/{item.slots.available}",
        "rows_per_s": _text(None if metrics is None else metrics.input),
        "backlog": NOTHING if metrics is None else _backlog(metrics),
        "restarts": str(item.restarts),
        "rescales": str(item.rescales),
        "since": _moment(item.since),
    }


def details(found: schemas.JobDetails) -> list[Row]:
    """Return the details of a job, one row per property."""
    return [{"property": name, "value": value} for name, value in _properties(found)]


def _properties(found: schemas.JobDetails) -> Iterator[tuple[str, str]]:
    yield "job", found.job
    yield "health", found.health.value
    yield "type", found.job_type
    yield "state", f"{_state(found)} since {_moment(found.since)}"
    if found.problem:
        yield "problem", found.problem
    problems = {"cause": found.cause, "cluster problem": found.cluster_problem, "source problem": found.source_problem}
    found_problems = {"wait": found.wait, **problems, "restart attempt": str(found.restart_attempts or "")}
    yield from ((name, text) for name, text in found_problems.items() if text)
    yield "desired state", _text(found.desired_state)
    for key, requester in found.requesters.items():
        until = "" if requester.until is None else f" until {_moment(requester.until)}"
        yield f"requested ({key})", f"by {requester.by} via {requester.via} at {_moment(requester.at)}{until}"
    if found.task is not None:
        yield "task", f"{found.task.dag_id} / {found.task.task_id} / {found.task.run_id}"
    yield "dags", ", ".join(found.dag_ids)
    yield "parallelism", _parallelism(found.parallelism)
    yield "bounds", _bounds(found.requirements)
    yield from _bounds_and_policy(found)
    if found.pending_requirements is not None:
        yield "requested bounds", _bounds(found.pending_requirements)
    if found.slots is not None:
        yield "slots", f"{found.slots.held} held, {found.slots.available} held or offered"
    yield "restarts", str(found.restarts)
    yield "rescales", str(found.rescales)
    yield "failures", str(found.failures)
    yield from _metrics(found.metrics)
    yield from _waits(found)
    if found.last_transition is not None:
        last = found.last_transition
        yield "last transition", f"{_moment(last.at)} {last.source} -> {last.target}: {last.reason}"
    yield from ((f"{name} page", url) for name, url in asdict(found.urls).items() if url)
    yield "published at", _moment(found.published_at)


def _bounds_and_policy(found: schemas.JobDetails) -> Iterator[tuple[str, str]]:
    """Yield the source of the bounds, and the advice of the policy."""
    source, policy = found.requirements_source, found.policy
    if source is not None:
        until = "" if source.until is None else f" until {_moment(source.until)}"
        yield "bounds by", f"{source.name} since {_moment(source.since)}{until}"
    if policy is None:
        return
    yield (
        "rescale policy",
        f"{policy.kind}, {'a dry run' if policy.dry_run else 'active' if policy.active else 'inactive'}",
    )
    if policy.problem is not None:
        yield "policy problem", policy.problem
    if policy.advice is not None:
        yield "policy advice", f"{_bounds(policy.advice.bounds)}: {policy.advice.reason}"
        yield "next change of advice", _moment(policy.advice.next_at)


def _metrics(metrics: CurrentMetrics | None) -> Iterator[tuple[str, str]]:
    if metrics is not None:
        yield "rows read per s", _text(metrics.input)
        yield "rows processed per s", _text(metrics.processed)
        yield "batch duration", NOTHING if metrics.batch_ms is None else f"{metrics.batch_ms} ms"
        yield "backlog", _backlog(metrics)


def _backlog(metrics: CurrentMetrics) -> str:
    waiting = {"": metrics.backlog, " files": metrics.unread_files}
    return ", ".join(f"{number}{unit}" for unit, number in waiting.items() if number is not None) or NOTHING


def _waits(found: schemas.JobDetails) -> Iterator[tuple[str, str]]:
    """Yield the phase, the backoff and the deadlines of the scheduler."""
    if found.waiting is not None:
        yield "phase", f"{found.waiting.phase}, cooldown until {_moment(found.waiting.cooldown_ends)}"
    if found.backoff is not None:
        yield "backoff", f"{found.backoff.seconds:g} s, until {_moment(found.backoff.ends)}"
    yield from ((f"deadline {deadline.name}", _moment(deadline.due)) for deadline in found.deadlines)


def requirements(bounds_of: Requirements, state: SchedulerState, version: str) -> list[Row]:
    """Return the bounds, one row per vertex."""
    declared, maximum = state.job.requirements, state.job.max_parallelism
    return [
        {
            "vertex": vertex,
            "lower": str(bounds.lower),
            "upper": str(bounds.upper),
            "declared": f"{declared[vertex].lower}:{declared[vertex].upper}",
            "max_parallelism": str(maximum[vertex]),
            "version": version,
        }
        for vertex, bounds in bounds_of.items()
    ]


def preview(result: schemas.RequirementsPreview) -> list[Row]:
    """Return the result of a preview."""
    slots = result.slots
    rows = {
        "consequence": result.consequence.value,
        "reason": result.reason,
        "parallelism": f"{_parallelism(result.before)} -> {_parallelism(result.after)}",
        "tier": _text(result.tier),
        "at the latest": _moment(result.at),
        "cooldown until": _moment(result.cooldown_until),
        "slots": f"{slots.available} held or offered, {slots.minimum} to {slots.maximum} required, {slots.missing} missing",
    }
    return [{"property": name, "value": value} for name, value in rows.items()]


def deployments(found: schemas.Deployments) -> list[Row]:
    """Return what the deployments of a job change, one row per change."""
    named = {"pending": found.pending, "declared": found.declared}
    rows = [row for name, it in named.items() if it is not None for row in _deployment(name, it)]
    return [*rows, _change("-", "notice", found.notice)]


def _deployment(name: str, found: schemas.Deployment) -> Iterator[Row]:
    yield _change(name, "stage", _text(found.stage))
    yield _change(name, "reason", found.reason)
    for it in found.changes:
        yield _change(name, it.name, f"{_text(it.before)} -> {_text(it.after)}", it.effect)
    keeps = "unknown" if found.keeps_state is None else str(found.keeps_state)
    yield _change(name, "keeps state", f"{keeps}: {found.state_reason}")
    for query in found.queries:
        new = query.prepared or PreparedQuery(name=query.name)
        marked = "new query" if query.is_new else "query" if query.prepared else "removed query"
        yield _change(name, f"{marked} {query.name}", query.state_reason)
        sources = [", ".join(it) or NOTHING for it in (query.running_sources, new.sources)]
        yield _change(name, f"sources of {query.name}", " -> ".join(sources))
        for states in zip_longest(new.state_before, new.state_after):
            yield _change(name, f"state of {query.name}", " -> ".join(map(_state_schema, states)))
        for line in query.plan_changes or ():
            yield _change(name, f"plan of {query.name}", line)
    if found.unknown:
        yield _change(name, "unknown", ", ".join(found.unknown))


def _state_schema(found: StateSchema | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.operator} ({found.key or '?'}: {found.value or '?'}), {_text(found.partitions)} partition(s)"


def _change(deployment: str, name: str, value: str, needs: str = NOTHING) -> Row:
    return {"deployment": deployment, "name": name, "value": value, "needs": needs}


def transition(item: Transition) -> Row:
    """Return a state transition."""
    return {
        "at": _moment(item.at),
        "from": item.source,
        "to": item.target,
        "parallelism": f"{_parallelism(item.before)} -> {_parallelism(item.after)}",
        "tier": NOTHING if item.tier is None else item.tier.name,
        "reason": item.reason,
    }


def decision(item: Decision) -> Row:
    """Return a decision."""
    return {"at": _moment(item.at), "state": item.state, "reason": item.reason}


def rescale(item: Rescale) -> Row:
    """Return a rescale."""
    amounts = item.vertices
    return {
        "number": str(item.number),
        "start": _moment(item.start),
        "cause": item.trigger_cause.value,
        "parallelism": f"{_parallelism(amounts.before)} -> {_parallelism(amounts.after)}",
        "tier": NOTHING if item.tier is None else item.tier.name,
        "downtime": _duration(item.downtime),
        "duration": NOTHING if item.end is None else _duration(item.end - item.start),
        "end": "in progress" if item.terminated_reason is None else item.terminated_reason.value,
    }


def failure(item: FailureRecord) -> Row:
    """Return a failure, and the decision of the scheduler."""
    root = item.failure
    return {
        "at": _moment(item.at),
        "state": item.state,
        "failure": f"{root.error_class}: {' '.join(root.message.split())}",
        "cause": root.causes[-1] if root.causes else NOTHING,
        "decision": item.decision,
    }


def newest(items: Iterable[Any], limit: int) -> Sequence[Any]:
    """Return the newest items, newest first. In `items`, the oldest item is the first."""
    return [*items][::-1][:limit]


def _state(item: schemas.JobItem) -> str:
    stale = f" (stale, published at {_moment(item.published_at)})" if item.stale else ""
    stale = " (no control loop)" if item.abandoned else stale
    return f"{item.state.value}{stale}" if item.outcome is None else f"{item.state.value} ({item.outcome})"


def _parallelism(parallelism: Mapping[str, object] | None) -> str:
    """`job=2, sink=1`, or only the number for a job with one vertex."""
    if not parallelism:
        return NOTHING
    if len(parallelism) == 1:
        return str(next(iter(parallelism.values())))
    return ", ".join(f"{vertex}={count}" for vertex, count in parallelism.items())


def _bounds(ranges: Mapping[str, ParallelismRange]) -> str:
    return _parallelism({vertex: f"{bounds.lower}:{bounds.upper}" for vertex, bounds in ranges.items()})


def _moment(moment: datetime | None) -> str:
    return NOTHING if moment is None else moment.isoformat(timespec="seconds")


def _duration(duration: timedelta | None) -> str:
    return NOTHING if duration is None else f"{duration.total_seconds():.1f} s"


def _text(value: Any) -> str:
    return NOTHING if value is None else str(value)
