"""The transition manager: limits and late calls. What Flink's own tests show is in the conformance vectors."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.policies.transition_manager import (
    CooldownExtension,
    Phase,
    Resources,
    TransitionManager,
)
from tests.lab.scenario import START


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def manager(**changes) -> TransitionManager:
    settings = {"cooldown": seconds(30), "stabilization": seconds(60), "max_trigger_delay": seconds(10)}
    return TransitionManager.begin(START, **(settings | changes))


@pytest.mark.parametrize("wrong", [{"stabilization": seconds(-1)}, {"max_trigger_delay": seconds(-1)}])
def test_negative_durations_are_refused(wrong: dict[str, timedelta]):
    with pytest.raises(ValueError, match="must not be negative"):
        manager(**wrong)


def test_late_call_handles_what_fell_due_in_between():
    changed = manager().change(START + seconds(5), Resources.SUFFICIENT)
    assert changed.phase is Phase.COOLDOWN
    assert changed.advance(START + seconds(1000), Resources.SUFFICIENT).phase is Phase.TRANSITIONING
    assert changed.advance(START + seconds(1000), Resources.NONE).phase is Phase.IDLING


def test_extension_never_shortens_the_cooldown():
    extended = manager(extension=CooldownExtension.EVERY_CHANGE, limit=seconds(20))
    assert extended.change(START + seconds(5), Resources.SUFFICIENT).cooldown_ends == START + seconds(30)


def test_unusable_change_does_not_extend_the_cooldown():
    extended = manager(extension=CooldownExtension.EVERY_CHANGE)
    assert extended.change(START + seconds(5), Resources.NONE).cooldown_ends == START + seconds(30)


def test_change_while_stabilizing_requests_another_evaluation():
    stabilizing = manager(cooldown=seconds(0)).change(START + seconds(1), Resources.SUFFICIENT)
    looked = stabilizing.advance(START + seconds(11), Resources.SUFFICIENT)
    assert (looked.phase, looked.evaluation) == (Phase.STABILIZING, None)
    again = looked.change(START + seconds(20), Resources.SUFFICIENT)
    assert again.evaluation == START + seconds(30)
    assert again.change(START + seconds(25), Resources.SUFFICIENT).evaluation == START + seconds(30)


CALLS = st.tuples(
    st.sampled_from(["change", "trigger", "advance"]), st.integers(0, 50), st.sampled_from(list(Resources))
)


@given(calls=st.lists(CALLS, max_size=30), extension=st.sampled_from(list(CooldownExtension)))
def test_manager_never_rescales_without_sufficient_resources(
    calls: list[tuple[str, int, Resources]], extension: CooldownExtension
):
    current, now = manager(extension=extension, limit=seconds(120)), START
    for call, gap, resources in calls:
        now += seconds(gap)
        before, current = current, getattr(current, call)(now, resources)
        if before.phase is Phase.TRANSITIONING:
            assert current == before
        elif current.phase is Phase.TRANSITIONING:
            assert resources >= Resources.SUFFICIENT
            assert now >= START + seconds(30)
        else:
            assert current.due is None or current.due > now
        assert current.cooldown_ends <= START + seconds(120)
