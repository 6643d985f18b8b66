from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._core.protocol.codec import decode_status, encode_status
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive.job.control.driver_status import FileStatusReporter
from airflow_adaptive.job.control.interfaces import DirectoryError

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
        return decode_status(self.data)


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
    before = encode_status(replace(RUNNING, epoch=epoch))
    reporting.data = before
    reporting.reporter.report_fenced(RUNNING)
    assert (reporting.data != before) is writes
    if writes:
        assert reporting.written.state is DriverState.FENCED
