"""The transition manager: limits and late calls. What Flink's own tests show is in the conformance vectors."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.policies.transition_manager import (
    CooldownExtension,
    Phase,
    ResourceLevel,
    TransitionManager,
)
from tests.lab.scenario import START
from tests.support.patterns import exactly


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def manager(**changes) -> TransitionManager:
    settings = {"cooldown": seconds(30), "stabilization": seconds(60), "max_trigger_delay": seconds(10)}
    return TransitionManager.begin(START, **(settings | changes))


def test_late_call_handles_what_fell_due_in_between():
    changed = manager().change(START + seconds(5), ResourceLevel.SUFFICIENT)
    assert changed.phase is Phase.COOLDOWN
    assert changed.advance(START + seconds(1000), ResourceLevel.SUFFICIENT).phase is Phase.TRANSITIONING
    assert changed.advance(START + seconds(1000), ResourceLevel.NONE).phase is Phase.IDLING


def test_extension_never_shortens_the_cooldown():
    extended = manager(extension=CooldownExtension.EVERY_CHANGE, limit=seconds(20))
    assert extended.change(START + seconds(5), ResourceLevel.SUFFICIENT).cooldown_ends == START + seconds(30)


def test_unusable_change_does_not_extend_the_cooldown():
    extended = manager(extension=CooldownExtension.EVERY_CHANGE)
    assert extended.change(START + seconds(5), ResourceLevel.NONE).cooldown_ends == START + seconds(30)


def test_change_while_stabilizing_requests_another_evaluation():
    stabilizing = manager(cooldown=seconds(0)).change(START + seconds(1), ResourceLevel.SUFFICIENT)
    looked = stabilizing.advance(START + seconds(11), ResourceLevel.SUFFICIENT)
    assert (looked.phase, looked.evaluation) == (Phase.STABILIZING, None)
    again = looked.change(START + seconds(20), ResourceLevel.SUFFICIENT)
    assert again.evaluation == START + seconds(30)
    assert again.change(START + seconds(25), ResourceLevel.SUFFICIENT).evaluation == START + seconds(30)


CALLS = st.tuples(
    st.sampled_from(["change", "trigger", "advance"]), st.integers(0, 50), st.sampled_from(list(ResourceLevel))
)


@given(calls=st.lists(CALLS, max_size=30), extension=st.sampled_from(list(CooldownExtension)))
def test_manager_never_rescales_without_sufficient_resources(
    calls: list[tuple[str, int, ResourceLevel]], extension: CooldownExtension
):
    current, now = manager(extension=extension, limit=seconds(120)), START
    for call, gap, resources in calls:
        now += seconds(gap)
        before, current = current, getattr(current, call)(now, resources)
        if before.phase is Phase.TRANSITIONING:
            assert current == before
        elif current.phase is Phase.TRANSITIONING:
            assert resources >= ResourceLevel.SUFFICIENT
            assert now >= START + seconds(30)
        else:
            assert current.due is None or current.due > now
        assert current.cooldown_ends <= START + seconds(120)


MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)

# ---- the transition manager -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("max_trigger_delay", "Max trigger delay must not be negative"),
        ("stabilization", "Resource stabilization timeout must not be negative"),
    ],
)
def test_duration_of_a_transition_manager_is_not_negative(name: str, words: str):
    durations: dict[str, Any] = {"stabilization": NOTHING, "max_trigger_delay": NOTHING}
    TransitionManager.begin(START, **durations)
    with pytest.raises(ValueError, match=exactly(words)):
        TransitionManager.begin(START, **durations | {name: -MS})


def cooling(extension: CooldownExtension, limit: timedelta | None = None) -> TransitionManager:
    return TransitionManager.begin(START, cooldown=30 * SECOND, stabilization=NOTHING, extension=extension, limit=limit)


def changed(manager: TransitionManager, *seconds: int) -> TransitionManager:
    for second in seconds:
        manager = manager.change(START + second * SECOND, ResourceLevel.SUFFICIENT)
    return manager


def test_cooldown_is_extended_to_its_limit_and_no_further():
    every = cooling(CooldownExtension.EVERY_CHANGE, limit=45 * SECOND)
    assert changed(every, 10).cooldown_ends == START + 40 * SECOND
    assert changed(every, 10, 20).cooldown_ends == START + 45 * SECOND


@pytest.mark.parametrize("extension", CooldownExtension)
def test_first_of_the_changes_within_the_cooldown_is_remembered(extension: CooldownExtension):
    assert changed(cooling(extension), 10, 20).first_change == START + 10 * SECOND


def test_manager_forgets_a_change_without_a_transition():
    manager = changed(cooling(CooldownExtension.NONE), 10)
    stabilizing = manager.advance(START + 30 * SECOND, ResourceLevel.NONE)
    assert (stabilizing.phase, stabilizing.first_change) == (Phase.IDLING, None)


def test_nothing_is_left_to_evaluate_when_resources_have_stabilized():
    manager = TransitionManager.begin(START, stabilization=SECOND, max_trigger_delay=10 * SECOND, changed=True)
    assert manager.advance(START, ResourceLevel.SUFFICIENT).evaluation == START + 10 * SECOND
    stabilized = manager.advance(START + SECOND, ResourceLevel.SUFFICIENT)
    assert (stabilized.phase, stabilized.evaluation) == (Phase.STABILIZED, None)
