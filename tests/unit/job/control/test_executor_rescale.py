"""Rescales that change the executors of the running queries."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.protocol.documents import TASKS, Action, DriverState
from airflow_adaptive.job.control.interfaces import DirectoryError
from tests.support.driver.driver_loop_scenarios import running
from tests.support.driver.simulated_driver import EPOCH, directive, plan


def test_executors_are_added_under_the_running_queries_before_the_plan_becomes_active():
    driver = running(1)
    driver.run(driver.directs_plan(2, 3), driver.has_executors(2), driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == ["declare 3", "RESCALING 1", "RUNNING 2", "end", "STOPPED 2"]
    reported = [len(status.executors) for status in driver.statuses if status.state is DriverState.RESCALING]
    assert reported == [1, 2]


def test_executors_are_removed_under_the_running_queries_between_two_batches():
    driver = running(3)
    driver.run(driver.directs_plan(2, 1, remaining_per_worker={"http://w1": 1}), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 1", "{", "release down to 1, 1 on http://w1", "tasks let go", "}", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_executors_are_removed_in_a_later_cycle_when_no_moment_between_batches_occurs():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.nothing, lambda: setattr(driver, "batch_ends", True), driver.nothing)
    assert driver.after("RUNNING 1") == [
        *("declare 1", "{", "RESCALING 1", "}"),
        *("{", "release down to 1", "tasks let go", "}", "RUNNING 2"),
        *("end", "STOPPED 2"),
    ]


def test_is_fenced_while_it_waits_for_a_moment_between_batches():
    driver = running(3)
    driver.batch_ends = False
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    end = driver.run(driver.directs_plan(2, 1), lambda: setattr(driver, "newest_directive", successor))
    assert end is DriverState.FENCED
    assert driver.after("RUNNING 1") == ["declare 1", "{", "halt", "FENCED"]


def test_stops_waiting_for_a_moment_between_batches_when_the_directive_changes():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.directs(Action.HOLD, 2), driver.nothing)
    assert driver.after("RUNNING 1") == ["declare 1", "{", "RESCALING 1", "end", "HOLDING 2", "STOPPED 2"]


def test_continues_to_wait_for_a_moment_between_batches_while_the_journal_is_unreadable():
    driver = running(3)
    driver.batch_ends = False
    driver.run(
        *(driver.directs_plan(2, 1), lambda: setattr(driver, "newest_directive", DirectoryError("gone"))),
        *(driver.directs_plan(2, 1), driver.nothing),
    )
    assert driver.after("RUNNING 1")[:4] == ["declare 1", "{", "RESCALING 1", "}"]


def test_a_plan_with_new_queries_supersedes_one_whose_executors_did_not_change():
    driver = running(3)
    driver.batch_ends = False
    driver.run(driver.directs_plan(2, 1), driver.nothing, driver.rebuilds(3, 1), driver.nothing, driver.nothing)
    assert driver.after("}")[:-2] == [*("build", "end", "release down to 1", "prepare", "start 1", "RUNNING 3")]


def test_an_active_plan_stays_active_when_it_loses_executors():
    driver = running(3)
    driver.run(driver.has_executors(1), driver.nothing, driver.has_executors(3), driver.nothing)
    assert driver.after("RUNNING 1") == ["end", "STOPPED 1"]


def test_keeps_surplus_executors_until_the_plan_retains_fewer():
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


def test_stays_running_when_no_moment_to_release_executors_occurs():
    driver = running(3)
    driver.batch_ends = False
    driver.run(
        driver.directs_plan(2, 1, retained_executors=3),
        driver.nothing,
        driver.directs_plan(2, 1, retained_executors=1),
        driver.nothing,
    )
    assert driver.after("RUNNING 2") == ["{", "}", "end", "STOPPED 2"]


def test_restarts_no_query_when_only_retained_executors_or_load_balancing_change():
    driver = running(2)
    driver.run(
        driver.directs_plan(2, 2, retained_executors=4, remaining_per_worker={"http://w1": 2}, load_balance_mode=TASKS),
        driver.nothing,
    )
    assert driver.after("RUNNING 1") == ["RUNNING 2", "end", "STOPPED 2"]


def test_releases_executors_of_the_workers_that_keep_fewest():
    driver = running(3)
    driver.run(
        driver.directs(Action.RUN, 2, replace(plan(1, query_version=2), remaining_per_worker={"http://w1": 1})),
        driver.nothing,
    )
    assert "release down to 1, 1 on http://w1" in driver.history
