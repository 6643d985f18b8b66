"""The driver loop balances the tasks of stateful queries over the executors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._core.protocol.documents import TASKS, Action, DriverState, FailureReport
from airflow_adaptive.job.control.driver_loop import EXIT_TIMEOUT_S, WARM_UP_TIMEOUT_S
from airflow_adaptive.job.control.interfaces import StatefulRun
from tests.support.driver.driver_loop_scenarios import break_down, running
from tests.support.driver.simulated_driver import EPOCH, SimulatedDriver, directive, plan

FAILURE = FailureReport(error_class="DIVIDE_BY_ZERO", message="no", causes=("SparkArithmeticException",), query="j")


def test_balances_a_stateful_query_until_a_directive_ends_the_balancing():
    driver = running(2)
    driver.stateful = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    driver.run(
        driver.directs_plan(1, 2, load_balance_mode=TASKS),
        driver.has_executors(1),
        driver.has_executors(2),
        driver.directs_plan(1, 2),
        driver.nothing,
    )
    assert driver.balanced == [0, 2, 1, 2, 0]


def balancing() -> SimulatedDriver:
    """A driver in which the driver starts a stateful query on one executor, and spreads its tasks."""
    driver = SimulatedDriver(
        newest_directive=directive(Action.RUN, 1, replace(plan(1), load_balance_mode=TASKS)), executor_count=1
    )
    driver.stateful = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    return driver


@pytest.mark.parametrize(
    "event",
    [
        lambda driver: driver.directs(Action.HOLD, 1),
        lambda driver: driver.directs_plan(
            2, 2, query_version=2, load_balance_mode=TASKS
        ),  # waits for an executor that does not come
        lambda driver: driver.ends_query(FAILURE),
        lambda driver: lambda: setattr(driver, "stateful", None),
    ],
    ids=["hold", "rescale", "failure", "no state"],
)
def test_stops_balancing_when_the_queries_are_about_to_end(event):
    driver = balancing()
    driver.run(driver.nothing, event(driver), driver.record_balanced)
    assert driver.seen == [[0, 1, 0]]


def stateful(executors: int) -> SimulatedDriver:
    """A driver in which the driver starts a stateful query, and is not told to balance anything."""
    driver = running(executors)
    driver.stateful = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    return driver


def test_spreads_the_tasks_over_added_executors_until_they_are_balanced():
    driver = stateful(1)
    driver.run(
        driver.directs_plan(2, 2),
        driver.nothing,
        driver.has_executors(2),
        driver.nothing,
        lambda: setattr(driver, "spread", True),
        driver.nothing,
        lambda: setattr(driver, "spread", False),
    )
    assert driver.balanced == [0, 2, 0]
    assert driver.history[-3:] == ["RUNNING 2", "end", "STOPPED 2"]


def test_continues_to_spread_when_only_the_version_is_new():
    driver = stateful(1)
    driver.run(
        driver.directs_plan(2, 2),
        driver.has_executors(2),
        driver.directs_plan(3, 2, retained_executors=3),
        driver.nothing,
    )
    seen = list(driver.balanced)
    assert seen == [0, 2, 0]
    assert driver.after("RUNNING 3") == ["end", "STOPPED 3"]


@pytest.mark.parametrize(
    "then",
    [
        lambda driver: setattr(driver, "executors_warm", True),
        lambda driver: setattr(driver, "time", driver.time + WARM_UP_TIMEOUT_S),
    ],
    ids=["tasks", "time"],
)
def test_added_executors_get_stateful_tasks_once_they_are_warm(then):
    driver = stateful(1)
    driver.executors_warm = False
    driver.run(
        driver.directs_plan(2, 2),
        driver.has_executors(2),
        driver.nothing,
        driver.record_balanced,
        lambda: then(driver),
        driver.record_balanced,
    )
    assert driver.seen == [[0], [0, 2]]


@pytest.mark.parametrize(
    "then",
    [lambda driver: driver.rebuilds(3, 2), lambda driver: driver.directs(Action.HOLD, 3)],
    ids=["a restart", "hold"],
)
def test_stops_spreading_when_the_queries_end(then):
    driver = stateful(1)
    driver.run(
        driver.directs_plan(2, 2),
        driver.has_executors(2),
        driver.record_balanced,
        then(driver),
        driver.nothing,
        driver.record_balanced,
    )
    assert driver.seen == [[0, 2], [0, 2, 0]]


def test_spreads_the_tasks_of_released_executors_until_they_are_balanced():
    driver = stateful(2)
    driver.run(
        driver.directs_plan(2, 1),
        lambda: setattr(driver, "spread", True),
        driver.nothing,
        lambda: setattr(driver, "spread", False),
        driver.nothing,
    )
    assert driver.balanced == [0, 1, 0]


@pytest.mark.parametrize(
    "then",
    [
        lambda driver: setattr(driver, "executors_exit", False),
        lambda driver: setattr(driver, "time", driver.time + EXIT_TIMEOUT_S),
    ],
    ids=["they end", "too long"],
)
def test_tasks_are_balanced_again_when_released_executors_have_exited(then):
    driver = stateful(2)
    driver.executors_exit = True
    driver.run(
        driver.directs_plan(2, 1), driver.nothing, driver.record_balanced, lambda: then(driver), driver.record_balanced
    )
    assert driver.seen == [[0], [0, 1]]


def test_spreads_no_tasks_when_a_plan_keeps_the_number_of_executors():
    """Only the weights of the pools change."""
    driver = stateful(2)
    driver.run(driver.directs_plan(2, 2, pool_weights={"j": 2}), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1")[0] == "RUNNING 2"
    assert set(driver.balanced) == {0}


def test_spreads_no_tasks_when_a_lost_executor_is_replaced():
    driver = stateful(2)
    driver.run(driver.has_executors(1), driver.nothing, driver.has_executors(2), driver.nothing)
    assert driver.balanced == [0]


def test_stops_balancing_when_it_is_fenced():
    driver = balancing()
    successor = directive(Action.RUN, 2, plan(1), epoch=EPOCH + 1)
    assert driver.run(lambda: setattr(driver, "newest_directive", successor)) is DriverState.FENCED
    assert driver.balanced == [0, 1, 0]


def test_stops_balancing_when_the_loop_itself_fails():
    driver = balancing()
    with pytest.raises(ZeroDivisionError):
        driver.run(break_down)
    assert driver.balanced == [0, 1, 0]
