"""FLIP-291's request bodies and their expiry.

    {"job": {"parallelism": {"lowerBound": 1, "upperBound": 4}}}

The REST API, the command line and the operators `admit` a body before they store it, with every violation in one error. A reader of a stored
body decodes it leniently. Flink's handler ignores unknown fields. `admit` rejects unknown fields, because a misspelled bound would be lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from airflow_adaptive._core.scheduler.config.parsing import positive
from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.job_graph import JobType
from airflow_adaptive._core.scheduler.machine import default_requirements
from airflow_adaptive._core.scheduler.requirements import (
    RESET_TO_DEFAULT,
    ParallelismRange,
    Requirements,
    accept,
    expand,
    violations,
)
from airflow_adaptive._core.scheduler.state import Finished, Outcome, SchedulerState

BOUNDS: Final = ("lowerBound", "upperBound")
"""Fields of a vertex's parallelism."""

RESET: Final = ParallelismRange(RESET_TO_DEFAULT, RESET_TO_DEFAULT)
"""Reset of both bounds of a vertex to their defaults; the reset of every vertex clears an override."""

SUBJECT: Final = "resource requirements"

NOT_SPECIFIED: Final = "Request body does not specify resource requirements."
WRONG_FORMAT: Final = "Request did not match expected format JobResourceRequirementsBody."
"""Messages of Flink's `JobResourceRequirementsHandlers`."""

MAX_BOUND: Final = (1 << 31) - 1
"""Flink's bounds have Java's type `int`."""

MAX_VALUE_CHARACTERS: Final = 60
"""Longer values are cut in messages."""

TERMINAL_OUTCOMES: Final = (Outcome.FINISHED, Outcome.CANCELED, Outcome.FAILED)
"""Outcomes after which only a new run of the DAG can change the job. A suspended job resumes with the new requirements."""


class NotRescalableError(ValueError):
    """A job cannot have other requirements; the message names the job and the reason.

    Attributes:
        kind: reason code: `batch`, `finished` or `reactive`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def require_rescalable(
    job: str, state: SchedulerState | None, job_type: str | None = None, outcome: str | None = None
) -> None:
    """Check that a job can have other requirements.

    Args:
        job: id of the job.
        state: state of its scheduler, None if it is unknown.
        job_type: job type in the published summary, None if it is unknown.
        outcome: outcome in the published summary, None for a job that has not ended.

    Raises:
        NotRescalableError: the job is a batch job, has ended, or is in reactive mode.
    """
    if state is not None:
        job_type = JobType.BATCH if state.job.job_type is JobType.BATCH else job_type
        outcome = outcome or (state.current.outcome if isinstance(state.current, Finished) else None)
    if job_type == JobType.BATCH:
        raise NotRescalableError(
            "batch", f"Job {job!r} is a batch job: it keeps the parallelism with which it was submitted."
        )
    if outcome in TERMINAL_OUTCOMES:
        raise NotRescalableError("finished", f"Job {job!r} has ended ({outcome}): run its DAG again to change it.")
    if state is not None and state.options.reactive:
        raise NotRescalableError(
            "reactive", f"Job {job!r} is in reactive mode: it uses all available slots and ignores requirements."
        )


# ---- request body ---------------------------------------------------------------------------------------------------


def parse_json(body: bytes) -> Any:
    """Parse strict JSON: without NaN, duplicate fields and unpaired surrogates.

    Raises:
        RequirementsError: the body is not valid.
    """
    if not body.strip():
        raise RequirementsError(SUBJECT, [NOT_SPECIFIED])
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=unique_fields, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise RequirementsError(SUBJECT, [f"{WRONG_FORMAT} It is not valid JSON: {_cut(str(error))}"]) from error


def admit(body: Any, state: SchedulerState) -> Requirements:
    """Return the requirements of a parsed body, complete and with -1 replaced by the defaults.

    Args:
        body: vertex -> {"parallelism": {"lowerBound": n, "upperBound": n}}.
        state: scheduler state of the job.

    Raises:
        RequirementsError: the body is not acceptable; the message lists every violation.
    """
    if not isinstance(body, Mapping):
        raise RequirementsError(SUBJECT, [f"{WRONG_FORMAT} It must be an object with a field for each job vertex."])
    if not body:
        raise RequirementsError(SUBJECT, [NOT_SPECIFIED])
    defaults, maximum = default_requirements(state.job, state.options), state.job.max_parallelism
    malformed = {vertex: [*_malformed(vertex, item)] for vertex, item in body.items()}
    wellformed = {vertex: _bounds(item) for vertex, item in body.items() if not malformed[vertex]}
    expanded = {vertex: expand(bounds, defaults.get(vertex, bounds)) for vertex, bounds in wellformed.items()}
    checked = {vertex: most for vertex, most in maximum.items() if vertex in wellformed or vertex not in body}
    found = [*chain.from_iterable(malformed.values()), *violations(expanded, checked)]
    found += [
        f"To allow more than {maximum[vertex]} for job vertex [{vertex}], deploy the job with max_parallelism={bounds.upper} or more first. Its state is repartitioned on "
        "Spark 4.2 or later."
        for vertex, bounds in expanded.items()
        if vertex in maximum and bounds.upper > maximum[vertex]
    ]
    if found:
        raise RequirementsError(SUBJECT, found)
    return accept(expanded, defaults, maximum)


def encode_requirements(requirements: Requirements) -> dict[str, Any]:
    """Encode bounds as a request body."""
    return {
        vertex: {"parallelism": dict(zip(BOUNDS, (bounds.lower, bounds.upper), strict=True))}
        for vertex, bounds in requirements.items()
    }


def decode_bounds(body: Any) -> Requirements:
    """Decode a request body without checking the bounds.

    Raises:
        ValueError: the value does not have the form of a request body.
    """
    try:
        bounds = {vertex: _bounds(item) for vertex, item in body.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{body!r} does not have the form of FLIP-291's request body: {error!r}") from error
    odd = [bound for it in bounds.values() for bound in (it.lower, it.upper) if type(bound) is not int]
    if odd:
        raise ValueError(f"{body!r} has bounds that are not whole numbers: {odd}")
    return bounds


def version_of(requirements: Requirements) -> str:
    """Return the entity tag of requirements: a hash of their content."""
    text = json.dumps(encode_requirements(requirements), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bounds(item: Mapping[str, Any]) -> ParallelismRange:
    return ParallelismRange(*(item["parallelism"][bound] for bound in BOUNDS))


def _malformed(vertex: str, item: Any) -> Iterator[str]:
    """Yield the violations in the form of a vertex's requirements."""
    where = f"{WRONG_FORMAT} Job vertex [{_cut(vertex)}]:"
    yield from (f"{where} {violation}" for violation in _wrong_fields(item, ["parallelism"]))
    if isinstance(item, Mapping) and "parallelism" in item:
        parallelism = item["parallelism"]
        yield from (f"{where} parallelism: {violation}" for violation in _wrong_fields(parallelism, BOUNDS))
        if isinstance(parallelism, Mapping):
            yield from (f"{where} {violation}" for violation in _wrong_bounds(parallelism))


def _wrong_fields(item: Any, names: Iterable[str]) -> Iterator[str]:
    """Yield the differences between a value and an object with exactly these fields."""
    if not isinstance(item, Mapping):
        yield f"{_quoted(item)} must be an object with {' and '.join(names)}"
        return
    yield from (f"{name} is missing" for name in names if name not in item)
    known = ", ".join(names)
    yield from (f"unknown field {_quoted(name)}, known fields: {known}" for name in item if name not in names)


def _wrong_bounds(parallelism: Mapping[str, Any]) -> Iterator[str]:
    for bound in BOUNDS:
        value = parallelism.get(bound, 0)
        if type(value) is not int:  # bool is a subclass of int, and 2.0 equals 2
            yield f"{bound} {_quoted(value)} must be a whole number"
        elif abs(value) > MAX_BOUND:
            yield f"{bound} {_quoted(value)} exceeds the maximum {MAX_BOUND}"


def unique_fields(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object by name.

    Raises:
        ValueError: a name occurs twice, or cannot be encoded.
    """
    fields: dict[str, Any] = {}
    for name, value in pairs:
        name.encode("utf-8")  # an unpaired surrogate cannot be sent back
        if name in fields:
            raise ValueError(f"field {_quoted(name)} occurs twice")
        fields[name] = value
    return fields


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


# ---- expiry ---------------------------------------------------------------------------------------------------------


def parse_expiry(duration: str | None, until: str | None, now: datetime) -> datetime | None:
    """Return the expiry of an override, None if the override applies until it is cleared.

    Args:
        duration: duration of the override: "2 h", or seconds.
        until: expiry as ISO 8601 with a time zone.
        now: time.

    Raises:
        ValueError: both are given, or one is invalid.
    """
    if duration is not None and until is not None:
        raise ValueError("A duration and an expiry are given: use one of the two.")
    if until is None and duration is None:
        return None
    try:
        expires_at = now + positive(duration) if until is None else _parse_time(until).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{_quoted(until or duration)} is beyond the years 1 to 9999: use an earlier time.") from error
    if expires_at <= now:
        raise ValueError(f"{_quoted(until)} is in the past: use a time in the future.")
    return expires_at


def _parse_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "use ISO 8601 with a time zone, for example 2026-01-31T18:00:00Z (in a URL a + is %2B)"
        raise ValueError(f"{_quoted(text)} is not a time: {hint}") from error
    if at.tzinfo is None:
        raise ValueError(f"{_quoted(text)} has no time zone: add Z, or an offset such as +01:00 (in a URL %2B01:00).")
    return at


def _quoted(value: Any) -> str:
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}..."
