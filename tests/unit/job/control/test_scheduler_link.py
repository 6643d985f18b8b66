from __future__ import annotations

import threading
import traceback
from pathlib import PurePath

import pytest

from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.scheduler_link import SchedulerLink
from airflow_adaptive.job.protocol.documents import Action, DriverState, DriverStatus
from tests.support.driver_fakes import EPOCH, LEASE_S, NONCE, World, directive, plan

PATIENCE_S = 10.0


class Contacted:
    """A driver's contact, with the log and the reporter of a `World`; whenever it looks around a second has passed.

    `enough` is set when two leases have.
    """

    def __init__(self) -> None:
        self.world = World(newest_directive=directive(Action.RUN, 1, plan(1)))
        self.enough = threading.Event()
        self.querying = False
        self.contact = SchedulerLink(
            log=self.world,
            fence=Fence(epoch=EPOCH, nonce=NONCE, lease_timeout_s=LEASE_S, clock=self.world.clock),
            reporter=self.world,
            describe=lambda: DriverStatus(
                job="j", epoch=EPOCH, nonce=NONCE, sequence=0, at="", state=DriverState.RUNNING
            ),
            querying=lambda: self.querying,
            poll_interval_s=0.001,
            clock=self.world.clock,
            sleep=self.pass_time,
            complain=self.world.complaints.append,
        )

    def pass_time(self, seconds: float) -> None:
        self.world.time += max(seconds, 1.0)
        if self.world.time > 100.0 + 2 * LEASE_S:
            self.enough.set()


@pytest.fixture
def contacted() -> Contacted:
    found = Contacted()
    assert found.contact.look() is not None
    found.contact.report()
    found.querying = True
    return found


def test_gives_what_the_act_gives(contacted):
    assert contacted.contact.keep_during(lambda: threading.current_thread() is not threading.main_thread())


def test_an_error_of_the_act_names_no_line_but_those_that_led_to_it(contacted):
    def act() -> None:
        raise LookupError("carrier")

    with pytest.raises(LookupError, match="carrier") as raised:
        contacted.contact.keep_during(act)
    files = {PurePath(frame.filename).name for frame in traceback.extract_tb(raised.value.__traceback__)}
    assert files == {"scheduler_link.py", "test_scheduler_link.py"}


def test_looks_and_reports_for_longer_than_the_lease_while_the_act_takes_its_time(contacted):
    assert contacted.contact.keep_during(lambda: contacted.enough.wait(PATIENCE_S))
    assert len(contacted.world.statuses) > LEASE_S


def test_does_not_wait_for_the_act_when_another_driver_is_named(contacted):
    over = threading.Event()
    contacted.world.newest_directive = directive(Action.RUN, 2, plan(1), epoch=EPOCH + 1)
    with pytest.raises(FencedError):
        contacted.contact.keep_during(lambda: over.wait(PATIENCE_S))
    over.set()
