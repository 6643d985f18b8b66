"""The link polls the journal and writes the driver status, which extends the lease."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import PurePath

import pytest

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import Action, DriverState, DriverStatus
from airflow_adaptive.job.control.driver_status import CurrentStatus, Downtime
from airflow_adaptive.job.control.fence import Fence
from airflow_adaptive.job.control.scheduler_link import SchedulerLink
from tests.support.driver.simulated_driver import EPOCH, LEASE_S, NONCE, SimulatedDriver, directive, plan


class LinkedDriver:
    """A link with the journal and the reporter of a `SimulatedDriver`."""

    def __init__(self) -> None:
        self.driver = SimulatedDriver(newest_directive=directive(Action.RUN, 1, plan(1)))
        settings = DriverSettings(job="j", directory="", epoch=EPOCH, nonce=NONCE, poll_interval_s=0.001)
        identity = DriverStatus(job="j", epoch=EPOCH, nonce=NONCE, sequence=0, at="", state=DriverState.RUNNING)
        interfaces = replace(self.driver.interfaces(), sleep=self.pass_time)
        self.link = SchedulerLink(
            CurrentStatus(identity, interfaces, Downtime(self.driver.clock)),
            interfaces,
            settings,
            fence=Fence(epoch=EPOCH, nonce=NONCE, lease_timeout_s=LEASE_S, clock=self.driver.clock),
            enforce=self.driver.enforce,
        )

    def pass_time(self, seconds: float) -> None:
        self.driver.time += seconds


@pytest.fixture
def linked() -> LinkedDriver:
    found = LinkedDriver()
    assert found.link.poll() is not None
    found.link.report()
    found.link.set_guarded(True)
    return found


def test_an_error_of_the_operation_has_no_frames_of_the_thread(linked):
    def act() -> None:
        raise LookupError("carrier")

    with pytest.raises(LookupError, match="carrier") as raised:
        linked.link.run_while_polling(act)
    files = {PurePath(frame.filename).name for frame in traceback.extract_tb(raised.value.__traceback__)}
    assert files == {"scheduler_link.py", "driver.py", "test_scheduler_link.py"}


def test_each_status_extends_the_lease_that_the_watchdog_enforces(linked):
    ends = []
    for _ in range(3):
        linked.driver.time += 10.0
        linked.link.poll()
        linked.link.report()
        ends.append(linked.driver.lease_end)
    assert ends == [110.0 + LEASE_S, 120.0 + LEASE_S, 130.0 + LEASE_S]


def test_a_directive_that_is_replaced_during_the_write_of_the_status_is_not_started(linked):
    """The lease ends before the start, so the driver writes its status first; the write is slow."""
    write, run = linked.driver.report, linked.driver.newest_directive

    def write_slowly(status: DriverStatus) -> bool:
        linked.driver.newest_directive = directive(Action.HOLD, 2)
        return write(status)

    linked.link.set_guarded(False)
    linked.driver.time += LEASE_S
    linked.driver.report = write_slowly
    assert not linked.link.may_start(run)
    assert linked.link.holds_query_lease()
