"""The longest time without a read of the driver status, on a slow storage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.activity import BOUND_S, CALLS, Activity
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.fleet.seeds import scenario_of


@pytest.fixture
def environment():
    """An environment in which a triggerer runs the trigger of a job, whose loop reads nothing."""
    environment: Any = Environment(scenario_of(1))
    airflow = environment.airflow
    airflow.scheduler.tasks["job-0"] = SimpleNamespace()
    airflow.scheduler.instance = lambda task: SimpleNamespace(state=TaskState.DEFERRED, trigger_id=1)
    airflow.api.database.triggers[1] = SimpleNamespace(trigger_id=1, triggerer=environment.triggerers[0].process.name)
    environment.triggerers[0]._tasks[1] = SimpleNamespace()
    return environment


def violated_after(environment: Environment, activity: Activity, seconds: int) -> int | None:
    """Return the number of seconds after which the check fails, None if it does not fail in the given time."""
    for second in range(seconds):
        try:
            activity.check()
        except ViolationError:
            return second
        environment.kernel.now += 1.0
    return None


def test_a_loop_that_does_not_read_is_found(environment):
    assert violated_after(environment, Activity(environment), 100) == pytest.approx(BOUND_S, abs=2)


def test_a_slow_storage_allows_a_limited_number_of_slow_calls(environment):
    environment.storage("job-0").faults.slow(1.0)
    assert violated_after(environment, Activity(environment), 200) == pytest.approx(BOUND_S + CALLS, abs=2)


def test_the_interval_begins_again_when_a_storage_is_fast_again(environment):
    activity, end = Activity(environment), environment.storage("job-0").faults.slow(1.0)
    assert violated_after(environment, activity, 60) is None
    end()
    assert violated_after(environment, activity, 100) == pytest.approx(BOUND_S, abs=2)
