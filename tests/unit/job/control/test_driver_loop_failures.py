"""Failures of queries, of the script and of the driver loop, and the end of bounded queries."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.documents import Action, DriverState, FailureReport
from tests.support.driver.driver_loop_scenarios import break_down, running
from tests.support.driver.simulated_driver import plan

FAILURE = FailureReport(error_class="DIVIDE_BY_ZERO", message="no", causes=("SparkArithmeticException",), query="j")


def test_reports_a_failed_query_and_waits_for_another_version():
    driver = running(1)
    driver.run(driver.ends_query(FAILURE), driver.nothing, driver.nothing, driver.directs(Action.RUN, 2, plan(1)))
    assert driver.after("RUNNING 1")[:-2] == [
        *("end", "FAILED 1", "RESCALING 1"),
        *("build", "prepare", "start 1", "RUNNING 2"),
    ]
    failed = [status for status in driver.statuses if status.state is DriverState.FAILED]
    assert len(failed) == 2
    assert all(status.failure == FAILURE for status in failed)
    assert driver.statuses[-1].failure is None


def test_reports_a_script_that_fails_under_the_new_version():
    driver = running(1)
    driver.build_error = KeyError("carrier")
    driver.run()
    assert driver.history == ["declare 1", "STARTING 0", "build", "FAILED 1", "STOPPED 1"]
    failure = driver.statuses[-2].failure
    assert failure is not None
    assert (failure.error_class, failure.causes) == ("KeyError", (FailureCode.BUILD_FUNCTION_ERROR, "KeyError"))
    assert failure.query is None
    assert not driver.guarded


def test_reports_the_failure_of_the_last_batch_when_directed_to_stop():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "query_failure", FAILURE)
    assert driver.run() is DriverState.FAILED
    assert driver.statuses[-1].failure == FAILURE


def test_reports_the_failure_of_the_last_batch_when_rescaling():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "query_failure", FAILURE)
    driver.run(driver.rebuilds(2))
    assert driver.after("RUNNING 1") == ["build", "end", "RESCALING 1", "FAILED 2", "STOPPED 2"]


def test_warns_when_a_batch_was_interrupted():
    driver = running(1)
    driver.boundary_reached = False
    driver.run()
    assert driver.warnings == ["no batch boundary within 30 s: a batch may be interrupted and replayed"]


def test_finishes_when_a_bounded_query_ends():
    driver = running(1)
    assert driver.run(driver.ends_query()) is DriverState.FINISHED
    assert driver.history[-1] == "FINISHED 1"


def test_batch_continues_under_another_plan_and_gets_its_executors():
    driver = running(1)
    driver.is_batch = True
    driver.run(driver.rebuilds(2, 3), driver.has_executors(3), driver.nothing, driver.ends_query())
    assert driver.after("RUNNING 1") == ["declare 3", "RESCALING 1", "RUNNING 2", "FINISHED 2"]


@pytest.mark.parametrize("action", [Action.HOLD, Action.STOP])
def test_batch_that_was_saved_before_the_interruption_finishes_the_job(action: Action):
    driver = running(1)
    driver.is_batch = driver.saved_meanwhile = True
    assert driver.run(driver.directs(action, 2, plan(1))) is DriverState.FINISHED
    assert driver.after("RUNNING 1") == ["end", "FINISHED 1"]


def test_interrupted_batch_runs_again_under_the_next_directive():
    driver = running(1)
    driver.is_batch = True
    driver.run(
        driver.directs(Action.HOLD, 1), driver.nothing, driver.directs(Action.RUN, 1, plan(1)), driver.ends_query()
    )
    assert driver.history.count("start 1") == 2
    assert driver.history[-1] == "FINISHED 1"


def test_driver_fails_when_the_context_has_stopped():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "context_alive", False)) is DriverState.FAILED
    failure = driver.statuses[-1].failure
    assert failure is not None
    assert failure.error_class == "SPARK_CONTEXT_STOPPED"


def test_driver_that_has_stopped_as_directed_has_not_failed_when_its_context_ends():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "context_alive", False)
    assert driver.run(driver.directs(Action.STOP, 1)) is DriverState.STOPPED
    assert driver.statuses[-1].failure is None


def test_halts_and_reports_when_the_loop_itself_fails():
    driver = running(1)
    with pytest.raises(ZeroDivisionError):
        driver.run(break_down)
    assert driver.history[-2:] == ["halt", "FAILED 1"]


def test_the_watchdog_enforces_the_lease_while_a_query_runs():
    driver = running(1)
    guarded = []
    driver.run(
        lambda: guarded.append(driver.guarded),
        driver.directs(Action.HOLD, 1),
        driver.nothing,
        lambda: guarded.append(driver.guarded),
    )
    assert guarded == [True, False]


def test_script_that_exits_ends_the_driver():
    driver = running(1)
    driver.build_error = None

    def end_query() -> None:
        raise SystemExit(7)

    driver.during_build = end_query
    with pytest.raises(SystemExit):
        driver.run()
