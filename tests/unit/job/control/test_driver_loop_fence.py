"""The driver loop stops when the scheduler does not confirm the lease of the driver."""

from __future__ import annotations

import threading

import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverState
from airflow_adaptive.job.control.interfaces import DirectoryError, QueryStillRunsError
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_loop_scenarios import running
from tests.support.driver.simulated_driver import EPOCH, LEASE_S, NONCE, POLL_S, SimulatedDriver, directive, plan

THREAD_S = 60.0
"""Longer than another thread takes to be seen."""


@pytest.mark.parametrize(("epoch", "nonce"), [(EPOCH + 1, NONCE), (EPOCH, "another")])
def test_starts_no_query_when_the_journal_names_another_driver(epoch, nonce):
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
    assert driver.guarded, "the watchdog must end the process if the driver loop hangs"


def test_is_fenced_when_no_document_names_the_driver_for_the_lease():
    driver = SimulatedDriver()
    assert driver.run() is DriverState.FENCED
    assert driver.history == ["halt", "FENCED"]
    assert driver.time == pytest.approx(100.0 + LEASE_S, abs=POLL_S)


def test_is_fenced_when_the_journal_is_unreadable_for_the_lease():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "newest_directive", DirectoryError("gone"))) is DriverState.FENCED
    assert driver.history[-3:] == ["RUNNING 1", "halt", "FENCED"]
    assert [warning for warning in driver.warnings if "gone" in warning] == [
        "journal not read, will retry within the lease: gone"
    ]


def test_is_fenced_when_a_query_runs_and_no_status_is_written_for_the_lease():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "writable", False), *[driver.nothing] * 200) is DriverState.FENCED
    assert driver.history[-2:] == ["halt", "FENCED"]
    assert driver.time == pytest.approx(100.0 + LEASE_S, abs=3 * POLL_S)


def test_starts_no_query_before_a_status_is_written():
    driver = running(1)
    driver.writable = False
    driver.run(driver.nothing, driver.nothing, lambda: setattr(driver, "writable", True), driver.nothing)
    assert driver.history.count("build") == 1
    assert driver.history.count("start 1") == 1


def test_starts_no_query_when_it_was_frozen_and_the_journal_then_names_another_driver():
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)

    def thaw() -> None:
        driver.time += 2 * LEASE_S
        driver.newest_directive = successor

    driver.during_build = thaw
    assert driver.run() is DriverState.FENCED
    assert "start 1" not in driver.history


def test_starts_when_the_build_outlasts_the_lease_and_the_journal_still_names_the_driver():
    driver = running(1)
    driver.during_build = lambda: setattr(driver, "time", driver.time + 2 * LEASE_S)
    assert driver.run(driver.nothing) is DriverState.STOPPED
    assert "start 1" in driver.history


def test_is_fenced_after_a_freeze_during_a_query_although_the_journal_names_it():
    driver = running(1)
    assert driver.run(lambda: setattr(driver, "time", driver.time + 2 * LEASE_S)) is DriverState.FENCED
    assert driver.history[-3:] == ["RUNNING 1", "halt", "FENCED"]


def test_continues_when_the_journal_is_readable_again_within_the_lease():
    driver = running(1)

    def unreadable() -> None:
        driver.newest_directive = DirectoryError("gone")
        driver.time += LEASE_S - 3 * POLL_S

    assert driver.run(unreadable, driver.directs(Action.RUN, 1, plan(1))) is DriverState.STOPPED
    assert "halt" not in driver.history


def test_is_fenced_while_it_waits_for_a_batch_boundary():
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    end = driver.run(driver.rebuilds(2), lambda: setattr(driver, "newest_directive", successor))
    assert end is DriverState.FENCED
    assert driver.history[-3:] == ["end", "halt", "FENCED"]


def test_starts_no_query_when_the_directive_changes_during_the_build():
    driver = running(1)
    driver.during_build = driver.directs(Action.HOLD, 1)
    driver.run(driver.nothing)
    assert driver.history == ["declare 1", "STARTING 0", "build", "HOLDING 1", "STOPPED 1"]


def test_starts_no_query_when_the_build_outlasts_the_lease_and_the_journal_is_unreadable():
    driver = running(1)

    def hang() -> None:
        driver.time += LEASE_S
        driver.newest_directive = DirectoryError("gone")

    driver.during_build = hang
    assert driver.run() is DriverState.FENCED
    assert driver.history[-3:] == ["build", "halt", "FENCED"]


def test_is_fenced_when_no_status_is_written_while_it_prepares_the_state():
    driver = running(1)

    def take_long() -> None:
        driver.writable = False
        driver.time += LEASE_S
        wait_until(lambda: "halt" in driver.history, THREAD_S, "the halt", POLL_S / 100)

    driver.during_prepare = take_long
    assert driver.run(driver.nothing, driver.nothing) is DriverState.FENCED
    assert driver.history[-3:] == ["prepare", "halt", "FENCED"]
    assert driver.guarded, "the watchdog must end the process if the driver loop hangs"


def test_prepares_no_state_before_the_next_status_when_the_queries_outlast_the_lease():
    driver = running(1)
    driver.during_end = lambda: setattr(driver, "time", driver.time + 2 * LEASE_S)
    driver.run(driver.rebuilds(2), driver.nothing, driver.nothing)
    assert driver.after("end")[:5] == ["RESCALING 1", "build", "prepare", "start 1", "RUNNING 2"]


def test_stops_the_queries_when_it_is_fenced_during_a_build():
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)

    def take_long() -> None:
        driver.newest_directive = successor
        driver.time += POLL_S
        wait_until(lambda: "halt" in driver.history, THREAD_S, "the halt", POLL_S / 100)

    steps = (lambda: setattr(driver, "during_build", take_long), driver.rebuilds(2), driver.nothing)
    assert driver.run(*steps) is DriverState.FENCED
    assert driver.after("RUNNING 1") == ["build", "halt", "FENCED"]


def test_watchdog_stays_on_until_a_driver_that_is_fenced_while_repartitioning_exits():
    """Another epoch begins while the state is repartitioned, and the storage hangs when the last status is written.

    The thread of the repartition still runs, so the lease must end now, and the watchdog must end the process.
    """
    driver = running(1)
    successor = directive(Action.RUN, 9, plan(1), epoch=EPOCH + 1)
    fenced, released = [], threading.Event()

    def repartition() -> None:
        driver.newest_directive = successor
        driver.time += POLL_S
        released.wait(THREAD_S)

    driver.during_prepare = repartition
    driver.during_report_fenced = lambda: fenced.append((driver.guarded, driver.fence.overdue_s()))
    assert driver.run(driver.nothing, driver.nothing) is DriverState.FENCED
    released.set()
    assert driver.history[-3:] == ["prepare", "halt", "FENCED"]
    assert fenced == [(True, 0.0)]


def test_watchdog_stays_on_when_the_control_loop_fails_during_a_repartition():
    """The driver loop ends with an error while the thread of a repartition still runs."""
    driver = running(1)
    released = threading.Event()

    def repartition() -> None:
        driver.newest_directive = ZeroDivisionError()
        driver.time += POLL_S
        released.wait(THREAD_S)

    driver.during_prepare = repartition
    with pytest.raises(ZeroDivisionError):
        driver.run(driver.nothing, driver.nothing)
    released.set()
    assert driver.history[-2:] == ["halt", "FAILED 0"]
    assert driver.guarded


def test_watchdog_stays_on_while_a_batch_that_cannot_be_interrupted_runs():
    """The directive changes to HOLD, and the thread of the batch does not end before the timeout."""
    driver = running(1)
    driver.is_batch, driver.interruptible = True, False
    guarded: list[bool] = []
    driver.run(driver.directs(Action.HOLD, 1), driver.nothing, lambda: guarded.append(driver.guarded), driver.nothing)
    assert "HOLDING 1" in driver.history
    assert guarded == [True]


@pytest.mark.parametrize("stopped", [True, False])
def test_watchdog_stays_on_when_the_control_loop_fails_and_a_query_does_not_stop(stopped: bool):
    """The thread of a query does not end within Spark's timeout, so the query may still write."""
    driver = running(1)
    driver.queries_stop = stopped

    def fail() -> None:
        driver.newest_directive = ZeroDivisionError()

    with pytest.raises(ZeroDivisionError):
        driver.run(fail)
    assert driver.guarded is not stopped


def test_driver_ends_when_a_query_that_must_not_run_does_not_stop():
    """Only some of the queries could be started, and one of them does not stop."""
    driver = running(1)
    driver.queries_stop = False

    def fail() -> None:
        raise QueryStillRunsError

    driver.during_start = fail
    with pytest.raises(QueryStillRunsError):
        driver.run(driver.nothing)
    assert driver.history[-2:] == ["halt", "FAILED 0"]
    assert driver.guarded


def test_driver_that_fails_before_its_first_status_has_time_to_report_the_failure():
    """The first read of the journal fails, and a query that the script has started does not stop.

    The driver has never had a lease. A lease without an end would let the watchdog kill the driver before its report.
    """
    driver = SimulatedDriver(newest_directive=ZeroDivisionError())
    driver.queries_stop = False
    with pytest.raises(ZeroDivisionError):
        driver.run()
    assert driver.lease_end == driver.time
