"""The rescale history: steps in English, and the rescale records of Flink after the steps.

The vectors describe the job of Flink's `RescaleTimelineITCase`. The job has two workers with two slots each, and restarts at
most once, without a delay. After each step the simulation continues until the state of the job no longer changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_adaptive._core.scheduler import resource_checks
from airflow_adaptive._core.scheduler.config.options import DEFAULTS
from airflow_adaptive._core.scheduler.policies.transition_manager import ResourceLevel
from airflow_adaptive._core.scheduler.state import Deploying, Executing, Restarting, WaitingForResources
from airflow_adaptive._core.scheduler.timeline import Amounts, Rescale
from tests.lab.conformance.result import (
    DESCRIPTION,
    Comparison,
    NotApplicableError,
    Vector,
    compare,
    expect_only,
    require_known,
)
from tests.lab.scenario import HOPELESS, MAX_PARALLELISM, Scenario

SLOTS_PER_WORKER = 2
WORKERS = 2
CAPACITY = SLOTS_PER_WORKER * WORKERS

_KEYS = {*DESCRIPTION, "config", "steps", "expected"}
_HISTORY_SIZE = "web.adaptive-scheduler.rescale-history.size"
_MAX_ACTIONS = 20
"""Maximum number of actions of the simulation after one step."""
_LONG_S = 300
"""At least the resource wait timeout, and longer than cooldown, stabilization and trigger delay together."""

_STATE_NAMES = {"Deploying": "CreatingExecutionGraph"}
_OWN_STATES = {"RestartingLocally"}
"""States without a counterpart in Flink."""

_POSITIONS = {"latest": 0, "newest": 0, "previous": 1, "second": 1, "second_latest": 1}
"""Index of a record, by name. Index 0 is the newest record."""


def rescale_timeline(vector: Vector) -> Iterator[Comparison]:
    """`DefaultRescaleTimeline`, as in the tests of `RescaleTimelineITCase`."""
    expect_only(vector, "expected")
    require_known("key", vector, _KEYS)
    size = _history_size(vector.get("config", {}))
    job = _SimulatedJob(vector["steps"])
    for step in vector["steps"]:
        job.apply(step)
    yield from _compare(vector["expected"], job.history[:size])


def _history_size(config: Mapping[str, Any]) -> int:
    require_known("configuration", config, (_HISTORY_SIZE,))
    size = int(config.get(_HISTORY_SIZE, DEFAULTS.history_size))
    if size < 1:
        raise NotApplicableError("the rescale history cannot be disabled")
    return size


def _compare(expected: Mapping[str, Any], history: Sequence[Rescale]) -> Iterator[Comparison]:
    for name, value in expected.items():
        if name == "history_size":
            yield from compare("history size", value, len(history))
        elif name == "history":
            yield from compare("history size", len(value), len(history))
            for number, (record, actual) in enumerate(zip(value, history, strict=False)):
                yield from _compare_record(f"history[{number}]", record, actual)
        elif name in _POSITIONS:
            position = _POSITIONS[name]
            yield from _compare_record(name, value, history[position] if position < len(history) else None)
        else:
            raise NotApplicableError(f"unknown expectation: {name}")


def _compare_record(which: str, expected: Mapping[str, Any], record: Rescale | None) -> Iterator[Comparison]:
    if record is None:
        yield Comparison(what=which, expected=expected, actual=None)
        return
    actual = _in_flink_terms(record)
    require_known("expectation", expected, actual)
    for name, value in expected.items():
        yield from compare(f"{which} {name}", value, actual[name])


def _in_flink_terms(record: Rescale) -> dict[str, Any]:
    """Return the record with Flink's names."""
    return {
        "trigger_cause": record.trigger_cause.value,
        "terminated_reason": _value(record.terminated_reason),
        "terminal_state": _value(record.terminal_state),
        "rescale_attempt_id": record.attempt,
        "scheduler_states": [
            _STATE_NAMES.get(span.state, span.state) for span in record.states if span.state not in _OWN_STATES
        ],
        **_amounts(record.vertices, "desired", "sufficient", "_parallelism"),
        **_amounts(record.groups, "desired", "minimal_required", "_slots"),
    }


def _amounts(amounts: Amounts, desired: str, sufficient: str, what: str) -> dict[str, int | None]:
    """Return the amounts of the only vertex or the only group, with Flink's names."""
    values = {
        desired: amounts.desired,
        sufficient: amounts.sufficient,
        "pre_rescale": amounts.before,
        "post_rescale": amounts.after,
    }
    return {f"{name}{what}": None if value is None else next(iter(value.values())) for name, value in values.items()}


def _value(reason: Any) -> str | None:
    return None if reason is None else reason.value


# ---- the simulation -------------------------------------------------------------------------------------------------


class _SimulatedJob:
    """A job, and the slots of its workers."""

    def __init__(self, steps: Sequence[str]) -> None:
        grows = any(_ADD.search(step) for step in steps)
        self.scenario: Scenario = Scenario(
            lower=1,
            upper=CAPACITY + SLOTS_PER_WORKER if grows else CAPACITY,
            restart_strategy={"type": "fixed-delay", "attempts": 1, "delay": 0},
        )
        self.slots: int = CAPACITY
        self._raised = 1

    @property
    def history(self) -> list[Rescale]:
        """All rescale records, newest first."""
        closed = [step.rescale for step in self.scenario.steps if step.rescale is not None]
        current = self.scenario.state.timeline.rescale
        return (closed if current is None else [*closed, current])[::-1]

    def apply(self, step: str) -> None:
        """Apply a step. Raises `NotApplicableError` if the step contains no known phrase."""
        for pattern, handle in _VOCABULARY:
            found = pattern.search(step)
            if found:
                self._begin()
                handle(self, found)
                return
        raise NotApplicableError(f"unknown step: {step}")

    def _begin(self) -> None:
        if self.scenario.state.name == "Created":
            self.scenario.given_waiting()

    def settle(self) -> None:
        """Provide slots, drivers and time until the state of the job no longer changes."""
        for _ in range(_MAX_ACTIONS):
            self.scenario.fire_due_timers()
            if not self._act():
                return
        raise NotApplicableError("the job does not reach a stable state")

    def _act(self) -> bool:
        """Do the next action for which the job waits. Return False if there is none."""
        scenario, state = self.scenario, self.scenario.state
        match state.current:
            case Deploying(plan=plan):
                scenario.when_slots(held=plan.slots, free=self.slots - plan.slots).when_plan_activated()
            case Executing(plan=plan) if resource_checks.executing_resources(state, plan) > ResourceLevel.NONE:
                scenario.after(_LONG_S)
            case Restarting(stopped_at=None):
                scenario.when_driver_ended()
            case WaitingForResources() if state.available_slots != self.slots:
                scenario.when_slots(free=self.slots)
            case WaitingForResources() if resource_checks.possible_parallelism(state) is not None:
                scenario.after(state.options.resource_stabilization_timeout.total_seconds())
            case _:
                return False
        return True

    def offer(self, slots: int) -> None:
        """Change the number of slots. The job keeps its held slots up to this number."""
        self.slots = slots
        held = min(self.scenario.state.held_slots, slots)
        self.scenario.when_slots(held=held, free=slots - held)
        self.settle()

    def require(self, step: str) -> None:
        """A user sets the upper bound that the step states. Without a number, the new bound is below or above the capacity."""
        upper = _stated_slots(step)
        if upper is None and not _DOWN.search(step):
            self._raised += 1
            upper = CAPACITY * self._raised
        if upper is not None and upper > MAX_PARALLELISM:
            raise NotApplicableError(f"the upper bound {upper} exceeds the maximum parallelism")
        self.scenario.when_requirements(1, upper or SLOTS_PER_WORKER)
        self.settle()

    def fail_unrecoverably(self) -> None:
        """A failure fails the job."""
        self.scenario.when_query_failed(HOPELESS).when_driver_ended()

    def fail(self) -> None:
        """A query fails, and the job restarts if the restart strategy allows it."""
        self.scenario.when_query_failed()
        self.settle()


def _stated_slots(step: str) -> int | None:
    """Return the number of slots that a step states as a multiple of the capacity, as workers, or as its last number."""
    if times := _TIMES.search(step):
        return CAPACITY * int(times[1] or times[3])
    if workers := _WORKERS.search(step):
        return SLOTS_PER_WORKER * int(workers[1] or 1)
    numbers = _NUMBER.findall(step)
    return int(numbers[-1]) if numbers else None


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_WORKER = r"(tms?|task ?managers?|workers?)\b"
_REMOVE = r"\b(kill|terminate|lose|stop|remove)\b"
_DOWN = _pattern(r"\b(lower(?! bound)|reduce|decrease|shrink|fewer|less|smaller|below|half|down|downscale)\b")
_TIMES = _pattern(r"\b(\d+) ?(x|times)\b|\* ?(\d+)")
_WORKERS = _pattern(rf"\b(\d+) {_WORKER}|\b(one|a|single) {_WORKER}|slots[ _]?per[ _]?(tm|task)")
_NUMBER = _pattern(r"\d+")
_ADD = _pattern(rf"\b(add|start|new|more|another)\b.*({_WORKER}|slots|resources)")

_VOCABULARY: Sequence[tuple[re.Pattern[str], Callable[[_SimulatedJob, re.Match[str]], object]]] = (
    (
        _pattern(r"stop.*savepoint.*fail|savepoint.*fails"),
        lambda job, _: job.scenario.when_suspended().when_savepoint_failed(),
    ),
    (
        _pattern(r"stop.*savepoint|\bsuspend"),
        lambda job, _: job.scenario.when_suspended().when_savepoint_completed().when_driver_ended(),
    ),
    (_pattern(rf"{_REMOVE}.*\b(all|both|every|last|remaining)\b.*{_WORKER}"), lambda job, _: job.offer(0)),
    (_pattern(rf"{_REMOVE}.*{_WORKER}"), lambda job, _: job.offer(max(job.slots - SLOTS_PER_WORKER, 0))),
    (
        _pattern(
            r"\b(requirements|bounds?)\b|\bscale (down|in)\b|\bdown-?scale\b"
            r"|\b(lower|reduce|decrease|raise|increase) (the )?parallelism\b"
        ),
        lambda job, found: job.require(found.string),
    ),
    (_pattern(r"\bcancel"), lambda job, _: job.scenario.when_canceled().when_driver_ended()),
    (_pattern(r"\bwait.*\b(running|reached)\b"), lambda job, _: job.settle()),
    (_pattern(r"\b(wait|timeout|elapse[sd]?|cool ?down|idle|idling)\b"), lambda job, _: job.scenario.after(_LONG_S)),
    (
        _pattern(r"non-recoverable|unrecoverable|not recoverable|exhausted|no restart|\bjob fails\b"),
        lambda job, _: job.fail_unrecoverably(),
    ),
    (_pattern(r"\b(fails?|failure|failover|exception)\b"), lambda job, _: job.fail()),
    (_pattern(r"\b(finish(es|ed)?|unblock|end of input)\b"), lambda job, _: job.scenario.when_completed()),
    (_ADD, lambda job, _: job.offer(job.slots + SLOTS_PER_WORKER)),
    (_pattern(r"\b(running|runs?|executing|submit(ted)?|deployed)\b|\binitial schedul"), lambda job, _: job.settle()),
)
"""Patterns of the phrases in a step, with their handlers. The first match applies."""
