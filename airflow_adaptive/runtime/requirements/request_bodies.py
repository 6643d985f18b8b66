"""Bodies of resource requirements as FLIP-291 has them: reading them, with all that is wrong told at once, and writing them.

    {"job": {"parallelism": {"lowerBound": 1, "upperBound": 4}}}

REST, the command line and operators use this; the loop reads the inbox in its own, lenient way (`stores.asset_store`). Flink's
handler ignores fields that it does not know; here they are refused, since a misspelled bound would be a bound that is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from airflow_adaptive.runtime.requirements.control_requests import BOUNDS, encode_requirements
from airflow_adaptive.scheduler.config.durations import positive
from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.job_graph import JobType
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.requirements import (
    ParallelismRange,
    Requirements,
    accept,
    expand,
    violations,
)
from airflow_adaptive.scheduler.state import Finished, Outcome, SchedulerState

SUBJECT: Final = "resource requirements"

NOT_SPECIFIED: Final = "Request body does not specify resource requirements."
WRONG_FORMAT: Final = "Request did not match expected format JobResourceRequirementsBody."
"""Flink's words (`JobResourceRequirementsHandlers`)."""

LARGEST_BOUND: Final = (1 << 31) - 1
"""Flink's bounds are Java's ints."""

SHOWN_CHARACTERS: Final = 60
"""Of a value that is wrong, so much is shown."""


FOR_GOOD: Final = (Outcome.FINISHED, Outcome.CANCELED, Outcome.FAILED)


class NotRescalableError(ValueError):
    """A job that can't have other requirements; the message names it, and says why.

    Attributes:
        kind: of reason, for programs: `batch`, `finished` or `reactive`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def require_rescalable(
    job: str, state: SchedulerState | None, job_type: str | None = None, outcome: str | None = None
) -> None:
    """See that a job can have other requirements; a suspended one can, it is resumed with them.

    Args:
        job: id of the job.
        state: of its scheduler, None if it is not known.
        job_type: as the job shows it in short, None if it is not known.
        outcome: likewise, None for a job that has not ended.

    Raises:
        NotRescalableError: it is a batch, has ended, or takes all slots that there are anyway.
    """
    if state is not None:
        job_type = JobType.BATCH if state.job.job_type is JobType.BATCH else job_type
        outcome = outcome or (state.current.outcome if isinstance(state.current, Finished) else None)
    if job_type == JobType.BATCH:
        raise NotRescalableError(
            "batch", f"Job {job!r} is a batch: it runs on what it was submitted with, and never rescales."
        )
    if outcome in FOR_GOOD:
        raise NotRescalableError("finished", f"Job {job!r} has ended ({outcome}): run its DAG again to change it.")
    if state is not None and state.options.reactive:
        raise NotRescalableError(
            "reactive",
            f"Job {job!r} is in reactive mode: it takes all slots that there are, whatever is required of it.",
        )


def read(body: bytes) -> Any:
    """The JSON document that the bytes are, strictly: no NaN, no key twice, no half of a character.

    Raises:
        RequirementsError: they are none.
    """
    if not body.strip():
        raise RequirementsError(SUBJECT, [NOT_SPECIFIED])
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RequirementsError(SUBJECT, [f"{WRONG_FORMAT} It can't be read as JSON: {_cut(str(error))}"]) from error


def accepted(body: Any, state: SchedulerState) -> Requirements:
    """The requirements that a decoded body asks for, complete and with -1 replaced by the defaults.

    Args:
        body: vertex -> {"parallelism": {"lowerBound": n, "upperBound": n}}.
        state: of the job that they are for.

    Raises:
        RequirementsError: listing everything that is wrong.
    """
    if not isinstance(body, Mapping):
        raise RequirementsError(SUBJECT, [f"{WRONG_FORMAT} It must be an object with a field for each job vertex."])
    if not body:
        raise RequirementsError(SUBJECT, [NOT_SPECIFIED])
    defaults, maximum = default_requirements(state.job, state.options), state.job.max_parallelism
    malformed = {vertex: [*_malformed(vertex, item)] for vertex, item in body.items()}
    sound = {vertex: _bounds(item) for vertex, item in body.items() if not malformed[vertex]}
    expanded = {vertex: expand(bounds, defaults.get(vertex, bounds)) for vertex, bounds in sound.items()}
    judged = {vertex: most for vertex, most in maximum.items() if vertex in sound or vertex not in body}
    wrong = [*chain.from_iterable(malformed.values()), *violations(expanded, judged)]
    if wrong:
        raise RequirementsError(SUBJECT, wrong)
    return accept(expanded, defaults, maximum)


def expiry(lasts: str | None, until: str | None, now: datetime) -> datetime | None:
    """When bounds expire, None if they hold until they are lifted.

    Args:
        lasts: for how long they hold: "2 h", or seconds.
        until: or when they expire, ISO 8601 with a time zone.
        now: the time.

    Raises:
        ValueError: both are given, or one that makes no sense.
    """
    if lasts is not None and until is not None:
        raise ValueError("Both for how long the bounds hold and until when are given: give one of the two.")
    if lasts is not None:
        return now + positive(lasts)
    if until is None:
        return None
    try:
        at = datetime.fromisoformat(until)
    except ValueError as error:
        hint = "give ISO 8601 with a time zone, as 2026-01-31T18:00:00Z (in a URL a + is %2B)"
        raise ValueError(f"{_shown(until)} is no time: {hint}") from error
    if at.tzinfo is None:
        raise ValueError(f"{_shown(until)} has no time zone: add Z, or an offset such as +01:00 (in a URL %2B01:00).")
    if at <= now:
        raise ValueError(f"{_shown(until)} lies in the past: give a time that is to come.")
    return at.astimezone(UTC)


def version_of(requirements: Requirements) -> str:
    """A mark that differs for different requirements, the same for all who ask (an entity tag)."""
    text = json.dumps(encode_requirements(requirements), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bounds(item: Mapping[str, Any]) -> ParallelismRange:
    return ParallelismRange(*(item["parallelism"][bound] for bound in BOUNDS))


def _malformed(vertex: str, item: Any) -> Iterator[str]:
    """What is wrong with the form of what is asked for a vertex."""
    where = f"{WRONG_FORMAT} Job vertex [{_cut(vertex)}]:"
    yield from (f"{where} {finding}" for finding in _not_exactly(item, ["parallelism"]))
    if isinstance(item, Mapping) and "parallelism" in item:
        parallelism = item["parallelism"]
        yield from (f"{where} parallelism: {finding}" for finding in _not_exactly(parallelism, BOUNDS))
        if isinstance(parallelism, Mapping):
            yield from (
                f"{where} {bound} {finding}"
                for bound in BOUNDS
                if bound in parallelism
                for finding in _no_bound(parallelism[bound])
            )


def _not_exactly(item: Any, names: Iterable[str]) -> Iterator[str]:
    """How an object differs from one with exactly these fields."""
    if not isinstance(item, Mapping):
        yield f"{_shown(item)} must be an object with {' and '.join(names)}"
        return
    yield from (f"{name} is missing" for name in names if name not in item)
    yield from (f"there is no field {_shown(name)}, only {' and '.join(names)}" for name in item if name not in names)


def _no_bound(value: Any) -> Iterator[str]:
    if type(value) is not int:  # a bool is an int, and 2.0 equals 2
        yield f"{_shown(value)} must be a whole number"
    elif abs(value) > LARGEST_BOUND:
        yield f"{_shown(value)} is no parallelism that any job can have"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    for name in names:
        name.encode("utf-8")  # half of a surrogate pair can't be sent back
    if len(names) != len(pairs):
        twice = next(name for position, (name, _) in enumerate(pairs) if name in dict(pairs[:position]))
        raise ValueError(f"field {_shown(twice)} is there twice")
    return names


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _shown(value: Any) -> str:
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
