"""Rescales that change the executors of the running queries."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive.job.control.interfaces import DirectoryError
from airflow_adaptive.job.protocol.documents import TASKS, Action, DriverState
from tests.support.driver.control_loop_scenarios import running
from tests.support.driver.simulated_driver import EPOCH, directive, plan


def test_executors_come_under_the_running_queries_and_only_then_is_the_plan_active():
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


def test_the_next_tier_is_taken_when_executors_did_not_come_or_go():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.nothing, driver.rebuilds(3, 1), driver.nothing, driver.nothing)
    assert driver.after("}")[:-2] == [*("build", "end", "release down to 1", "prepare", "start 1", "RUNNING 3")]


def test_an_active_plan_stays_active_when_executors_of_it_are_lost():
    driver = running(3)
    driver.run(driver.has_executors(1), driver.nothing, driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == ["end", "STOPPED 1"]


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
