from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_adaptive.job.control.executor_rescale import LEAVE_S, WARM_UP_S
from airflow_adaptive.job.control.interfaces import DirectoryError, StatefulRun
from airflow_adaptive.job.protocol.documents import TASKS, Action, DriverState, FailureReport
from airflow_adaptive.job.protocol.failures import BUILD_FUNCTION_ERROR
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver_fakes import EPOCH, LEASE_S, NONCE, POLL_S, World, directive, plan

THREAD_S = 10.0
"""Longer than another thread takes to be seen."""

FAILURE = FailureReport(error_class="DIVIDE_BY_ZERO", message="no", causes=("SparkArithmeticException",), query="j")


def running(executors: int = 1, version: int = 1) -> World:
    """A world in which the driver starts on that plan at its first turn."""
    return World(newest_directive=directive(Action.RUN, version, plan(executors)), executor_count=executors)


def test_starts_when_the_executors_are_there():
    world = World(newest_directive=directive(Action.RUN, 1, plan(2)))
    end = world.obey(world.has_executors(1), world.has_executors(2))
    assert end is DriverState.STOPPED
    assert world.history == [
        *("declare 2", "STARTING 0"),
        *("build", "prepare", "start 2", "RUNNING 1"),
        *("end", "STOPPED 1"),
    ]


def test_restarts_at_a_boundary_when_all_new_executors_are_there_and_the_new_queries_are_built():
    world = running(1)
    world.obey(world.rebuilds(2, 3), world.has_executors(2), world.has_executors(3), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1"),
        *("build", "end", "prepare", "start 3", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_gives_surplus_executors_back_before_it_restarts_when_less_is_planned():
    world = running(3)
    world.obey(world.rebuilds(2, 1), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 1", "RESCALING 1"),
        *("build", "end", "release down to 1", "prepare", "start 1", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_executors_come_under_the_running_queries_and_only_then_is_the_plan_in_force():
    world = running(1)
    world.obey(world.directs_plan(2, 3), world.has_executors(2), world.has_executors(3), world.nothing)
    assert world.after("RUNNING 1") == ["declare 3", "RESCALING 1", "RUNNING 2", "end", "STOPPED 2"]
    reported = [len(status.executors) for status in world.statuses if status.state is DriverState.RESCALING]
    assert reported == [1, 2]


def test_executors_go_under_the_running_queries_between_two_batches():
    world = running(3)
    world.obey(world.directs_plan(2, 1, remaining_per_worker={"http://w1": 1}), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 1", "{", "release down to 1, 1 on http://w1", "tasks let go", "}", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_executors_go_at_a_later_turn_when_the_batches_left_no_moment_for_it():
    world = running(3)
    world.batch_ends = False
    world.obey(world.directs_plan(2, 1), world.nothing, lambda: setattr(world, "batch_ends", True), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 1", "{", "RESCALING 1", "}"),
        *("{", "release down to 1", "tasks let go", "}", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_is_fenced_when_a_moment_between_batches_is_awaited():
    world = running(3)
    world.batch_ends = False
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    end = world.obey(world.directs_plan(2, 1), lambda: setattr(world, "newest_directive", successor))
    assert end is DriverState.FENCED
    assert world.after("RUNNING 1") == ["declare 1", "{", "halt", "FENCED"]


def test_waits_for_no_moment_between_batches_when_another_directive_has_come():
    world = running(3)
    world.batch_ends = False
    world.obey(world.directs_plan(2, 1), world.directs(Action.HOLD, 2), world.nothing)
    assert world.after("RUNNING 1") == ["declare 1", "{", "RESCALING 1", "end", "HOLDING 2", "STOPPED 2"]


def test_waits_on_for_a_moment_between_batches_while_the_log_can_not_be_read():
    world = running(3)
    world.batch_ends = False
    world.obey(
        *(world.directs_plan(2, 1), lambda: setattr(world, "newest_directive", DirectoryError("gone"))),
        *(world.directs_plan(2, 1), world.nothing),
    )
    assert world.after("RUNNING 1")[:4] == ["declare 1", "{", "RESCALING 1", "}"]


def test_the_next_rung_is_taken_when_executors_did_not_come_or_go():
    world = running(3)
    world.batch_ends = False
    world.obey(world.directs_plan(2, 1), world.nothing, world.rebuilds(3, 1), world.nothing, world.nothing)
    assert world.after("}")[:-2] == [
        *("build", "end", "release down to 1", "prepare", "start 1", "RUNNING 3"),
    ]


def test_a_plan_in_force_stays_so_when_executors_of_it_are_lost():
    world = running(3)
    world.obey(world.has_executors(1), world.nothing, world.has_executors(3), world.nothing)
    assert world.after("RUNNING 1") == ["end", "STOPPED 1"]


def test_follows_the_newer_directive_when_it_waits_for_executors():
    world = running(1)
    world.obey(world.directs_plan(2, 3), world.has_executors(2), world.directs_plan(3, 1), world.nothing)
    assert world.after("RUNNING 1")[:-2] == [
        *("declare 3", "RESCALING 1"),
        *("declare 1", "{", "release down to 1", "tasks let go", "}", "RUNNING 3"),
    ]


def test_waits_for_executors_no_more_when_it_is_to_run_on_as_before():
    world = running(1)
    world.obey(world.directs_plan(2, 3), world.directs_plan(1, 1), world.nothing)
    assert world.after("RUNNING 1")[:-2] == ["declare 3", "RESCALING 1", "declare 1", "RUNNING 1"]


def test_reports_the_version_without_restart_when_only_that_is_new():
    world = running(1)
    world.obey(world.directs(Action.RUN, 2, plan(1)))
    assert world.history.count("start 1") == 1
    assert "RUNNING 2" in world.history


def test_holds_and_runs_again():
    world = running(1)
    world.obey(world.directs(Action.HOLD, 1, plan(1)), world.nothing, world.directs(Action.RUN, 1, plan(1)))
    assert world.after("RUNNING 1")[:-2] == [
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
    world = World(newest_directive=directive(Action.RUN, 1, plan(1), epoch=epoch, nonce=nonce), executor_count=1)
    assert world.obey() is DriverState.FENCED
    assert world.history == ["halt", "FENCED"]


def test_stops_at_once_when_another_epoch_begins():
    world = running(1)
    successor = directive(Action.RUN, 2, plan(1), epoch=EPOCH + 1)
    assert world.obey(lambda: setattr(world, "newest_directive", successor)) is DriverState.FENCED
    assert world.history[-3:] == ["RUNNING 1", "halt", "FENCED"]
    assert not world.guarded


def test_is_fenced_when_nothing_names_it_for_the_lease():
    world = World()
    assert world.obey() is DriverState.FENCED
    assert world.history == ["halt", "FENCED"]
    assert world.time == pytest.approx(100.0 + LEASE_S, abs=POLL_S)


def test_is_fenced_when_the_log_is_unreadable_for_the_lease():
    world = running(1)
    assert world.obey(lambda: setattr(world, "newest_directive", DirectoryError("gone"))) is DriverState.FENCED
    assert world.history[-3:] == ["RUNNING 1", "halt", "FENCED"]
    assert [complaint for complaint in world.complaints if "gone" in complaint] == [
        "log not read, trying on within the lease: gone"
    ]


def test_is_fenced_when_it_runs_a_query_and_can_not_report_for_the_lease():
    world = running(1)
    assert world.obey(lambda: setattr(world, "writable", False), *[world.nothing] * 200) is DriverState.FENCED
    assert world.history[-2:] == ["halt", "FENCED"]
    assert world.time == pytest.approx(100.0 + LEASE_S, abs=3 * POLL_S)


def test_starts_nothing_as_long_as_it_can_not_report():
    world = running(1)
    world.writable = False
    world.obey(world.nothing, world.nothing, lambda: setattr(world, "writable", True), world.nothing)
    assert world.history.count("build") == 1
    assert world.history.count("start 1") == 1


def test_starts_nothing_when_it_was_frozen_and_the_log_names_another_at_the_second_look():
    world = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)

    def thaw() -> None:
        world.time += 2 * LEASE_S
        world.newest_directive = successor

    world.during_build = thaw
    assert world.obey() is DriverState.FENCED
    assert "start 1" not in world.history


def test_starts_when_building_outlasts_the_lease_and_the_log_still_names_it():
    world = running(1)
    world.during_build = lambda: setattr(world, "time", world.time + 2 * LEASE_S)
    assert world.obey(world.nothing) is DriverState.STOPPED
    assert "start 1" in world.history


def test_is_fenced_when_it_was_frozen_while_a_query_ran_though_the_log_still_names_it():
    world = running(1)
    assert world.obey(lambda: setattr(world, "time", world.time + 2 * LEASE_S)) is DriverState.FENCED
    assert world.history[-3:] == ["RUNNING 1", "halt", "FENCED"]


def test_runs_on_when_the_log_is_readable_again_within_the_lease():
    world = running(1)

    def unreadable() -> None:
        world.newest_directive = DirectoryError("gone")
        world.time += LEASE_S - 3 * POLL_S

    assert world.obey(unreadable, world.directs(Action.RUN, 1, plan(1))) is DriverState.STOPPED
    assert "halt" not in world.history


def test_is_fenced_when_a_batch_is_awaited():
    world = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    end = world.obey(world.rebuilds(2), lambda: setattr(world, "newest_directive", successor))
    assert end is DriverState.FENCED
    assert world.history[-3:] == ["end", "halt", "FENCED"]


def test_starts_nothing_when_the_directive_changed_while_building():
    world = running(1)
    world.during_build = world.directs(Action.HOLD, 1)
    world.obey(world.nothing)
    assert world.history == ["declare 1", "STARTING 0", "build", "HOLDING 1", "STOPPED 1"]


def test_starts_nothing_when_building_outlasts_the_lease():
    world = running(1)

    def hang() -> None:
        world.time += LEASE_S
        world.newest_directive = DirectoryError("gone")

    world.during_build = hang
    assert world.obey() is DriverState.FENCED
    assert world.history[-3:] == ["build", "halt", "FENCED"]


def test_reports_a_failed_query_and_waits_for_another_version():
    world = running(1)
    world.obey(world.ends_query(FAILURE), world.nothing, world.nothing, world.directs(Action.RUN, 2, plan(1)))
    assert world.after("RUNNING 1")[:-2] == [
        *("end", "FAILED 1", "RESCALING 1"),
        *("build", "prepare", "start 1", "RUNNING 2"),
    ]
    failed = [status for status in world.statuses if status.state is DriverState.FAILED]
    assert len(failed) == 2
    assert all(status.failure == FAILURE for status in failed)
    assert world.statuses[-1].failure is None


def test_reports_a_script_that_fails_under_the_new_version():
    world = running(1)
    world.build_error = KeyError("carrier")
    world.obey()
    assert world.history == ["declare 1", "STARTING 0", "build", "FAILED 1", "STOPPED 1"]
    failure = world.statuses[-2].failure
    assert failure is not None
    assert (failure.error_class, failure.causes) == ("KeyError", (BUILD_FUNCTION_ERROR, "KeyError"))
    assert failure.query is None
    assert not world.guarded


def test_reports_the_failure_of_the_last_batch_when_told_to_stop():
    world = running(1)
    world.during_end = lambda: setattr(world, "query_failure", FAILURE)
    assert world.obey() is DriverState.FAILED
    assert world.statuses[-1].failure == FAILURE


def test_reports_the_failure_of_the_last_batch_when_rescaling():
    world = running(1)
    world.during_end = lambda: setattr(world, "query_failure", FAILURE)
    world.obey(world.rebuilds(2))
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "end", "FAILED 2", "STOPPED 2"]


def test_complains_when_a_batch_was_cut():
    world = running(1)
    world.boundary_reached = False
    world.obey()
    assert world.complaints == ["no batch boundary within 30 s: a batch may be cut, to be replayed"]


def test_finishes_when_a_bounded_query_ends():
    world = running(1)
    assert world.obey(world.ends_query()) is DriverState.FINISHED
    assert world.history[-1] == "FINISHED 1"


def test_batch_goes_on_under_another_plan_and_gets_its_executors():
    world = running(1)
    world.is_batch = True
    world.obey(world.rebuilds(2, 3), world.has_executors(3), world.nothing, world.ends_query())
    assert world.after("RUNNING 1") == ["declare 3", "RESCALING 1", "RUNNING 2", "FINISHED 2"]


@pytest.mark.parametrize("action", [Action.HOLD, Action.STOP])
def test_batch_that_was_through_before_it_could_be_cut_finishes_the_job(action: Action):
    world = running(1)
    world.is_batch = world.saved_meanwhile = True
    assert world.obey(world.directs(action, 2, plan(1))) is DriverState.FINISHED
    assert world.after("RUNNING 1") == ["end", "FINISHED 1"]


def test_batch_that_is_cut_is_run_again_when_it_may():
    world = running(1)
    world.is_batch = True
    world.obey(world.directs(Action.HOLD, 1), world.nothing, world.directs(Action.RUN, 1, plan(1)), world.ends_query())
    assert world.history.count("start 1") == 2
    assert world.history[-1] == "FINISHED 1"


def test_fails_for_good_when_the_context_is_dead():
    world = running(1)
    assert world.obey(lambda: setattr(world, "context_alive", False)) is DriverState.FAILED
    failure = world.statuses[-1].failure
    assert failure is not None
    assert failure.error_class == "SPARK_CONTEXT_STOPPED"


def test_driver_that_has_stopped_as_told_has_not_failed_when_its_context_ends_with_its_queries():
    world = running(1)
    world.during_end = lambda: setattr(world, "context_alive", False)
    assert world.obey(world.directs(Action.STOP, 1)) is DriverState.STOPPED
    assert world.statuses[-1].failure is None


def break_down() -> None:
    raise ZeroDivisionError


def test_halts_and_reports_when_the_loop_itself_fails():
    world = running(1)
    with pytest.raises(ZeroDivisionError):
        world.obey(break_down)
    assert world.history[-2:] == ["halt", "FAILED 1"]


def test_the_watchdog_guards_as_long_as_a_query_runs():
    world = running(1)
    guarded = []
    world.obey(
        lambda: guarded.append(world.guarded),
        world.directs(Action.HOLD, 1),
        world.nothing,
        lambda: guarded.append(world.guarded),
    )
    assert guarded == [True, False]


def test_keeps_surplus_executors_until_the_plan_holds_fewer():
    world = running(3)
    world.obey(
        world.directs_plan(2, 1, retained_executors=3),
        world.nothing,
        world.directs_plan(2, 1, retained_executors=1),
        world.nothing,
    )
    assert world.after("RUNNING 1") == [
        *("declare 1", "RUNNING 2"),
        *("{", "release down to 1", "tasks let go", "}"),
        *("end", "STOPPED 2"),
    ]


def test_stays_running_when_there_is_no_moment_to_give_back_what_is_held_no_more():
    world = running(3)
    world.batch_ends = False
    world.obey(
        world.directs_plan(2, 1, retained_executors=3),
        world.nothing,
        world.directs_plan(2, 1, retained_executors=1),
        world.nothing,
    )
    assert world.after("RUNNING 2") == ["{", "}", "end", "STOPPED 2"]


def test_restarts_no_query_when_only_what_is_held_kept_or_balanced_changes():
    world = running(2)
    world.obey(
        world.directs_plan(2, 2, retained_executors=4, remaining_per_worker={"http://w1": 2}, load_balance_mode=TASKS),
        world.nothing,
    )
    assert world.after("RUNNING 1") == ["RUNNING 2", "end", "STOPPED 2"]


def test_gives_back_where_the_plan_keeps_fewest():
    world = running(3)
    world.obey(
        world.directs(Action.RUN, 2, replace(plan(1, query_version=2), remaining_per_worker={"http://w1": 1})),
        world.nothing,
    )
    assert "release down to 1, 1 on http://w1" in world.history


def test_balances_a_stateful_query_until_it_is_told_not_to():
    world = running(2)
    world.run = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    world.obey(
        world.directs_plan(1, 2, load_balance_mode=TASKS),
        world.has_executors(1),
        world.has_executors(2),
        world.directs_plan(1, 2),
        world.nothing,
    )
    assert world.balanced == [0, 2, 1, 2, 0]


def balancing() -> World:
    """A world in which the driver starts a stateful query on one executor, and spreads its tasks."""
    world = World(
        newest_directive=directive(Action.RUN, 1, replace(plan(1), load_balance_mode=TASKS)), executor_count=1
    )
    world.run = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    return world


@pytest.mark.parametrize(
    "event",
    [
        lambda world: world.directs(Action.HOLD, 1),
        lambda world: world.directs_plan(
            2, 2, query_version=2, load_balance_mode=TASKS
        ),  # waits for an executor that does not come
        lambda world: world.ends_query(FAILURE),
        lambda world: lambda: setattr(world, "run", None),
    ],
    ids=["hold", "rescale", "failure", "no state"],
)
def test_balances_nothing_any_more_when_the_tasks_are_to_go(event):
    world = balancing()
    world.obey(world.nothing, event(world), world.look)
    assert world.seen == [[0, 1, 0]]


def stateful(executors: int) -> World:
    """A world in which the driver starts a stateful query, and is not told to balance anything."""
    world = running(executors)
    world.run = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    return world


def test_spreads_the_tasks_over_executors_that_a_plan_has_added_until_they_are():
    world = stateful(1)
    world.obey(
        world.directs_plan(2, 2),
        world.nothing,
        world.has_executors(2),
        world.nothing,
        lambda: setattr(world, "spread", True),
        world.nothing,
        lambda: setattr(world, "spread", False),
    )
    assert world.balanced == [0, 2, 0]
    assert world.history[-3:] == ["RUNNING 2", "end", "STOPPED 2"]


def test_spreads_on_when_no_more_than_the_version_is_new():
    world = stateful(1)
    world.obey(
        world.directs_plan(2, 2), world.has_executors(2), world.directs_plan(3, 2, retained_executors=3), world.nothing
    )
    seen = list(world.balanced)
    assert seen == [0, 2, 0]
    assert world.after("RUNNING 3") == ["end", "STOPPED 3"]


@pytest.mark.parametrize(
    "then",
    [
        lambda world: setattr(world, "executors_warm", True),
        lambda world: setattr(world, "time", world.time + WARM_UP_S),
    ],
    ids=["tasks", "time"],
)
def test_executors_that_came_get_tasks_with_state_once_they_are_warm(then):
    world = stateful(1)
    world.executors_warm = False
    world.obey(
        world.directs_plan(2, 2), world.has_executors(2), world.nothing, world.look, lambda: then(world), world.look
    )
    assert world.seen == [[0], [0, 2]]


@pytest.mark.parametrize(
    "then",
    [
        lambda world: world.rebuilds(3, 2),
        lambda world: world.directs(Action.HOLD, 3),
    ],
    ids=["a restart", "hold"],
)
def test_spreads_no_more_when_the_queries_go(then):
    world = stateful(1)
    world.obey(world.directs_plan(2, 2), world.has_executors(2), world.look, then(world), world.nothing, world.look)
    assert world.seen == [[0, 2], [0, 2, 0]]


def test_spreads_the_tasks_of_executors_that_are_given_back_over_the_others_until_they_are():
    world = stateful(2)
    world.obey(
        world.directs_plan(2, 1),
        lambda: setattr(world, "spread", True),
        world.nothing,
        lambda: setattr(world, "spread", False),
        world.nothing,
    )
    assert world.balanced == [0, 1, 0]


@pytest.mark.parametrize(
    "then",
    [
        lambda world: setattr(world, "executors_leave", False),
        lambda world: setattr(world, "time", world.time + LEAVE_S),
    ],
    ids=["they end", "too long"],
)
def test_tasks_are_looked_after_again_when_executors_that_were_given_back_have_ended(then):
    world = stateful(2)
    world.executors_leave = True
    world.obey(world.directs_plan(2, 1), world.nothing, world.look, lambda: then(world), world.look)
    assert world.seen == [[0], [0, 1]]


def test_spreads_nothing_when_an_executor_that_was_lost_is_replaced():
    world = stateful(2)
    world.obey(world.has_executors(1), world.nothing, world.has_executors(2), world.nothing)
    assert world.balanced == [0]


def test_balances_nothing_any_more_when_it_is_fenced():
    world = balancing()
    successor = directive(Action.RUN, 2, plan(1), epoch=EPOCH + 1)
    assert world.obey(lambda: setattr(world, "newest_directive", successor)) is DriverState.FENCED
    assert world.balanced == [0, 1, 0]


def test_balances_nothing_any_more_when_the_loop_itself_fails():
    world = balancing()
    with pytest.raises(ZeroDivisionError):
        world.obey(break_down)
    assert world.balanced == [0, 1, 0]


def test_measures_the_dead_time_of_a_restart_without_the_building():
    world = running(1)
    world.obey(
        world.nothing,
        lambda: setattr(world, "during_build", lambda: setattr(world, "time", world.time + 7.0)),
        lambda: setattr(world, "during_prepare", lambda: setattr(world, "time", world.time + 1.25)),
        world.rebuilds(2),
        world.nothing,
    )
    reported = {(status.version, status.state): status.downtime_ms for status in world.statuses}
    assert reported[1, DriverState.RUNNING] is None
    assert reported[1, DriverState.RESCALING] is None
    assert reported[2, DriverState.RUNNING] == 1250


def test_measures_on_when_the_first_trigger_takes_its_time():
    world = running(1)
    world.obey(
        lambda: setattr(world, "first_trigger_after_s", 3 * POLL_S),
        world.rebuilds(2),
        world.nothing,  # while the old query ends
        world.nothing,
        world.nothing,
    )
    reported = [status.downtime_ms for status in world.statuses if status.version == 2]
    assert list(dict.fromkeys(reported)) == [None, 2500]


def test_executors_that_come_take_no_time_from_the_queries_and_those_that_go_as_long_as_they_are_held():
    world = running(1)
    world.during_release = lambda: setattr(world, "time", world.time + 0.02)
    world.obey(world.directs_plan(2, 2), world.has_executors(2), world.directs_plan(3, 1), world.nothing)
    reported = {status.version: status.downtime_ms for status in world.statuses if status.state is DriverState.RUNNING}
    assert reported == {1: None, 2: 0, 3: 20}


def test_a_restart_is_still_measured_when_executors_come_before_its_first_trigger():
    world = running(1)
    world.obey(
        lambda: setattr(world, "first_trigger_after_s", 3 * POLL_S),
        world.rebuilds(2),
        world.directs_plan(3, 1, query_version=2),  # while the old query ends
        world.rebuilds(2),
        world.directs_plan(3, 1, query_version=2),
        world.nothing,
        world.nothing,
    )
    assert world.statuses[-1].downtime_ms is not None
    assert world.statuses[-1].downtime_ms > 0


def test_a_restart_after_a_hold_or_a_failure_is_no_rescale():
    world = running(1)
    world.obey(
        world.directs(Action.HOLD, 1, plan(1)),
        world.directs(Action.RUN, 1, plan(1)),  # while the query ends
        world.nothing,
        world.ends_query(FAILURE),
        world.directs(Action.RUN, 2, plan(1)),
        world.nothing,
    )
    assert world.history.count("start 1") == 3
    assert {status.downtime_ms for status in world.statuses} == {None}


def refusing() -> World:
    """A world in which the author's function will raise when it is called again."""
    world = running(1)
    world.during_build = lambda: setattr(world, "build_error", KeyError("carrier") if world.plan else None)
    return world


def test_queries_go_on_as_before_when_they_can_not_be_built_for_a_plan():
    world = refusing()
    world.obey(world.nothing, world.rebuilds(2), world.nothing, world.nothing)
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "RUNNING 1", "end", "STOPPED 2"]
    status = world.statuses[-2]
    assert (status.state, status.version, status.rejected_version, status.failure) == (DriverState.RUNNING, 1, 2, None)
    assert status.rejection is not None
    assert (status.rejection.error_class, status.rejection.causes) == ("KeyError", (BUILD_FUNCTION_ERROR, "KeyError"))
    assert "plan 2 refused: KeyError: 'carrier'" in world.complaints[0]


def test_executors_of_a_refused_plan_go_back():
    world = refusing()
    world.obey(world.nothing, world.rebuilds(2, 3), world.has_executors(3), world.nothing, world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1", "build", "RUNNING 1"),
        *("declare 1", "{", "release down to 1", "tasks let go", "}"),
        *("end", "STOPPED 2"),
    ]


def test_the_plan_before_is_obeyed_again_after_a_refusal():
    world = refusing()
    world.obey(world.rebuilds(2), world.directs_plan(1, 1), world.nothing, world.rebuilds(2), world.nothing)
    assert world.history.count("build") == 2
    assert world.statuses[-2].rejected_version == 2


def mends(world: World) -> Callable[[], None]:
    """The author's function raises no more."""

    def mend() -> None:
        world.build_error, world.during_build = None, world.nothing

    return mend


def test_a_refused_plan_is_tried_again_under_another_version():
    world = refusing()
    world.obey(world.rebuilds(2), world.nothing, world.rebuilds(3), world.nothing)
    assert list(dict.fromkeys(status.rejected_version for status in world.statuses)) == [0, 2, 3]


def test_a_plan_that_comes_into_force_ends_the_word_of_a_refusal():
    world = refusing()
    world.obey(world.rebuilds(2), world.nothing, mends(world), world.rebuilds(3), world.nothing, world.nothing)
    assert world.history[-3:] == ["RUNNING 3", "end", "STOPPED 3"]
    assert (world.statuses[-1].rejected_version, world.statuses[-1].rejection) == (0, None)


def test_a_query_that_fails_after_a_refusal_has_failed():
    world = refusing()
    world.obey(world.rebuilds(2), world.nothing, world.ends_query(FAILURE), world.nothing)
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "RUNNING 1", "end", "FAILED 2", "STOPPED 2"]


def test_a_refused_plan_is_tried_again_when_nothing_runs_any_more():
    world = refusing()
    world.obey(
        *(world.rebuilds(2), world.nothing, mends(world)),
        *(world.directs(Action.HOLD, 2), world.nothing, world.rebuilds(2), world.nothing),
    )
    assert world.after("HOLDING 2") == ["RESCALING 2", "build", "prepare", "start 1", "RUNNING 2", "end", "STOPPED 2"]


def test_restarts_without_looking_at_state_that_is_ready():
    world = running(1)
    world.prepared = True
    world.obey(world.rebuilds(2), world.nothing, world.nothing)
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "end", "start 1", "RUNNING 2", "end", "STOPPED 2"]


def test_fails_when_the_state_can_not_be_made_ready():
    world = running(1)
    world.during_end = lambda: setattr(world, "prepare_error", ValueError("4 partitions"))
    world.obey(world.rebuilds(2), world.nothing, world.nothing)
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "end", "prepare", "FAILED 2", "STOPPED 2"]
    assert not world.guarded


def test_starts_nothing_when_the_directive_changed_while_the_state_was_made_ready():
    world = running(1)
    world.during_prepare = world.directs(Action.HOLD, 1)
    world.obey(world.nothing)
    assert world.history[-3:] == ["prepare", "HOLDING 1", "STOPPED 1"]
    assert not world.guarded


def test_ends_nothing_when_the_directive_changed_while_building():
    world = running(1)
    world.obey(
        world.nothing,
        lambda: setattr(world, "during_build", world.directs_plan(3, 1)),
        world.rebuilds(2),
        world.nothing,
    )
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "RUNNING 3", "end", "STOPPED 3"]


def test_tells_which_vertices_the_queries_were_built_with():
    world = running(1)
    world.obey(world.nothing)
    assert {status.vertices_read for status in world.statuses if status.version} == {("read",)}
    assert {status.vertices_read for status in world.statuses if not status.version} == {None}


@pytest.mark.parametrize("act", ["during_build", "during_prepare"])
def test_is_not_silent_while_building_or_preparing_takes_its_time(act):
    world = running(1)
    seen = []

    def take_long() -> None:
        reports = len(world.statuses)
        world.time += POLL_S
        wait_until(lambda: len(world.statuses) > reports, THREAD_S, "a report", POLL_S / 100)
        seen.append(world.statuses[-1].state)

    setattr(world, act, take_long)
    assert world.obey(world.nothing, world.nothing) is DriverState.STOPPED
    assert seen == [DriverState.STARTING]


def test_is_fenced_when_it_makes_state_ready_and_can_not_report_for_the_lease():
    world = running(1)

    def take_long() -> None:
        world.writable = False
        world.time += LEASE_S
        wait_until(lambda: "halt" in world.history, THREAD_S, "the halt", POLL_S / 100)

    world.during_prepare = take_long
    assert world.obey(world.nothing, world.nothing) is DriverState.FENCED
    assert world.history[-3:] == ["prepare", "halt", "FENCED"]
    assert not world.guarded


def test_touches_no_state_before_it_is_known_again_when_ending_has_outlasted_the_lease():
    world = running(1)
    world.during_end = lambda: setattr(world, "time", world.time + 2 * LEASE_S)
    world.obey(world.rebuilds(2), world.nothing, world.nothing)
    assert world.after("end")[:5] == ["build", "prepare", "start 1", "RUNNING 2", "end"]


def test_ends_the_queries_when_it_is_fenced_while_others_are_built():
    world = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)

    def take_long() -> None:
        world.newest_directive = successor
        world.time += POLL_S
        wait_until(lambda: "halt" in world.history, THREAD_S, "the halt", POLL_S / 100)

    steps = (lambda: setattr(world, "during_build", take_long), world.rebuilds(2), world.nothing)
    assert world.obey(*steps) is DriverState.FENCED
    assert world.after("RUNNING 1") == ["RESCALING 1", "build", "halt", "FENCED"]


def test_script_that_exits_ends_the_driver():
    world = running(1)
    world.build_error = None

    def leave() -> None:
        raise SystemExit(7)

    world.during_build = leave
    with pytest.raises(SystemExit):
        world.obey()
