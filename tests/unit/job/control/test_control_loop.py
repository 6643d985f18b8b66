from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_adaptive.job.control.executor_rescale import EXIT_TIMEOUT_S, WARM_UP_TIMEOUT_S
from airflow_adaptive.job.control.interfaces import DirectoryError, StatefulRun
from airflow_adaptive.job.protocol.documents import TASKS, Action, DriverState, FailureReport
from airflow_adaptive.job.protocol.failures import BUILD_FUNCTION_ERROR
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.simulated_driver import EPOCH, LEASE_S, NONCE, POLL_S, SimulatedDriver, directive, plan

THREAD_S = 10.0
"""Longer than another thread takes to be seen."""

FAILURE = FailureReport(error_class="DIVIDE_BY_ZERO", message="no", causes=("SparkArithmeticException",), query="j")


def running(executors: int = 1, version: int = 1) -> SimulatedDriver:
    """A driver in which the driver starts on that plan at its first turn."""
    return SimulatedDriver(newest_directive=directive(Action.RUN, version, plan(executors)), executor_count=executors)


def test_starts_when_the_executors_are_there():
    driver = SimulatedDriver(newest_directive=directive(Action.RUN, 1, plan(2)))
    end = driver.run(driver.has_executors(1), driver.has_executors(2))
    assert end is DriverState.STOPPED
    assert driver.history == [
        *("declare 2", "STARTING 0"),
        *("build", "prepare", "start 2", "RUNNING 1"),
        *("end", "STOPPED 1"),
    ]


def test_restarts_at_a_boundary_when_all_new_executors_are_there_and_the_new_queries_are_built():
    driver = running(1)
    driver.run(driver.rebuilds(2, 3), driver.has_executors(2), driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1"),
        *("build", "end", "prepare", "start 3", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_gives_surplus_executors_back_before_it_restarts_when_less_is_planned():
    driver = running(3)
    driver.run(driver.rebuilds(2, 1), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 1", "RESCALING 1"),
        *("build", "end", "release down to 1", "prepare", "start 1", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_executors_come_under_the_running_queries_and_only_then_is_the_plan_in_force():
    driver = running(1)
    driver.run(driver.directs_plan(2, 3), driver.has_executors(2), driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == ["declare 3", "RESCALING 1", "RUNNING 2", "end", "STOPPED 2"]
    reported = [len(status.executors) for status in driver.statuses if status.state is DriverState.RESCALING]
    assert reported == [1, 2]


def test_executors_go_under_the_running_queries_between_two_batches():
    driver = running(3)
    driver.run(driver.directs_plan(2, 1, remaining_per_worker={"http://w1": 1}), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 1", "{", "release down to 1, 1 on http://w1", "tasks let go", "}", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_executors_go_at_a_later_turn_when_the_batches_left_no_moment_for_it():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.nothing, lambda: setattr(driver, "batch_ends", True), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 1", "{", "RESCALING 1", "}"),
        *("{", "release down to 1", "tasks let go", "}", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_is_fenced_when_a_moment_between_batches_is_awaited():
    driver = running(3)
    driver.batch_ends = False
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    end = driver.run(driver.directs_plan(2, 1), lambda: setattr(driver, "newest_directive", successor))
    assert end is DriverState.FENCED
    assert driver.after("RUNNING 1") == ["declare 1", "{", "halt", "FENCED"]


def test_waits_for_no_moment_between_batches_when_another_directive_has_come():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.directs(Action.HOLD, 2), driver.nothing)
    assert driver.after("RUNNING 1") == ["declare 1", "{", "RESCALING 1", "end", "HOLDING 2", "STOPPED 2"]


def test_waits_on_for_a_moment_between_batches_while_the_log_can_not_be_read():
    driver = running(3)
    driver.batch_ends = False
    driver.run(
        *(driver.directs_plan(2, 1), lambda: setattr(driver, "newest_directive", DirectoryError("gone"))),
        *(driver.directs_plan(2, 1), driver.nothing),
    )
    assert driver.after("RUNNING 1")[:4] == ["declare 1", "{", "RESCALING 1", "}"]


def test_the_next_rung_is_taken_when_executors_did_not_come_or_go():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.nothing, driver.rebuilds(3, 1), driver.nothing, driver.nothing)
    assert driver.after("}")[:-2] == [*("build", "end", "release down to 1", "prepare", "start 1", "RUNNING 3")]


def test_a_plan_in_force_stays_so_when_executors_of_it_are_lost():
    driver = running(3)
    driver.run(driver.has_executors(1), driver.nothing, driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == ["end", "STOPPED 1"]


def test_follows_the_newer_directive_when_it_waits_for_executors():
    driver = running(1)
    driver.run(driver.directs_plan(2, 3), driver.has_executors(2), driver.directs_plan(3, 1), driver.nothing)
    assert driver.after("RUNNING 1")[:-2] == [
        *("declare 3", "RESCALING 1"),
        *("declare 1", "{", "release down to 1", "tasks let go", "}", "RUNNING 3"),
    ]


def test_waits_for_executors_no_more_when_it_is_to_run_on_as_before():
    driver = running(1)
    driver.run(driver.directs_plan(2, 3), driver.directs_plan(1, 1), driver.nothing)
    assert driver.after("RUNNING 1")[:-2] == ["declare 3", "RESCALING 1", "declare 1", "RUNNING 1"]


def test_reports_the_version_without_restart_when_only_that_is_new():
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


@pytest.mark.parametrize(("epoch", "nonce"), [(EPOCH + 1, NONCE), (EPOCH, "another")])
def test_never_starts_when_the_log_names_another(epoch, nonce):
    driver = SimulatedDriver(
        newest_directive=directive(Action.RUN, 1, plan(1), epoch=epoch, nonce=nonce), executor_count=1
    )
    assert driver.run() is DriverState.FENCED
    assert driver.history == ["halt", "FENCED"]


def test_stops_at_once_when_another_epoch_begins():
    driver = running(1)
    successor = directive(Action.RUN, 2, plan(1), epoch=EPOCH + 1)
    assert driver.run(lambda: setattr(driver, "newest_directive", successor)) is DriverState.FENCED
    assert driver.history[-3:] == ["RUNNING 1", "halt", "FENCED"]
    assert not driver.guarded


def test_is_fenced_when_nothing_names_it_for_the_lease():
    driver = SimulatedDriver()
    assert driver.run() is DriverState.FENCED
    assert driver.history == ["halt", "FENCED"]
    assert driver.time == pytest.approx(100.0 + LEASE_S, abs=POLL_S)


def test_is_fenced_when_the_log_is_unreadable_for_the_lease():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "newest_directive", DirectoryError("gone"))) is DriverState.FENCED
    assert driver.history[-3:] == ["RUNNING 1", "halt", "FENCED"]
    assert [warning for warning in driver.warnings if "gone" in warning] == [
        "journal not read, will retry within the lease: gone"
    ]


def test_is_fenced_when_it_runs_a_query_and_can_not_report_for_the_lease():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "writable", False), *[driver.nothing] * 200) is DriverState.FENCED
    assert driver.history[-2:] == ["halt", "FENCED"]
    assert driver.time == pytest.approx(100.0 + LEASE_S, abs=3 * POLL_S)


def test_starts_nothing_as_long_as_it_can_not_report():
    driver = running(1)
    driver.writable = False
    driver.run(driver.nothing, driver.nothing, lambda: setattr(driver, "writable", True), driver.nothing)
    assert driver.history.count("build") == 1
    assert driver.history.count("start 1") == 1


def test_starts_nothing_when_it_was_frozen_and_the_log_names_another_at_the_second_look():
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)

    def thaw() -> None:
        driver.time += 2 * LEASE_S
        driver.newest_directive = successor

    driver.during_build = thaw
    assert driver.run() is DriverState.FENCED
    assert "start 1" not in driver.history


def test_starts_when_building_outlasts_the_lease_and_the_log_still_names_it():
    driver = running(1)
    driver.during_build = lambda: setattr(driver, "time", driver.time + 2 * LEASE_S)
    assert driver.run(driver.nothing) is DriverState.STOPPED
    assert "start 1" in driver.history


def test_is_fenced_when_it_was_frozen_while_a_query_ran_though_the_log_still_names_it():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "time", driver.time + 2 * LEASE_S)) is DriverState.FENCED
    assert driver.history[-3:] == ["RUNNING 1", "halt", "FENCED"]


def test_runs_on_when_the_log_is_readable_again_within_the_lease():
    driver = running(1)

    def unreadable() -> None:
        driver.newest_directive = DirectoryError("gone")
        driver.time += LEASE_S - 3 * POLL_S

    assert driver.run(unreadable, driver.directs(Action.RUN, 1, plan(1))) is DriverState.STOPPED
    assert "halt" not in driver.history


def test_is_fenced_when_a_batch_is_awaited():
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    end = driver.run(driver.rebuilds(2), lambda: setattr(driver, "newest_directive", successor))
    assert end is DriverState.FENCED
    assert driver.history[-3:] == ["end", "halt", "FENCED"]


def test_starts_nothing_when_the_directive_changed_while_building():
    driver = running(1)
    driver.during_build = driver.directs(Action.HOLD, 1)
    driver.run(driver.nothing)
    assert driver.history == ["declare 1", "STARTING 0", "build", "HOLDING 1", "STOPPED 1"]


def test_starts_nothing_when_building_outlasts_the_lease():
    driver = running(1)

    def hang() -> None:
        driver.time += LEASE_S
        driver.newest_directive = DirectoryError("gone")

    driver.during_build = hang
    assert driver.run() is DriverState.FENCED
    assert driver.history[-3:] == ["build", "halt", "FENCED"]


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
    assert (failure.error_class, failure.causes) == ("KeyError", (BUILD_FUNCTION_ERROR, "KeyError"))
    assert failure.query is None
    assert not driver.guarded


def test_reports_the_failure_of_the_last_batch_when_told_to_stop():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "query_failure", FAILURE)
    assert driver.run() is DriverState.FAILED
    assert driver.statuses[-1].failure == FAILURE


def test_reports_the_failure_of_the_last_batch_when_rescaling():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "query_failure", FAILURE)
    driver.run(driver.rebuilds(2))
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "end", "FAILED 2", "STOPPED 2"]


def test_warns_when_a_batch_was_cut():
    driver = running(1)
    driver.boundary_reached = False
    driver.run()
    assert driver.warnings == ["no batch boundary within 30 s: a batch may be interrupted and replayed"]


def test_finishes_when_a_bounded_query_ends():
    driver = running(1)
    assert driver.run(driver.ends_query()) is DriverState.FINISHED
    assert driver.history[-1] == "FINISHED 1"


def test_batch_goes_on_under_another_plan_and_gets_its_executors():
    driver = running(1)
    driver.is_batch = True
    driver.run(driver.rebuilds(2, 3), driver.has_executors(3), driver.nothing, driver.ends_query())
    assert driver.after("RUNNING 1") == ["declare 3", "RESCALING 1", "RUNNING 2", "FINISHED 2"]


@pytest.mark.parametrize("action", [Action.HOLD, Action.STOP])
def test_batch_that_was_through_before_it_could_be_cut_finishes_the_job(action: Action):
    driver = running(1)
    driver.is_batch = driver.saved_meanwhile = True
    assert driver.run(driver.directs(action, 2, plan(1))) is DriverState.FINISHED
    assert driver.after("RUNNING 1") == ["end", "FINISHED 1"]


def test_batch_that_is_cut_is_run_again_when_it_may():
    driver = running(1)
    driver.is_batch = True
    driver.run(
        driver.directs(Action.HOLD, 1), driver.nothing, driver.directs(Action.RUN, 1, plan(1)), driver.ends_query()
    )
    assert driver.history.count("start 1") == 2
    assert driver.history[-1] == "FINISHED 1"


def test_fails_for_good_when_the_context_is_dead():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "context_alive", False)) is DriverState.FAILED
    failure = driver.statuses[-1].failure
    assert failure is not None
    assert failure.error_class == "SPARK_CONTEXT_STOPPED"


def test_driver_that_has_stopped_as_told_has_not_failed_when_its_context_ends_with_its_queries():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "context_alive", False)
    assert driver.run(driver.directs(Action.STOP, 1)) is DriverState.STOPPED
    assert driver.statuses[-1].failure is None


def break_down() -> None:
    raise ZeroDivisionError


def test_halts_and_reports_when_the_loop_itself_fails():
    driver = running(1)
    with pytest.raises(ZeroDivisionError):
        driver.run(break_down)
    assert driver.history[-2:] == ["halt", "FAILED 1"]


def test_the_watchdog_guards_as_long_as_a_query_runs():
    driver = running(1)
    guarded = []
    driver.run(
        lambda: guarded.append(driver.guarded),
        driver.directs(Action.HOLD, 1),
        driver.nothing,
        lambda: guarded.append(driver.guarded),
    )
    assert guarded == [True, False]


def test_keeps_surplus_executors_until_the_plan_holds_fewer():
    driver = running(3)
    driver.run(
        driver.directs_plan(2, 1, retained_executors=3),
        driver.nothing,
        driver.directs_plan(2, 1, retained_executors=1),
        driver.nothing,
    )
    assert driver.after("RUNNING 1") == [
        *("declare 1", "RUNNING 2"),
        *("{", "release down to 1", "tasks let go", "}"),
        *("end", "STOPPED 2"),
    ]


def test_stays_running_when_there_is_no_moment_to_give_back_what_is_held_no_more():
    driver = running(3)
    driver.batch_ends = False
    driver.run(
        driver.directs_plan(2, 1, retained_executors=3),
        driver.nothing,
        driver.directs_plan(2, 1, retained_executors=1),
        driver.nothing,
    )
    assert driver.after("RUNNING 2") == ["{", "}", "end", "STOPPED 2"]


def test_restarts_no_query_when_only_what_is_held_kept_or_balanced_changes():
    driver = running(2)
    driver.run(
        driver.directs_plan(2, 2, retained_executors=4, remaining_per_worker={"http://w1": 2}, load_balance_mode=TASKS),
        driver.nothing,
    )
    assert driver.after("RUNNING 1") == ["RUNNING 2", "end", "STOPPED 2"]


def test_gives_back_where_the_plan_keeps_fewest():
    driver = running(3)
    driver.run(
        driver.directs(Action.RUN, 2, replace(plan(1, query_version=2), remaining_per_worker={"http://w1": 1})),
        driver.nothing,
    )
    assert "release down to 1, 1 on http://w1" in driver.history


def test_balances_a_stateful_query_until_it_is_told_not_to():
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
def test_balances_nothing_any_more_when_the_tasks_are_to_go(event):
    driver = balancing()
    driver.run(driver.nothing, event(driver), driver.record_balanced)
    assert driver.seen == [[0, 1, 0]]


def stateful(executors: int) -> SimulatedDriver:
    """A driver in which the driver starts a stateful query, and is not told to balance anything."""
    driver = running(executors)
    driver.stateful = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    return driver


def test_spreads_the_tasks_over_executors_that_a_plan_has_added_until_they_are():
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


def test_spreads_on_when_no_more_than_the_version_is_new():
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
def test_executors_that_came_get_tasks_with_state_once_they_are_warm(then):
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
def test_spreads_no_more_when_the_queries_go(then):
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


def test_spreads_the_tasks_of_executors_that_are_given_back_over_the_others_until_they_are():
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
def test_tasks_are_looked_after_again_when_executors_that_were_given_back_have_ended(then):
    driver = stateful(2)
    driver.executors_exit = True
    driver.run(
        driver.directs_plan(2, 1), driver.nothing, driver.record_balanced, lambda: then(driver), driver.record_balanced
    )
    assert driver.seen == [[0], [0, 1]]


def test_spreads_nothing_when_an_executor_that_was_lost_is_replaced():
    driver = stateful(2)
    driver.run(driver.has_executors(1), driver.nothing, driver.has_executors(2), driver.nothing)
    assert driver.balanced == [0]


def test_balances_nothing_any_more_when_it_is_fenced():
    driver = balancing()
    successor = directive(Action.RUN, 2, plan(1), epoch=EPOCH + 1)
    assert driver.run(lambda: setattr(driver, "newest_directive", successor)) is DriverState.FENCED
    assert driver.balanced == [0, 1, 0]


def test_balances_nothing_any_more_when_the_loop_itself_fails():
    driver = balancing()
    with pytest.raises(ZeroDivisionError):
        driver.run(break_down)
    assert driver.balanced == [0, 1, 0]


def test_measures_the_dead_time_of_a_restart_without_the_building():
    driver = running(1)
    driver.run(
        driver.nothing,
        lambda: setattr(driver, "during_build", lambda: setattr(driver, "time", driver.time + 7.0)),
        lambda: setattr(driver, "during_prepare", lambda: setattr(driver, "time", driver.time + 1.25)),
        driver.rebuilds(2),
        driver.nothing,
    )
    reported = {(status.version, status.state): status.downtime_ms for status in driver.statuses}
    assert reported[1, DriverState.RUNNING] is None
    assert reported[1, DriverState.RESCALING] is None
    assert reported[2, DriverState.RUNNING] == 1250


def test_measures_on_when_the_first_trigger_takes_its_time():
    driver = running(1)
    driver.run(
        lambda: setattr(driver, "first_trigger_after_s", 3 * POLL_S),
        driver.rebuilds(2),
        driver.nothing,  # while the old query ends
        driver.nothing,
        driver.nothing,
    )
    reported = [status.downtime_ms for status in driver.statuses if status.version == 2]
    assert list(dict.fromkeys(reported)) == [None, 2500]


def test_executors_that_come_take_no_time_from_the_queries_and_those_that_go_as_long_as_they_are_held():
    driver = running(1)
    driver.during_release = lambda: setattr(driver, "time", driver.time + 0.02)
    driver.run(driver.directs_plan(2, 2), driver.has_executors(2), driver.directs_plan(3, 1), driver.nothing)
    reported = {status.version: status.downtime_ms for status in driver.statuses if status.state is DriverState.RUNNING}
    assert reported == {1: None, 2: 0, 3: 20}


def test_a_restart_is_still_measured_when_executors_come_before_its_first_trigger():
    driver = running(1)
    driver.run(
        lambda: setattr(driver, "first_trigger_after_s", 3 * POLL_S),
        driver.rebuilds(2),
        driver.directs_plan(3, 1, query_version=2),  # while the old query ends
        driver.rebuilds(2),
        driver.directs_plan(3, 1, query_version=2),
        driver.nothing,
        driver.nothing,
    )
    assert driver.statuses[-1].downtime_ms is not None
    assert driver.statuses[-1].downtime_ms > 0


def test_a_restart_after_a_hold_or_a_failure_is_no_rescale():
    driver = running(1)
    driver.run(
        driver.directs(Action.HOLD, 1, plan(1)),
        driver.directs(Action.RUN, 1, plan(1)),  # while the query ends
        driver.nothing,
        driver.ends_query(FAILURE),
        driver.directs(Action.RUN, 2, plan(1)),
        driver.nothing,
    )
    assert driver.history.count("start 1") == 3
    assert {status.downtime_ms for status in driver.statuses} == {None}


def refusing() -> SimulatedDriver:
    """A driver in which the author's function will raise when it is called again."""
    driver = running(1)
    driver.during_build = lambda: setattr(driver, "build_error", KeyError("carrier") if driver.plan else None)
    return driver


def test_queries_go_on_as_before_when_they_can_not_be_built_for_a_plan():
    driver = refusing()
    driver.run(driver.nothing, driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "RUNNING 1", "end", "STOPPED 2"]
    status = driver.statuses[-2]
    assert (status.state, status.version, status.rejected_version, status.failure) == (DriverState.RUNNING, 1, 2, None)
    assert status.rejection is not None
    assert (status.rejection.error_class, status.rejection.causes) == ("KeyError", (BUILD_FUNCTION_ERROR, "KeyError"))
    assert "plan 2 rejected: KeyError: 'carrier'" in driver.warnings[0]


def test_executors_of_a_refused_plan_go_back():
    driver = refusing()
    driver.run(driver.nothing, driver.rebuilds(2, 3), driver.has_executors(3), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1", "build", "RUNNING 1"),
        *("declare 1", "{", "release down to 1", "tasks let go", "}"),
        *("end", "STOPPED 2"),
    ]


def test_the_plan_before_is_obeyed_again_after_a_refusal():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.directs_plan(1, 1), driver.nothing, driver.rebuilds(2), driver.nothing)
    assert driver.history.count("build") == 2
    assert driver.statuses[-2].rejected_version == 2


def mends(driver: SimulatedDriver) -> Callable[[], None]:
    """The author's function raises no more."""

    def mend() -> None:
        driver.build_error, driver.during_build = None, driver.nothing

    return mend


def test_a_refused_plan_is_tried_again_under_another_version():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.nothing, driver.rebuilds(3), driver.nothing)
    assert list(dict.fromkeys(status.rejected_version for status in driver.statuses)) == [0, 2, 3]


def test_a_plan_that_comes_into_force_ends_the_word_of_a_refusal():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.nothing, mends(driver), driver.rebuilds(3), driver.nothing, driver.nothing)
    assert driver.history[-3:] == ["RUNNING 3", "end", "STOPPED 3"]
    assert (driver.statuses[-1].rejected_version, driver.statuses[-1].rejection) == (0, None)


def test_a_query_that_fails_after_a_refusal_has_failed():
    driver = refusing()
    driver.run(driver.rebuilds(2), driver.nothing, driver.ends_query(FAILURE), driver.nothing)
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "RUNNING 1", "end", "FAILED 2", "STOPPED 2"]


def test_a_refused_plan_is_tried_again_when_nothing_runs_any_more():
    driver = refusing()
    driver.run(
        *(driver.rebuilds(2), driver.nothing, mends(driver)),
        *(driver.directs(Action.HOLD, 2), driver.nothing, driver.rebuilds(2), driver.nothing),
    )
    assert driver.after("HOLDING 2") == ["RESCALING 2", "build", "prepare", "start 1", "RUNNING 2", "end", "STOPPED 2"]


def test_restarts_without_looking_at_state_that_is_ready():
    driver = running(1)
    driver.prepared = True
    driver.run(driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "end", "start 1", "RUNNING 2", "end", "STOPPED 2"]


def test_fails_when_the_state_can_not_be_made_ready():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "prepare_error", ValueError("4 partitions"))
    driver.run(driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "end", "prepare", "FAILED 2", "STOPPED 2"]
    assert not driver.guarded


def test_starts_nothing_when_the_directive_changed_while_the_state_was_made_ready():
    driver = running(1)
    driver.during_prepare = driver.directs(Action.HOLD, 1)
    driver.run(driver.nothing)
    assert driver.history[-3:] == ["prepare", "HOLDING 1", "STOPPED 1"]
    assert not driver.guarded


def test_ends_nothing_when_the_directive_changed_while_building():
    driver = running(1)
    driver.run(
        driver.nothing,
        lambda: setattr(driver, "during_build", driver.directs_plan(3, 1)),
        driver.rebuilds(2),
        driver.nothing,
    )
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "RUNNING 3", "end", "STOPPED 3"]


def test_tells_which_vertices_the_queries_were_built_with():
    driver = running(1)
    driver.run(driver.nothing)
    assert {status.vertices_read for status in driver.statuses if status.version} == {("read",)}
    assert {status.vertices_read for status in driver.statuses if not status.version} == {None}


@pytest.mark.parametrize("act", ["during_build", "during_prepare"])
def test_is_not_silent_while_building_or_preparing_takes_its_time(act):
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


def test_is_fenced_when_it_makes_state_ready_and_can_not_report_for_the_lease():
    driver = running(1)

    def take_long() -> None:
        driver.writable = False
        driver.time += LEASE_S
        wait_until(lambda: "halt" in driver.history, THREAD_S, "the halt", POLL_S / 100)

    driver.during_prepare = take_long
    assert driver.run(driver.nothing, driver.nothing) is DriverState.FENCED
    assert driver.history[-3:] == ["prepare", "halt", "FENCED"]
    assert not driver.guarded


def test_touches_no_state_before_it_is_known_again_when_ending_has_outlasted_the_lease():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "time", driver.time + 2 * LEASE_S)
    driver.run(driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("end")[:5] == ["build", "prepare", "start 1", "RUNNING 2", "end"]


def test_ends_the_queries_when_it_is_fenced_while_others_are_built():
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)

    def take_long() -> None:
        driver.newest_directive = successor
        driver.time += POLL_S
        wait_until(lambda: "halt" in driver.history, THREAD_S, "the halt", POLL_S / 100)

    steps = (lambda: setattr(driver, "during_build", take_long), driver.rebuilds(2), driver.nothing)
    assert driver.run(*steps) is DriverState.FENCED
    assert driver.after("RUNNING 1") == ["RESCALING 1", "build", "halt", "FENCED"]


def test_script_that_exits_ends_the_driver():
    driver = running(1)
    driver.build_error = None

    def leave() -> None:
        raise SystemExit(7)

    driver.during_build = leave
    with pytest.raises(SystemExit):
        driver.run()
