"""Limits of the durations of a transition manager."""

from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.scheduler.policies.transition_manager import (
    CooldownExtension,
    Phase,
    Resources,
    TransitionManager,
)
from tests.lab.scenario import START
from tests.support.patterns import exactly

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
        manager = manager.change(START + second * SECOND, Resources.SUFFICIENT)
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
    stabilizing = manager.advance(START + 30 * SECOND, Resources.NONE)
    assert (stabilizing.phase, stabilizing.first_change) == (Phase.IDLING, None)


def test_nothing_is_left_to_evaluate_when_resources_have_stabilized():
    manager = TransitionManager.begin(START, stabilization=SECOND, max_trigger_delay=10 * SECOND, changed=True)
    assert manager.advance(START, Resources.SUFFICIENT).evaluation == START + 10 * SECOND
    stabilized = manager.advance(START + SECOND, Resources.SUFFICIENT)
    assert (stabilized.phase, stabilized.evaluation) == (Phase.STABILIZED, None)
