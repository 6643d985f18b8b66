"""Declarative resource requirements (FLIP-291): bounds of the parallelism of each vertex, with validation and defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_adaptive._core.scheduler.errors import RequirementsError

RESET_TO_DEFAULT = -1
"""Value of a bound that is reset to its default."""

Parallelism = Mapping[str, int]
"""Number of subtasks of each vertex."""


@dataclass(frozen=True, slots=True, order=True)
class ParallelismRange:
    """Inclusive bounds of the parallelism of a vertex."""

    lower: int
    upper: int

    @classmethod
    def of(cls, bounds: int | Sequence[int]) -> ParallelismRange:
        """Return a range from a pair of bounds, or from one number that is both bounds.

        Raises:
            ValueError: `bounds` is neither a number nor a pair of numbers.
        """
        match bounds:
            case int(number):
                return cls(number, number)
            case [int(lower), int(upper)]:
                return cls(lower, upper)
            case _:
                raise ValueError(f"parallelism {bounds!r} must be a whole number, or a pair of them (lower, upper)")


Requirements = Mapping[str, ParallelismRange]
"""Bounds of every vertex, by the name of the vertex."""


def violations(requirements: Requirements, max_parallelism: Mapping[str, int]) -> list[str]:
    """Return all violations of the requirements, with the messages of Flink's `JobResourceRequirements#validate`."""
    wrong = [text for name, bounds in requirements.items() for text in _vertex(name, bounds, max_parallelism)]
    missing = [name for name in max_parallelism if name not in requirements]
    return wrong + [
        f"The request is incomplete, missing job vertex [{name}] resource requirements." for name in missing
    ]


def accept(requirements: Requirements, defaults: Requirements, max_parallelism: Mapping[str, int]) -> Requirements:
    """Validate the requirements and expand -1. Flink persists unexpanded requirements, and then fails.

    Raises:
        RequirementsError: the requirements are invalid; the error contains all violations.
    """
    wrong = violations(requirements, max_parallelism)
    if wrong:
        raise RequirementsError("resource requirements", wrong)
    accepted = {name: expand(bounds, defaults[name]) for name, bounds in requirements.items()}
    crossed = [_crossed(name, bounds) for name, bounds in accepted.items() if bounds.lower > bounds.upper]
    if crossed:
        raise RequirementsError("resource requirements", crossed)
    return accepted


def are_accepted(requirements: Requirements, max_parallelism: Mapping[str, int]) -> bool:
    """Return whether the requirements are complete, valid and expanded, like a result of `accept`."""
    expanded = all(RESET_TO_DEFAULT not in (bounds.lower, bounds.upper) for bounds in requirements.values())
    return expanded and not violations(requirements, max_parallelism)


def is_within(parallelism: Parallelism, requirements: Requirements) -> bool:
    """Return whether the parallelism has exactly the vertices of the requirements, each within its bounds."""
    if parallelism.keys() != requirements.keys():
        return False
    return all(bounds.lower <= parallelism[name] <= bounds.upper for name, bounds in requirements.items())


def expand(bounds: ParallelismRange, default: ParallelismRange) -> ParallelismRange:
    """Return the bounds with a lower bound of -1 replaced by 1 (FLIP-291), and an upper bound of -1 by the default."""
    lower = 1 if bounds.lower == RESET_TO_DEFAULT else bounds.lower
    upper = default.upper if bounds.upper == RESET_TO_DEFAULT else bounds.upper
    return ParallelismRange(lower, upper)


def _vertex(name: str, requested: ParallelismRange, max_parallelism: Mapping[str, int]) -> Iterator[str]:
    if name not in max_parallelism:
        yield f"Job vertex [{name}] was not found in the JobGraph."
        return
    maximum = max_parallelism[name]
    bounds = expand(requested, ParallelismRange(1, maximum))
    if bounds.lower < 1 or bounds.upper < 1:
        yield (
            f"Both, the requested lower bound [{bounds.lower}] and upper bound [{bounds.upper}] for job vertex [{name}]"
            " must be greater than zero."
        )
        return
    if bounds.lower > bounds.upper:
        yield _crossed(name, bounds)
    if bounds.upper > maximum:
        yield (
            f"The newly requested parallelism {bounds.upper} for the job vertex {name} exceeds its maximum"
            f" parallelism {maximum}."
        )


def _crossed(name: str, bounds: ParallelismRange) -> str:
    return (
        f"The requested lower bound [{bounds.lower}] for job vertex [{name}] is higher than the upper bound"
        f" [{bounds.upper}]."
    )
