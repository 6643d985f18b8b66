"""The driver executes the newest directive: it starts, restarts, holds and ends the queries at batch boundaries, and reports each outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.documents import Action, Directive, DriverState, FailureReport
from airflow_adaptive.job.control.interfaces import MissingSlotsError
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_loop_scenarios import running
from tests.support.driver.simulated_driver import POLL_S, SimulatedDriver, directive, plan


def test_starts_the_queries_when_the_executors_are_registered():
    driver = SimulatedDriver(newest_directive=directive(Action.RUN, 1, plan(2)))
    end = driver.run(driver.has_executors(1), driver.has_executors(2))
    assert end is DriverState.STOPPED
    assert driver.history == [
        *("declare 2", "STARTING 0"),
        *("build", "prepare", "start 2", "RUNNING 1"),
        *("end", "STOPPED 1"),
    ]


def test_restarts_at_a_boundary_when_the_executors_and_the_queries_are_ready():
    driver = running(1)
    driver.run(driver.rebuilds(2, 3), driver.has_executors(2), driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1"),  # while it waits for the executors
        *("build", "end", "prepare", "start 3", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_releases_surplus_executors_before_it_restarts_on_a_smaller_plan():
    driver = running(3)
    driver.run(driver.rebuilds(2, 1), driver.nothing)
    assert driver.after("RUNNING 1") == [
        "declare 1",
        *("build", "end", "RESCALING 1", "release down to 1", "prepare", "start 1", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_executes_a_newer_directive_while_it_waits_for_executors():
    driver = running(1)
    driver.run(driver.directs_plan(2, 3), driver.has_executors(2), driver.directs_plan(3, 1), driver.nothing)
    assert driver.after("RUNNING 1")[:-2] == [
        *("declare 3", "RESCALING 1"),
        *("declare 1", "{", "release down to 1", "tasks let go", "}", "RUNNING 3"),
    ]


def test_stops_waiting_for_executors_when_the_directive_returns_to_the_active_plan():
    driver = running(1)
    driver.run(driver.directs_plan(2, 3), driver.directs_plan(1, 1), driver.nothing)
    assert driver.after("RUNNING 1")[:-2] == ["declare 3", "RESCALING 1", "declare 1", "RUNNING 1"]


def test_reports_the_new_version_without_a_restart_when_only_the_version_is_new():
    driver = running(1)
    driver.run(driver.directs(Action.RUN, 2, plan(1)))
    assert driver.history.count("start 1") == 1
    assert "RUNNING 2" in driver.history


def test_holds_and_runs_again():
    driver = running(1)
    driver.run(driver.directs(Action.HOLD, 1, plan(1)), driver.nothing, driver.directs(Action.RUN, 1, plan(1)))
    assert driver.after("RUNNING 1")[:-2] == [
        "end",
        "HOLDING 1",
        "RESCALING 1",
        "build",
        "prepare",
        "start 1",
        "RUNNING 1",
    ]


THREAD_S = 60.0
"""Longer than another thread takes to be seen."""


def test_restarts_without_preparing_state_that_is_prepared():
    driver = running(1)
    driver.prepared = True
    driver.run(driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == ["build", "end", "RESCALING 1", "start 1", "RUNNING 2", "end", "STOPPED 2"]


def test_fails_when_the_state_cannot_be_prepared():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "prepare_error", ValueError("4 partitions"))
    driver.run(driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == ["build", "end", "RESCALING 1", "prepare", "FAILED 2", "STOPPED 2"]
    assert not driver.guarded


def test_starts_no_query_when_the_directive_changes_while_the_state_is_prepared():
    driver = running(1)
    driver.during_prepare = driver.directs(Action.HOLD, 1)
    driver.run(driver.nothing)
    assert driver.history[-3:] == ["prepare", "HOLDING 1", "STOPPED 1"]
    assert not driver.guarded


def test_ends_no_query_when_the_directive_changes_during_the_build():
    driver = running(1)
    driver.run(
        driver.nothing,
        lambda: setattr(driver, "during_build", driver.directs_plan(3, 1)),
        driver.rebuilds(2),
        driver.nothing,
    )
    assert driver.after("RUNNING 1") == ["build", "RESCALING 1", "RUNNING 3", "end", "STOPPED 3"]


def test_reports_which_vertices_the_queries_were_built_with():
    driver = running(1)
    driver.run(driver.nothing)
    assert {status.vertices_read for status in driver.statuses if status.version} == {("read",)}
    assert {status.vertices_read for status in driver.statuses if not status.version} == {None}


@pytest.mark.parametrize("act", ["during_build", "during_prepare"])
def test_writes_heartbeats_during_a_long_build_or_preparation(act):
    driver = running(1)
    seen = []

    def take_long() -> None:
        reports = len(driver.statuses)
        driver.time += POLL_S
        wait_until(lambda: len(driver.statuses) > reports, THREAD_S, "a report", POLL_S / 100)
        seen.append(driver.statuses[-1].state)

    setattr(driver, act, take_long)
    assert driver.run(driver.nothing, driver.nothing) is DriverState.STOPPED
    assert seen == [DriverState.STARTING]


FAILURE = FailureReport(error_class="DIVIDE_BY_ZERO", message="no", causes=("SparkArithmeticException",), query="j")


def refusing() -> SimulatedDriver:
    """A driver in which the author's function will raise when it is called again."""
    driver = running(1)
    driver.during_build = lambda: setattr(driver, "build_error", KeyError("carrier") if driver.plan else None)
    return driver


def test_queries_continue_when_new_ones_cannot_be_built_for_a_plan():
    driver = refusing()
    driver.run(driver.nothing, driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == ["build", "end", "STOPPED 2"]
    status = driver.statuses[-2]
    assert (status.state, status.version, status.rejected_version, status.failure) == (DriverState.RUNNING, 1, 2, None)
    assert status.rejection is not None
    assert (status.rejection.error_class, status.rejection.causes) == (
        "KeyError",
        (FailureCode.BUILD_FUNCTION_ERROR, "KeyError"),
    )
    assert "plan 2 rejected: KeyError: 'carrier'" in driver.warnings[0]


def test_executors_of_a_rejected_plan_are_released():
    driver = refusing()
    driver.run(driver.nothing, driver.rebuilds(2, 3), driver.has_executors(3), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1", "build", "RUNNING 1"),
        *("declare 1", "{", "release down to 1", "tasks let go", "}"),
        *("end", "STOPPED 2"),
    ]


def test_the_previous_plan_is_executed_again_after_a_rejection():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.directs_plan(1, 1), driver.nothing, driver.rebuilds(2), driver.nothing)
    assert driver.history.count("build") == 2
    assert driver.statuses[-2].rejected_version == 2


def mends(driver: SimulatedDriver) -> Callable[[], None]:
    """The author's function raises no more."""

    def mend() -> None:
        driver.build_error, driver.during_build = None, driver.nothing

    return mend


def test_a_rejected_plan_is_tried_again_under_another_version():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.nothing, driver.rebuilds(3), driver.nothing)
    assert list(dict.fromkeys(status.rejected_version for status in driver.statuses)) == [0, 2, 3]


def test_the_activation_of_a_plan_clears_the_rejection():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.nothing, mends(driver), driver.rebuilds(3), driver.nothing, driver.nothing)
    assert driver.history[-3:] == ["RUNNING 3", "end", "STOPPED 3"]
    assert (driver.statuses[-1].rejected_version, driver.statuses[-1].rejection) == (0, None)


def test_a_query_that_fails_after_a_rejection_has_failed():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.nothing, driver.ends_query(FAILURE), driver.nothing)
    assert driver.after("RUNNING 1") == ["build", "end", "FAILED 2", "STOPPED 2"]


def test_a_rejected_plan_is_tried_again_when_no_query_runs():
    driver = refusing()
    driver.run(
        *(driver.rebuilds(2), driver.nothing, mends(driver)),
        *(driver.directs(Action.HOLD, 2), driver.nothing, driver.rebuilds(2), driver.nothing),
    )
    assert driver.after("HOLDING 2") == ["RESCALING 2", "build", "prepare", "start 1", "RUNNING 2", "end", "STOPPED 2"]


# ---- gangs ----------------------------------------------------------------------------------------------------------


def needing(slots: int) -> SimulatedDriver:
    """A driver whose queries need that many executors at the same time."""
    driver = SimulatedDriver(executor_count=slots)

    def during_build() -> None:
        driver.gangs = {"j": slots}
        wanted = driver.newest_directive
        assert isinstance(wanted, Directive)
        assert wanted.plan is not None
        driver.build_error = MissingSlotsError("too few") if wanted.plan.executors < slots else None

    driver.during_build = during_build
    return driver


def test_driver_reports_its_gang_and_waits_for_another_plan_instead_of_failing():
    driver = needing(3)
    driver.run(
        driver.rebuilds(1, 2), driver.nothing, driver.nothing, driver.directs(Action.HOLD, 2), driver.rebuilds(3, 3)
    )
    assert driver.history.count("build") == 2
    waiting = driver.statuses[1]
    assert (waiting.state, waiting.version, waiting.rejected_version) == (DriverState.STARTING, 0, 1)
    assert (waiting.gangs, waiting.failure) == ({"j": 3}, None)
    assert driver.history[-4:] == ["start 3", "RUNNING 3", "end", "STOPPED 3"]
    assert driver.statuses[-1].rejected_version == 0


def test_running_queries_continue_when_a_plan_has_too_few_slots_for_their_gang():
    driver = needing(2)
    driver.run(driver.rebuilds(1, 2), driver.nothing, driver.rebuilds(2, 1), driver.nothing)
    status = driver.statuses[-2]
    assert (status.state, status.version, status.rejected_version) == (DriverState.RUNNING, 1, 2)


def test_stops_at_a_boundary_and_reports_the_move_when_others_end_the_driver():
    driver = running(1)
    assert driver.run(driver.nothing, driver.terminates, driver.nothing) is DriverState.STOPPED
    assert driver.after("RUNNING 1") == ["end", "STOPPED 1"]
    assert [status.is_moving for status in driver.statuses][-2:] == [True, True]
    assert driver.end_timeout_s == math.inf


def test_failure_of_a_query_is_reported_although_others_end_the_driver_next():
    driver = running(1)
    assert driver.run(driver.nothing, driver.ends_query(FAILURE), driver.terminates) is DriverState.FAILED
    assert (driver.statuses[-1].is_moving, driver.statuses[-1].failure) == (True, FAILURE)


@pytest.mark.parametrize("act", ["during_build", "during_prepare"])
def test_starts_no_query_when_others_end_the_driver_meanwhile(act):
    driver = running(1)
    setattr(driver, act, driver.terminates)
    assert driver.run(driver.nothing, driver.nothing) is DriverState.STOPPED
    assert "start 1" not in driver.history
    assert driver.statuses[-1].is_moving


def test_driver_that_holds_ends_when_others_end_it():
    driver = running(1)
    driver.run(driver.directs(Action.HOLD, 1, plan(1)), driver.nothing, driver.terminates, driver.nothing)
    assert driver.after("HOLDING 1") == ["STOPPED 1"]


@pytest.mark.parametrize("is_move", [False, True])
def test_ends_at_the_boundary_when_others_end_a_driver_that_has_to_stop(is_move):
    driver = running(1)
    stop = replace(directive(Action.STOP, 1), is_move=is_move)
    driver.run(driver.nothing, lambda: setattr(driver, "newest_directive", stop), driver.terminates)
    assert driver.after("RUNNING 1") == ["end", "STOPPED 1"]
    assert (driver.end_timeout_s == math.inf, driver.statuses[-1].is_moving) == (is_move, is_move)


def test_batch_of_a_driver_that_leaves_has_a_time_limit_when_the_directive_changes():
    driver = running(1)
    stop = replace(directive(Action.STOP, 1), is_move=True)
    driver.run(driver.nothing, lambda: setattr(driver, "newest_directive", stop), driver.directs(Action.STOP, 1))
    assert driver.after("RUNNING 1") == ["end", "end", "STOPPED 1"]
    assert driver.end_timeout_s < math.inf
