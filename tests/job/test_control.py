from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive.job.directory import DirectoryError
from airflow_adaptive.job.documents import TASKS, Action, DriverState, FailureReport
from airflow_adaptive.job.failures import BUILD_FUNCTION_ERROR
from airflow_adaptive.job.progress import StatefulRun
from tests.job.fakes import EPOCH, LEASE_S, NONCE, POLL_S, World, directive, plan

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
        *("build", "start 2", "RUNNING 1"),
        *("end", "STOPPED 1"),
    ]


def test_rescales_at_a_boundary_when_all_new_executors_are_there():
    world = running(1)
    world.obey(world.directs(Action.RUN, 2, plan(3)), world.has_executors(2), world.has_executors(3), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 3", "RESCALING 1"),
        *("end", "build", "start 3", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_rescales_down_before_it_releases_when_less_is_planned():
    world = running(3)
    world.obey(world.directs(Action.RUN, 2, plan(1)), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 1", "RESCALING 1"),
        *("end", "release down to 1", "build", "start 1", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_follows_the_newer_directive_when_it_waits_for_executors():
    world = running(1)
    world.obey(
        world.directs(Action.RUN, 2, plan(3)),
        world.has_executors(2),
        world.directs(Action.RUN, 3, plan(1)),
    )
    # The old plan is the new one: nothing restarts, and the executor that came is given back.
    assert world.after("RUNNING 1")[:-2] == ["declare 3", "RESCALING 1", "declare 1", "release down to 1", "RUNNING 3"]


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
        "declare 1",
        "RESCALING 1",
        "build",
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
    end = world.obey(
        world.directs(Action.RUN, 2, plan(1, read=2)), lambda: setattr(world, "newest_directive", successor)
    )
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
    world.obey(world.ends_query(FAILURE), world.nothing, world.directs(Action.RUN, 2, plan(1)))
    assert world.after("RUNNING 1")[:-2] == ["FAILED 1", "declare 1", "RESCALING 1", "build", "start 1", "RUNNING 2"]
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
    world.obey(world.directs(Action.RUN, 2, plan(1, read=2)))
    assert world.after("RUNNING 1") == ["declare 1", "RESCALING 1", "end", "FAILED 2", "STOPPED 2"]


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
    world.obey(world.directs(Action.RUN, 2, plan(3)), world.nothing, world.ends_query())
    assert world.after("RUNNING 1") == ["declare 3", "RUNNING 2", "FINISHED 2"]
    assert world.history.count("build") == 1


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
    world.obey(world.directs_plan(2, 1, hold=3), world.nothing, world.directs_plan(2, 1, hold=1), world.nothing)
    assert world.after("RUNNING 1") == [
        *("declare 1", "RESCALING 1", "end", "build", "start 1", "RUNNING 2"),
        *("declare 1", "release down to 1"),
        *("end", "STOPPED 2"),
    ]


def test_gives_back_where_the_plan_keeps_fewest():
    world = running(3)
    world.obey(world.directs_plan(2, 1, keep={"http://w1": 1}), world.nothing)
    assert "release down to 1, 1 on http://w1" in world.history


def test_restarts_no_query_when_only_what_is_held_kept_or_balanced_changes():
    world = running(2)
    world.obey(world.directs_plan(2, 2, hold=4, keep={"http://w1": 2}, load_balance=TASKS), world.nothing)
    assert world.after("RUNNING 1") == ["declare 2", "RUNNING 2", "end", "STOPPED 2"]


def test_balances_a_stateful_query_until_it_is_told_not_to():
    world = running(2)
    world.run = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    world.obey(
        world.directs_plan(1, 2, load_balance=TASKS),
        world.has_executors(1),
        world.has_executors(2),
        world.directs_plan(1, 2),
        world.nothing,
    )
    assert world.balanced == [0, 2, 1, 2, 0]


def balancing() -> World:
    """A world in which the driver starts a stateful query on one executor, and spreads its tasks."""
    world = World(newest_directive=directive(Action.RUN, 1, replace(plan(1), load_balance=TASKS)), executor_count=1)
    world.run = StatefulRun(run_id="r", batch_id=1, state_partitions=4)
    return world


@pytest.mark.parametrize(
    "event",
    [
        lambda world: world.directs(Action.HOLD, 1),
        lambda world: world.directs_plan(2, 2, load_balance=TASKS),  # waits for an executor that does not come
        lambda world: world.ends_query(FAILURE),
        lambda world: lambda: setattr(world, "run", None),
    ],
    ids=["hold", "rescale", "failure", "no state"],
)
def test_balances_nothing_any_more_when_the_tasks_are_to_go(event):
    world = balancing()
    seen = []
    world.obey(world.nothing, event(world), lambda: seen.append(list(world.balanced)))
    assert seen == [[0, 1, 0]]


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


def test_measures_the_dead_time_of_a_rescale():
    world = running(1)
    world.during_build = lambda: setattr(world, "time", world.time + 1.25)
    world.obey(world.directs(Action.RUN, 2, plan(1, read=2)), world.nothing)
    reported = {(status.version, status.state): status.downtime_ms for status in world.statuses}
    assert reported[1, DriverState.RUNNING] is None
    assert reported[1, DriverState.RESCALING] is None
    assert reported[2, DriverState.RUNNING] == 1250


def test_measures_on_when_the_first_trigger_takes_its_time():
    world = running(1)
    world.obey(
        lambda: setattr(world, "first_trigger_after_s", 3 * POLL_S),
        world.directs(Action.RUN, 2, plan(1, read=2)),
        world.nothing,  # while the old query ends
        world.nothing,
        world.nothing,
    )
    reported = [status.downtime_ms for status in world.statuses if status.version == 2]
    assert list(dict.fromkeys(reported)) == [None, 2500]


def test_a_restart_after_a_hold_or_a_failure_is_no_rescale():
    world = running(1)
    world.obey(
        world.directs(Action.HOLD, 1, plan(1)),
        world.directs(Action.RUN, 1, plan(1)),
        world.ends_query(FAILURE),
        world.directs(Action.RUN, 2, plan(1)),
        world.nothing,
    )
    assert {status.downtime_ms for status in world.statuses} == {None}
