"""All histories of small jobs up to a depth; `make lab TASK=explore` goes further."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from math import inf
from multiprocessing import get_context

import pytest

from airflow_adaptive._core.scheduler import machine, steps
from airflow_adaptive._core.scheduler.events import CancelRequested, DriverSubmitted, Event, SlotsChanged
from airflow_adaptive._core.scheduler.state import SchedulerState, WaitingForResources
from airflow_adaptive._core.scheduler.steps import Step
from tests.support.examples import is_nightly
from tests.support.scheduler.exploration import Exploration, explored, never_seen
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


@pytest.mark.parametrize("model", MODELS)
def test_invariants_hold_in_every_state_that_two_events_reach(model: str):
    exploration = Exploration(model=MODELS[model]).run(depth=2)
    assert exploration.layers[-1].depth == 2
    assert exploration.layers[-1].states > 30


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_invariants_hold_in_every_reachable_state_and_every_transition_is_met():
    """Each process explores one model. Equivalent states have equivalent successors in each."""
    depths = [OTHER_DEPTHS.get(model, DEPTH) for model in MODELS]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        explorations = list(processes.map(explored, MODELS, repeat(inf), depths))
    assert [exploration.layers[-1].depth for exploration in explorations] == depths
    assert all(exploration.layers[-1].states > 300 and exploration.compared for exploration in explorations)
    assert not never_seen(explorations)


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
        pytest.param(moody, "have other futures", marks=pytest.mark.long),
    ],
)
def test_exploration_detects_a_wrong_scheduler(scheduler: Callable[[SchedulerState, Event], Step], found: str):
    with pytest.raises(AssertionError) as error:
        Exploration(model=MODELS["one vertex"], step=scheduler, sampled=1).run(depth=4)
    assert found in f"{error.value} {error.value.__cause__}"
