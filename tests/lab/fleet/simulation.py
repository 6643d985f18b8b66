"""Simulates one scenario, and checks the invariants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.lab.fleet.environment import Environment
from tests.lab.fleet.faults import Faults
from tests.lab.fleet.invariants.activity import CHECK_INTERVAL_S, Activity
from tests.lab.fleet.invariants.growth import Growth
from tests.lab.fleet.invariants.recovery import Recovery
from tests.lab.fleet.invariants.safety import Safety
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.fleet.scenario import PlannedEvent, Scenario
from tests.lab.fleet.shrink import shortest

SETTLING_S: Final = 180.0
"""Longest time after the end of a scenario until all jobs are in their final state, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one simulation.

    Attributes:
        seed: the seed.
        jobs: number of jobs.
        virtual_s: virtual duration, seconds.
        facts: number of lines of the history.
        digest: hash of the history.
        invariant: invariant that does not hold, "" if all hold.
        violation: what has happened, "" without a violation.
    """

    seed: int
    jobs: int
    virtual_s: float
    facts: int
    digest: str
    invariant: str = ""
    violation: str = ""

    @property
    def summary(self) -> str:
        """One line for the outcome."""
        if not self.invariant:
            return (
                f"seed {self.seed}: {self.jobs} jobs, {self.virtual_s:.0f} s, {self.facts} facts, history {self.digest}"
            )
        return f"seed {self.seed}: violated {self.invariant} at {self.virtual_s:.1f} s: {self.violation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A simulation that has ended.

    Attributes:
        outcome: its result.
        history: lines of its history.
    """

    outcome: Outcome
    history: Sequence[str]


def simulate(scenario: Scenario) -> Simulated:
    """Simulate a scenario until its end, or until an invariant does not hold."""
    environment = Environment(scenario)
    try:
        with environment.installed():
            _run(environment)
        violation = ViolationError("", "")
    except ViolationError as error:
        violation = error
    except Exception as error:  # noqa: BLE001  a violation of this seed, so that the other seeds of a long run continue
        violation = ViolationError("exceptions", f"{type(error).__name__}: {error}")
    return Simulated(outcome=_outcome(environment, violation), history=environment.history.lines)


def shortest_failure(scenario: Scenario, invariant: str, tries: int = 200) -> Scenario:
    """Return a scenario with as few events as possible that violates the same invariant."""

    def fails(events: Sequence[PlannedEvent]) -> bool:
        return simulate(replace(scenario, events=tuple(events))).outcome.invariant == invariant

    return replace(scenario, events=tuple(shortest(scenario.events, fails, tries)))


def _run(environment: Environment) -> None:
    kernel, safety, activity = environment.kernel, Safety(environment), Activity(environment)
    Faults(environment).plan()
    while kernel.now < environment.scenario.duration_s or not _has_recovered(environment):
        kernel.run(kernel.now + CHECK_INTERVAL_S, safety.check)
        activity.check()


def _has_recovered(environment: Environment) -> bool:
    """Return whether all jobs are in their final state. Raises `ViolationError` if a job needs too much time."""
    try:
        Recovery(environment).check()
        Growth(environment).check()
    except ViolationError:
        if environment.kernel.now >= environment.scenario.duration_s + SETTLING_S:
            raise
        return False
    return True


def _outcome(environment: Environment, violation: ViolationError) -> Outcome:
    history = environment.history
    return Outcome(
        seed=environment.scenario.seed,
        jobs=len(environment.jobs),
        virtual_s=environment.kernel.now,
        facts=len(history.lines),
        digest=history.digest,
        invariant=violation.invariant,
        violation=violation.text,
    )
