"""FLIP-322 as a table: when a change leads to a rescale, counted from the last one.

A row contains the time from the last rescale to the change, whether `scaling-interval.min` has been exceeded by then,
whether `scaling-interval.max` is set and has been exceeded, and whether the change is worth a rescale by itself
(`AdaptiveScheduler#shouldRescale` in Flink). No wait beside these two is set.
"""

from typing import Any, NamedTuple

import pytest

from airflow_adaptive._core.scheduler.state import Executing
from tests.lab.scenario import Scenario

MIN, MAX = 30, 60
UNSET = None
RUNNING = 2
WORTH_IT, TOO_LITTLE = 4, 1
"""More slots than are used, where an increase of three is worth a rescale."""
NEVER = None
LONG = 200
"""Long enough for all that may come, too short for a deployment to be given up."""


class Row(NamedTuple):
    """What comes when, and when the job is rescaled for it, in seconds after the last rescale."""

    name: str
    interval_max: int | None
    change_at: float
    more: int
    rescaled_at: float | None
    reason: str


TABLE = (
    Row("min exceeded, max unset, sufficient: rescale now", UNSET, 40, WORTH_IT, 40, "slot(s) are available"),
    Row("min exceeded, max unset, insufficient: nothing", UNSET, 40, TOO_LITTLE, NEVER, "below the minimum increase"),
    Row("min exceeded, max not exceeded, sufficient: rescale now", MAX, 40, WORTH_IT, 40, "slot(s) are available"),
    Row("min exceeded, max not exceeded, insufficient: forced after max", MAX, 40, TOO_LITTLE, 40 + MAX, "forced"),
    Row("min exceeded, max exceeded, sufficient: rescale now", MAX, 70, WORTH_IT, 70, "slot(s) are available"),
    Row("min exceeded, max exceeded, insufficient: forced now", MAX, 70, TOO_LITTLE, 70, "forced"),
    Row("min exceeded, max just reached, insufficient: forced after max", MAX, 60, TOO_LITTLE, 60 + MAX, "forced"),
    Row("min not exceeded, max unset, sufficient: when min ends", UNSET, 10, WORTH_IT, MIN, "slot(s) are available"),
    Row(
        "min not exceeded, max unset, insufficient: nothing", UNSET, 10, TOO_LITTLE, NEVER, "below the minimum increase"
    ),
    Row("min not exceeded, max set, sufficient: when min ends", MAX, 10, WORTH_IT, MIN, "slot(s) are available"),
    Row("min not exceeded, max set, insufficient: forced after max", MAX, 10, TOO_LITTLE, 10 + MAX, "forced"),
    Row("min just reached, max unset, sufficient: rescale now", UNSET, 30, WORTH_IT, 30, "slot(s) are available"),
)


def fresh(interval_max: int | None = UNSET, upper: int = 8, **options: Any) -> Scenario:
    """A job to which an increase of three, or to the upper bound, is worth a rescale."""
    waits: dict[str, Any] = {"executing_stabilization_timeout": 0, "max_trigger_delay": 0}
    interval = {"scaling_interval_min": MIN, "scaling_interval_max": interval_max}
    return Scenario(lower=1, upper=upper, min_parallelism_increase=3, **{**waits, **interval, **options})


def executing(interval_max: int | None = UNSET, upper: int = 8, **options: Any) -> Scenario:
    """The job after a rescale to two slots, which has just come into force."""
    return fresh(interval_max, upper, **options).given_executing(RUNNING)


def more(scenario: Scenario, slots: int) -> Scenario:
    return scenario.when_slots(held=RUNNING, free=slots)


def rescales(scenario: Scenario) -> list[float]:
    """When the job was rescaled, in seconds since it last had been."""
    began = next(step.state.current.since for step in scenario.steps if isinstance(step.state.current, Executing))
    moved = [step.transition for step in scenario.steps if step.transition is not None]
    return [(move.at - began).total_seconds() for move in moved if move.target == "Restarting"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_new_slots_lead_to_a_rescale_as_the_table_states(row: Row):
    scenario = more(executing(row.interval_max).after(row.change_at), row.more).after(LONG)
    assert rescales(scenario) == ([] if row.rescaled_at is NEVER else [row.rescaled_at])
    assert any(row.reason in reason for reason in scenario.reasons)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_new_requirements_lead_to_a_rescale_as_the_table_states(row: Row):
    scenario = more(executing(row.interval_max, upper=RUNNING), row.more).after(row.change_at)
    scenario.when_requirements(1, 8).after(LONG)
    assert rescales(scenario) == ([] if row.rescaled_at is NEVER else [row.rescaled_at])
    assert any(row.reason in reason for reason in scenario.reasons)


@pytest.mark.parametrize(
    ("interval_max", "change", "rescaled_at"),
    [(UNSET, WORTH_IT, [MIN]), (UNSET, TOO_LITTLE, []), (MAX, WORTH_IT, [MIN]), (MAX, TOO_LITTLE, [MAX])],
)
def test_change_during_the_rescale_counts_from_its_end(interval_max: int | None, change: int, rescaled_at: list[float]):
    scenario = fresh(interval_max).given_deploying(RUNNING)
    assert rescales(more(scenario, change).when_plan_activated().after(LONG)) == rescaled_at


@pytest.mark.parametrize("interval_max", [UNSET, MAX])
@pytest.mark.parametrize("change_at", [10, 40, 70])
def test_change_of_slots_that_changes_no_parallelism_leads_nowhere(interval_max: int | None, change_at: float):
    scenario = more(executing(interval_max, upper=RUNNING).after(change_at), WORTH_IT).after(LONG)
    assert rescales(scenario) == []


def test_change_that_is_gone_when_min_ends_leads_nowhere():
    scenario = more(more(executing().after(10), WORTH_IT).after(5), 0).after(LONG)
    assert rescales(scenario) == []


def test_sufficient_change_does_not_wait_for_a_forced_check():
    scenario = more(more(executing(MAX).after(40), TOO_LITTLE).after(20), WORTH_IT).after(LONG)
    assert rescales(scenario) == [60]


def test_forced_check_is_planned_once():
    scenario = more(more(executing(MAX).after(40), TOO_LITTLE).after(20), TOO_LITTLE + 1).after(LONG)
    assert rescales(scenario) == [40 + MAX]


def test_all_changes_within_min_are_one_rescale():
    scenario = more(more(more(executing().after(5), 3).after(5), 4).after(5), 5).after(LONG)
    assert rescales(scenario) == [MIN]
    scenario.then_parallelism(RUNNING + 5)


@pytest.mark.parametrize(("lower", "upper", "rescaled_at"), [(1, 1, [MIN]), (1, 8, [])])
def test_decrease_is_always_worth_a_rescale_and_waits_for_min(lower: int, upper: int, rescaled_at: list[float]):
    assert rescales(executing().after(10).when_requirements(lower, upper).after(LONG)) == rescaled_at


def test_reaching_every_upper_bound_is_always_worth_a_rescale():
    assert rescales(more(executing(upper=3).after(40), TOO_LITTLE).after(LONG)) == [40]


def test_failure_begins_another_interval():
    strategy = {"type": "fixed-delay", "attempts": 1, "delay": 1}
    scenario = executing(restart_strategy=strategy, resource_stabilization_timeout=0)
    scenario.after(20).when_query_failed().after(1).when_plan_activated()
    assert rescales(more(scenario, WORTH_IT).after(LONG)) == [20, 21 + MIN]


@pytest.mark.parametrize(
    ("extension", "interval_max", "changes_at", "rescaled_at"),
    [
        ("none", UNSET, [10, 20], MIN),
        ("first_change", UNSET, [10, 20], 10 + MIN),
        ("every_change", UNSET, [10, 20], 20 + MIN),
        ("every_change", MAX, [10, 20], 20 + MIN),
        ("every_change", 45, [10, 20], 45),
        ("first_change", 35, [10], 35),
    ],
)
def test_end_of_the_cooldown_changes_as_configured(
    extension: str, interval_max: int | None, changes_at: list[float], rescaled_at: float
):
    scenario, now = executing(interval_max, cooldown_extension=extension), 0.0
    for number, at in enumerate(changes_at):
        more(scenario.after(at - now), WORTH_IT + number)
        now = at
    assert rescales(scenario.after(LONG)) == [rescaled_at]
