"""The rescale history: a story in English steps, and the records that Flink has of it.

The world is that of Flink's `RescaleTimelineITCase`: a job on two workers with two slots each, which may restart once without
delay. Workers do as they are told, so after each step the job comes to rest before the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_adaptive.scheduler import resource_checks
from airflow_adaptive.scheduler.config.options import DEFAULTS
from airflow_adaptive.scheduler.policies.transition_manager import Resources
from airflow_adaptive.scheduler.state import Deploying, Executing, Restarting, WaitingForResources
from airflow_adaptive.scheduler.timeline import Amounts, Rescale
from airflow_adaptive.testing.conformance.result import (
    Deviation,
    NotApplicableError,
    Vector,
    compare,
    expect_only,
)
from airflow_adaptive.testing.scenario import HOPELESS, MAX_PARALLELISM, Scenario

SLOTS_PER_WORKER = 2
WORKERS = 2
CAPACITY = SLOTS_PER_WORKER * WORKERS

_UNDERSTOOD = {"id", "source", "notes", "verified", "uncertain", "config", "steps", "expected"}
_HISTORY_SIZE = "web.adaptive-scheduler.rescale-history.size"
_PATIENCE = 20
_LONG_S = 300
"""Longer than cooldown, stabilisation and the delay of a trigger together, and as long as the wait for resources."""

_STATE_NAMES = {"Deploying": "CreatingExecutionGraph"}
_OWN_STATES = {"RestartingLocally"}
"""States that Flink does not have."""

_POSITIONS = {"latest": 0, "newest": 0, "previous": 1, "second": 1, "second_latest": 1}
"""Records by name, counted from the newest."""


def rescale_timeline(vector: Vector) -> Iterator[Deviation]:
    """`DefaultRescaleTimeline`, as the tests of `RescaleTimelineITCase` see it."""
    expect_only(vector, "expected")
    unknown = sorted(set(vector) - _UNDERSTOOD)
    if unknown:
        raise NotApplicableError(f"not understood: {', '.join(unknown)}")
    size = _history_size(vector.get("config", {}))
    story = _Story(vector["steps"])
    for step in vector["steps"]:
        story.tell(step)
    yield from _compare(vector["expected"], story.history[:size])


def _history_size(config: Mapping[str, Any]) -> int:
    unknown = sorted(set(config) - {_HISTORY_SIZE})
    if unknown:
        raise NotApplicableError(f"configuration not understood: {', '.join(unknown)}")
    size = int(config.get(_HISTORY_SIZE, DEFAULTS.history_size))
    if size < 1:
        raise NotApplicableError("the history is always on")
    return size


def _compare(expected: Mapping[str, Any], history: Sequence[Rescale]) -> Iterator[Deviation]:
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
            raise NotApplicableError(f"expectation not understood: {name}")


def _compare_record(which: str, expected: Mapping[str, Any], record: Rescale | None) -> Iterator[Deviation]:
    if record is None:
        yield Deviation(what=which, expected=expected, actual=None)
        return
    actual = _told(record)
    unknown = sorted(set(expected) - set(actual))
    if unknown:
        raise NotApplicableError(f"expectation not understood: {', '.join(unknown)}")
    for name, value in expected.items():
        yield from compare(f"{which} {name}", value, actual[name])


def _told(record: Rescale) -> dict[str, Any]:
    """The record in Flink's words."""
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
    """Of the only vertex, or the only group."""
    told = {
        desired: amounts.desired,
        sufficient: amounts.sufficient,
        "pre_rescale": amounts.before,
        "post_rescale": amounts.after,
    }
    return {f"{name}{what}": None if value is None else next(iter(value.values())) for name, value in told.items()}


def _value(reason: Any) -> str | None:
    return None if reason is None else reason.value


# ---- the story ------------------------------------------------------------------------------------------------------


class _Story:
    """A job, and the workers that there are."""

    def __init__(self, steps: Sequence[str]) -> None:
        grows = any(_ADD.search(step) for step in steps)
        self.job = Scenario(
            lower=1,
            upper=CAPACITY + SLOTS_PER_WORKER if grows else CAPACITY,
            restart_strategy={"type": "fixed-delay", "attempts": 1, "delay": 0},
        )
        self.slots = CAPACITY
        self._raised = 1

    @property
    def history(self) -> list[Rescale]:
        """All records, the newest first."""
        closed = [step.rescale for step in self.job.steps if step.rescale is not None]
        under_way = self.job.state.timeline.rescale
        return (closed if under_way is None else [*closed, under_way])[::-1]

    def tell(self, step: str) -> None:
        """Let a step happen. Raises `NotApplicableError`."""
        for pattern, act in _VOCABULARY:
            found = pattern.search(step)
            if found:
                self._begin()
                act(self, found)
                return
        raise NotApplicableError(f"step not understood: {step}")

    def _begin(self) -> None:
        if self.job.state.name == "Created":
            self.job.given_waiting()

    def settle(self) -> None:
        """Slots are there, drivers obey, and time passes as long as something comes of it."""
        for _ in range(_PATIENCE):
            self.job.settle()
            if not self._move():
                return
        raise NotApplicableError("the job does not come to rest")

    def _move(self) -> bool:
        job, state = self.job, self.job.state
        match state.current:
            case Deploying(plan=plan):
                job.when_slots(held=plan.slots, free=self.slots - plan.slots).when_plan_activated()
            case Executing(plan=plan) if resource_checks.executing_resources(state, plan) > Resources.NONE:
                job.after(_LONG_S)
            case Restarting(stopped_at=None):
                job.when_driver_ended()
            case WaitingForResources() if state.available_slots != self.slots:
                job.when_slots(free=self.slots)
            case WaitingForResources() if resource_checks.possible_parallelism(state) is not None:
                job.after(state.options.resource_stabilization_timeout.total_seconds())
            case _:
                return False
        return True

    def offer(self, slots: int) -> None:
        """There are so many slots from now on; the job keeps what it holds of them."""
        self.slots = slots
        held = min(self.job.state.held_slots, slots)
        self.job.when_slots(held=held, free=slots - held)
        self.settle()

    # ---- steps ------------------------------------------------------------------------------------------------------

    def run(self, _: re.Match[str]) -> None:
        self.settle()

    def add(self, _: re.Match[str]) -> None:
        self.offer(self.slots + SLOTS_PER_WORKER)

    def kill_all(self, _: re.Match[str]) -> None:
        self.offer(0)

    def kill(self, _: re.Match[str]) -> None:
        self.offer(max(self.slots - SLOTS_PER_WORKER, 0))

    def raise_requirements(self, found: re.Match[str]) -> None:
        self._raised += 1
        self._require(int(found["bound"] or CAPACITY * self._raised))

    def lower_requirements(self, found: re.Match[str]) -> None:
        self._require(int(found["bound"] or SLOTS_PER_WORKER))

    def _require(self, upper: int) -> None:
        if upper > MAX_PARALLELISM:
            raise NotApplicableError(f"upper bound {upper} is beyond the maximum parallelism")
        self.job.when_requirements(1, upper)
        self.settle()

    def wait(self, _: re.Match[str]) -> None:
        self.job.after(_LONG_S)

    def fail_for_good(self, _: re.Match[str]) -> None:
        self.job.when_query_failed(HOPELESS).when_driver_ended()

    def fail(self, _: re.Match[str]) -> None:
        self.job.when_query_failed()
        self.settle()

    def finish(self, _: re.Match[str]) -> None:
        self.job.when_completed()

    def cancel(self, _: re.Match[str]) -> None:
        self.job.when_canceled().when_driver_ended()

    def stop_in_vain(self, _: re.Match[str]) -> None:
        self.job.when_suspended().when_savepoint_failed()

    def stop(self, _: re.Match[str]) -> None:
        self.job.when_suspended().when_savepoint_completed().when_driver_ended()


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_WORKER = r"(tms?|task ?managers?|workers?)\b"
_LOSE = r"\b(kill|terminate|lose|stop|remove)\b"
_BOUND = r"([^0-9]*(\bto|\bbound|[\[(]) ?(\d+ ?(,|\.\.|-) ?)?(?P<bound>\d+))?"
_ADD = _pattern(rf"\b(add|start|new|more|another)\b.*({_WORKER}|slots|resources)")

_VOCABULARY: Sequence[tuple[re.Pattern[str], Callable[[_Story, re.Match[str]], None]]] = (
    (_pattern(r"stop.*savepoint.*fail|savepoint.*fails"), _Story.stop_in_vain),
    (_pattern(r"stop.*savepoint|\bsuspend"), _Story.stop),
    (_pattern(rf"{_LOSE}.*\b(all|both|every|last|remaining)\b.*{_WORKER}"), _Story.kill_all),
    (_pattern(rf"{_LOSE}.*{_WORKER}"), _Story.kill),
    (_pattern(rf"\b(lower|reduce|decrease)\b.*\b(requirements|bound){_BOUND}"), _Story.lower_requirements),
    (_pattern(rf"\b(requirements|bound)\b{_BOUND}"), _Story.raise_requirements),
    (_pattern(r"\bcancel"), _Story.cancel),
    (_pattern(r"\bwait.*\b(running|reached)\b"), _Story.run),
    (_pattern(r"\b(wait|timeout|elapse[sd]?|cool ?down|idle|idling)\b"), _Story.wait),
    (
        _pattern(r"non-recoverable|unrecoverable|not recoverable|exhausted|no restart|\bjob fails\b"),
        _Story.fail_for_good,
    ),
    (_pattern(r"\b(fails?|failure|failover|exception)\b"), _Story.fail),
    (_pattern(r"\b(finish(es|ed)?|unblock|end of input)\b"), _Story.finish),
    (_ADD, _Story.add),
    (_pattern(r"\b(running|runs?|executing|submit(ted)?|deployed)\b|\binitial schedul"), _Story.run),
)
"""What a step may say, the more particular first."""
