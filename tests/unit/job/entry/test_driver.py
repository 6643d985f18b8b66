"""A driver is assembled so that a fenced one ends with its JVM, and its lease counts while the host is suspended."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import FORMATS, SUBMISSION_ID_VARIABLE, DriverState, DriverStatus
from airflow_adaptive._core.python_version import UnsupportedVersionError
from airflow_adaptive.job.control import driver_loop
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED, EXIT_FENCED
from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.interfaces import DriverInterfaces
from airflow_adaptive.job.entry import driver as driver_module
from airflow_adaptive.job.entry.driver import Driver
from airflow_adaptive.job.spark_internals import report_spark


class AssembledDriver:
    """A driver whose driver loop and components are replaced; `events` are those of its process and its watchdog."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str = "4.2.0") -> None:
        self.events: list[object] = []
        self.task_epochs: list[int] = []
        self.end: DriverState | Exception = DriverState.STOPPED
        self.boot_time = 1000.0
        self.guarding = False
        self.identity: DriverStatus
        self.interfaces: DriverInterfaces
        self.fence: Fence
        monkeypatch.setattr(driver_module, "separate_task_ids", lambda _, epoch: self.task_epochs.append(epoch))
        for name in ("HadoopJobDirectory", "SparkExecutorPool", "SparkPlacement"):
            monkeypatch.setattr(driver_module, name, lambda *_, **__: SimpleNamespace())
        monkeypatch.setattr(driver_module, "boot_time", lambda: self.boot_time)
        monkeypatch.setattr(driver_module, "DriverProcess", lambda _: SimpleNamespace(exit=self.exit, jvm=4711))
        monkeypatch.setattr(driver_module, "LeaseWatchdog", self.watchdog)
        monkeypatch.setattr(driver_loop, "DriverLoop", self.driver_loop)
        context = SimpleNamespace(applicationId="app-1", uiWebUrl=None)
        spark: Any = SimpleNamespace(sparkContext=context, version=version)
        self.driver = Driver(spark, DriverSettings(job="j", directory="file:///jobs/j", epoch=1, nonce="n"))

    def run(self) -> DriverState:
        workload: Any = SimpleNamespace()
        return self.driver.run(workload)

    def exit(self, code: int, _: str) -> None:
        self.events.append(("exit", code))

    def watchdog(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(
            enforce=lambda _: self.events.append("watch"),
            is_enforcing=self.guarding,
            close=lambda: self.events.append("close"),
        )

    def driver_loop(
        self, identity: DriverStatus, interfaces: DriverInterfaces, _: DriverSettings, *, fence: Fence, enforce: object
    ) -> Any:
        self.identity, self.interfaces, self.fence = identity, interfaces, fence
        return SimpleNamespace(run=self.run_control_loop)

    def run_control_loop(self) -> DriverState:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> AssembledDriver:
    return AssembledDriver(monkeypatch)


def test_driver_separates_the_ids_of_its_tasks_by_its_epoch(assembled: AssembledDriver):
    assert assembled.task_epochs == [assembled.driver.settings.epoch]


def test_driver_that_ends_without_a_fence_closes_the_watchdog(assembled: AssembledDriver):
    assert assembled.run() is DriverState.STOPPED
    assert assembled.events == ["watch", "close"]


def test_fenced_driver_ends_its_processes_while_the_watchdog_is_on(assembled: AssembledDriver):
    """The thread of a repartition may still run when the driver loop returns."""
    assembled.end = DriverState.FENCED
    assembled.run()
    assert assembled.events[:2] == ["watch", ("exit", EXIT_FENCED)]


@pytest.mark.parametrize(("guarding", "ends"), [(False, []), (True, [("exit", EXIT_FAILED)])])
def test_driver_ends_its_processes_when_the_control_loop_fails_and_a_query_may_run(
    assembled: AssembledDriver, guarding: bool, ends: list[object]
):
    """The driver loop fails, and the thread of a query does not end."""
    assembled.end, assembled.guarding = ZeroDivisionError(), guarding
    with pytest.raises(ZeroDivisionError):
        assembled.run()
    assert assembled.events == ["watch", *ends]


def test_status_names_the_document_formats_that_the_driver_reads(assembled: AssembledDriver):
    assembled.run()
    assert assembled.identity.formats == FORMATS


def test_lease_expires_while_the_host_is_suspended(assembled: AssembledDriver):
    """The host is suspended for the lease timeout: `time.monotonic` stops, and the clock of the scheduler continues."""
    assembled.run()
    read_at = assembled.interfaces.clock()
    assembled.boot_time += assembled.driver.settings.lease_timeout_s
    assert assembled.interfaces.clock() - read_at == assembled.driver.settings.lease_timeout_s
    with pytest.raises(FencedError):
        assembled.fence.check(query_may_run=False)


@pytest.mark.parametrize(
    ("folder", "variable", "submission_id", "truncates"),
    [
        ("driver-20130101000000-0001", None, "driver-20130101000000-0001", True),
        ("work-dir", "departures-1-1a2b3c4d@uid", "departures-1-1a2b3c4d@uid", False),
        ("work-dir", None, None, False),
    ],
    ids=["standalone", "named by the client", "unknown"],
)
def test_status_names_the_submission_and_only_a_standalone_worker_keeps_output(
    assembled: AssembledDriver,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: str,
    variable: str | None,
    submission_id: str | None,
    truncates: bool,
):
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    if variable is not None:
        monkeypatch.setenv(SUBMISSION_ID_VARIABLE, variable)
    assembled.run()
    assert assembled.identity.submission_id == submission_id
    assert (assembled.interfaces.sleep is not time.sleep) is truncates


def test_driver_on_an_old_spark_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedVersionError, match="the driver runs Spark 3.5.6"):
        AssembledDriver(monkeypatch, "3.5.6")


@pytest.mark.parametrize("version", ["4.0.2", "4.3.0-SNAPSHOT", "5.0.0", "4.10.1", "custom"])
def test_status_reports_the_spark_of_the_driver(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    assembled = AssembledDriver(monkeypatch, version)
    assembled.run()
    assert assembled.identity.spark == report_spark(version)
