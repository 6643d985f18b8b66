"""A driver writes its status on each change and for each heartbeat, and measures the downtime of its queries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._core.protocol.documents import (
    Action,
    DriverState,
    DriverStatus,
    FailureReport,
    decode_document,
    encode_document,
)
from airflow_adaptive.job.control.driver_status import FileStatusReporter
from airflow_adaptive.job.control.interfaces import DirectoryError
from tests.support.driver.driver_loop_scenarios import running
from tests.support.driver.simulated_driver import POLL_S, plan

RUNNING = DriverStatus(job="j", epoch=3, nonce="n", sequence=0, at="", state=DriverState.RUNNING, version=1)


class Reporting:
    """A reporter with a file in memory and a clock that stands."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.writable = True
        self.time = 0.0
        self.warnings: list[str] = []
        self.reporter = FileStatusReporter(
            self, heartbeat_interval_s=2.0, clock=lambda: self.time, warn=self.warnings.append
        )

    def read_status(self) -> bytes | None:
        return self.data

    def write_status(self, data: bytes) -> None:
        if not self.writable:
            raise DirectoryError("disk full")
        self.data = data

    @property
    def written(self) -> DriverStatus:
        assert self.data is not None
        return decode_document(DriverStatus, self.data)


def test_a_status_is_written_on_a_change_or_when_a_heartbeat_is_due():
    reporting = Reporting()
    sequences, written = [], []
    for status, time in [
        (RUNNING, 100.0),
        (RUNNING, 100.5),
        (replace(RUNNING, version=2), 101.0),
        (replace(RUNNING, version=2), 103.0),
    ]:
        reporting.time = time
        written.append(reporting.reporter.report(status))
        sequences.append(reporting.written.sequence)
    assert sequences == [1, 1, 2, 3]
    assert written == [True, False, True, True]
    assert reporting.written.at.endswith("+00:00")


def test_a_failed_write_is_tried_again_and_warned_of_once():
    reporting = Reporting()
    reporting.writable = False
    assert not reporting.reporter.report(RUNNING)
    assert not reporting.reporter.report(RUNNING)
    assert reporting.warnings == ["status not written, will retry: disk full"]
    reporting.writable = True
    reporting.reporter.report(RUNNING)
    assert reporting.written.state is DriverState.RUNNING


@pytest.mark.parametrize(("epoch", "writes"), [(3, True), (4, False)])
def test_a_fenced_driver_does_not_overwrite_the_status_of_its_successor(epoch, writes):
    reporting = Reporting()
    before = encode_document(replace(RUNNING, epoch=epoch))
    reporting.data = before
    reporting.reporter.report_fenced(RUNNING)
    assert (reporting.data != before) is writes
    if writes:
        assert reporting.written.state is DriverState.FENCED


# ---- the dead time of a restart, as the driver loop measures it -----------------------------------------------------


FAILURE = FailureReport(error_class="DIVIDE_BY_ZERO", message="no", causes=("SparkArithmeticException",), query="j")


def test_the_downtime_of_a_restart_excludes_the_build():
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


def test_the_downtime_lasts_until_a_late_first_trigger():
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


def test_added_executors_cause_no_downtime_and_released_ones_the_time_of_the_block():
    driver = running(1)
    driver.during_release = lambda: setattr(driver, "time", driver.time + 0.02)
    driver.run(driver.directs_plan(2, 2), driver.has_executors(2), driver.directs_plan(3, 1), driver.nothing)
    reported = {status.version: status.downtime_ms for status in driver.statuses if status.state is DriverState.RUNNING}
    assert reported == {1: None, 2: 0, 3: 20}


def test_a_restart_is_still_measured_when_executors_are_added_before_its_first_trigger():
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


def test_a_restart_after_a_hold_or_a_failure_has_no_downtime():
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
