"""Bodies of resource requirements as FLIP-291 has them: reading them, with all that is wrong told at once, and writing them.

    {"job": {"parallelism": {"lowerBound": 1, "upperBound": 4}}}

REST, the command line and operators use this; the loop reads the inbox in its own, lenient way (`hooks.asset_store`). Flink's
handler ignores fields that it does not know; here they are refused, since a misspelled bound would be a bound that is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.requirements import (
    RESET_TO_DEFAULT,
    ParallelismRange,
    Requirements,
    accept,
    findings,
)
from airflow_adaptive.scheduler.state import SchedulerState

SUBJECT: Final = "resource requirements"

NOT_SPECIFIED: Final = "Request body does not specify resource requirements."
WRONG_FORMAT: Final = "Request did not match expected format JobResourceRequirementsBody."
"""Flink's words (`JobResourceRequirementsHandlers`)."""

BOUNDS: Final = ("lowerBound", "upperBound")

LARGEST_BOUND: Final = (1 << 31) - 1
"""Flink's bounds are Java's ints."""

SHOWN_CHARACTERS: Final = 60
"""Of a value that is wrong, so much is shown."""


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
    wrong = [finding for vertex, item in body.items() for finding in _malformed(vertex, item)]
    sound = {vertex: _bounds(item) for vertex, item in body.items() if not any(_malformed(vertex, item))}
    expanded = {vertex: _expanded(bounds, defaults.get(vertex)) for vertex, bounds in sound.items()}
    judged = {vertex: most for vertex, most in maximum.items() if vertex in sound or vertex not in body}
    wrong += findings(expanded, judged)
    if wrong:
        raise RequirementsError(SUBJECT, wrong)
    return accept(expanded, defaults, maximum)


def body_of(requirements: Requirements) -> dict[str, Any]:
    """The requirements as a body."""
    return {
        vertex: {"parallelism": dict(zip(BOUNDS, (bounds.lower, bounds.upper), strict=True))}
        for vertex, bounds in requirements.items()
    }


def wanted(asked: Any, state: SchedulerState) -> Requirements:
    """The requirements that hold, or will as soon as the loop has seen them.

    Args:
        asked: body in the job's inbox, None without one; one that can't hold is ignored, as by the loop.
        state: of the scheduler, as far as it is known.
    """
    try:
        return accepted(asked, state)
    except RequirementsError:
        return state.requirements if state.declaration is None else state.declaration.requirements


def version_of(requirements: Requirements) -> str:
    """A mark that differs for different requirements, the same for all who ask (an entity tag)."""
    text = json.dumps(body_of(requirements), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _expanded(bounds: ParallelismRange, default: ParallelismRange | None) -> ParallelismRange:
    lower = 1 if bounds.lower == RESET_TO_DEFAULT else bounds.lower
    upper = default.upper if bounds.upper == RESET_TO_DEFAULT and default is not None else bounds.upper
    return ParallelismRange(lower, upper)


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
