"""All histories of small jobs up to a depth; `make lab TASK=explore` goes further."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from airflow_adaptive._core.scheduler import machine, steps
from airflow_adaptive._core.scheduler.events import CancelRequested, DriverSubmitted, Event, SlotsChanged
from airflow_adaptive._core.scheduler.state import SchedulerState, WaitingForResources
from airflow_adaptive._core.scheduler.steps import Step
from tests.support.examples import is_nightly
from tests.support.scheduler.exploration import Exploration, never_seen
from tests.support.scheduler.explored_jobs import MODELS, Model

pytestmark = pytest.mark.no_cover
"""Coverage would make it three times as slow."""

DEPTH = 4 if is_nightly() else 3

OTHER_DEPTHS = {
    "cooldown extended, rescales forced": 4,
    "reactive": 3,
    "only executors": 3,
    "deployed again": 3,
    "two vertices, one group": 3,
    "two vertices, two groups": 3,
}
"""One model that meets the last transition of the table, and models that add little to the others."""


@cache
def explored(model: str) -> Exploration:
    return Exploration(model=MODELS[model]).run(depth=OTHER_DEPTHS.get(model, DEPTH))


@pytest.mark.parametrize("model", MODELS)
def test_invariants_hold_in_every_reachable_state_of_a_small_job(model: str):
    exploration = explored(model)
    assert exploration.layers[-1].depth == OTHER_DEPTHS.get(model, DEPTH)
    assert exploration.layers[-1].states > 300


@pytest.mark.parametrize("model", MODELS)
def test_equivalent_states_have_equivalent_successors(model: str):
    assert explored(model).compared > 0


def test_every_transition_of_the_table_is_met():
    assert not never_seen(explored(model) for model in MODELS)


@pytest.mark.long
def test_exploration_ends_when_there_is_nothing_new():
    options = {"restart_strategy": "none", "max_trigger_delay": 0, "scaling_interval_min": 0, "stop_timeout": 1}
    small = Model(options=options, slots=((0, 0), (0, 1), (1, 0)), bounds=((1, 2),))
    assert Exploration(model=small).run().complete


# ---- the exploration itself -----------------------------------------------------------------------------------------


def deaf(state: SchedulerState, event: Event) -> Step:
    """A scheduler that does not hear who cancels."""
    return steps.stay(state, event) if isinstance(event, CancelRequested) else machine.step(state, event)


def twofold(state: SchedulerState, event: Event) -> Step:
    """A scheduler that starts each driver twice."""
    step = machine.step(state, event)
    return replace(step, commands=step.commands * 2)


def sleepy(state: SchedulerState, event: Event) -> Step:
    """A scheduler that does nothing when slots arrive while it waits."""
    if isinstance(state.current, WaitingForResources) and isinstance(event, SlotsChanged):
        return steps.stay(replace(state, offers=event.offers, standby_offer=event.standby), event)
    return machine.step(state, event)


def moody(state: SchedulerState, event: Event) -> Step:
    """A scheduler that lets the number of its steps decide."""
    ignored = state.version % 2 and isinstance(event, DriverSubmitted)
    return steps.stay(state, event) if ignored else machine.step(state, event)


@pytest.mark.parametrize(
    ("scheduler", "found"),
    [
        (deaf, "CancelRequested"),
        (twofold, "SlotsChanged"),
        (sleepy, "at rest: WaitingForResources"),
        (moody, "have other futures"),
    ],
)
def test_exploration_detects_a_wrong_scheduler(scheduler: Callable[[SchedulerState, Event], Step], found: str):
    with pytest.raises(AssertionError) as error:
        Exploration(model=MODELS["one vertex"], step=scheduler, sampled=1).run(depth=4)
    assert found in f"{error.value} {error.value.__cause__}"
