"""A driver runs queries only while its lease of the journal is valid, and never again once it is fenced."""

from __future__ import annotations

import time

import pytest

from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive.job.control.fence import Fence, FencedError, boot_time
from tests.support.driver.simulated_driver import EPOCH, NONCE, directive


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


def make_fence() -> tuple[Fence, Clock]:
    clock = Clock()
    return Fence(epoch=EPOCH, nonce=NONCE, lease_timeout_s=60.0, clock=clock), clock


@pytest.mark.parametrize(("epoch", "nonce"), [(EPOCH + 1, NONCE), (EPOCH - 1, NONCE), (EPOCH, "another"), (EPOCH, "")])
def test_admit_rejects_another_epoch_or_nonce(epoch, nonce):
    fence, clock = make_fence()
    with pytest.raises(FencedError, match=f"epoch {epoch}, nonce '{nonce}'"):
        fence.admit(directive(Action.RUN, 1, epoch=epoch, nonce=nonce), clock())


def test_lease_is_valid_until_the_timeout_after_the_read_began():
    fence, clock = make_fence()
    began = clock.time = 1050.0
    clock.time = 1055.0  # the reading took its time
    fence.admit(directive(Action.RUN, 1), began)
    clock.time = 1109.9
    fence.check(query_may_run=False)
    clock.time = 1110.0
    with pytest.raises(FencedError, match="60 s.* has named"):
        fence.check(query_may_run=False)


def test_query_may_run_only_after_a_driver_status():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    assert fence.overdue_s() > 0
    fence.renew()
    assert fence.overdue_s() == -60.0


def test_query_may_run_until_the_timeout_after_the_read_before_the_last_status():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    clock.time = 1030.0
    fence.renew()
    fence.admit(directive(Action.RUN, 1), clock())
    clock.time = 1059.9
    fence.check(query_may_run=True)
    clock.time = 1060.0
    fence.check(query_may_run=False)
    with pytest.raises(FencedError, match="60 s.* not written its status"):
        fence.check(query_may_run=True)


def test_a_read_of_the_journal_does_not_renew_an_expired_lease():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.renew()
    clock.time = 9000.0  # it was frozen
    fence.admit(directive(Action.RUN, 1), clock())
    with pytest.raises(FencedError, match="60 s"):
        fence.check(query_may_run=True)


def test_a_rejected_directive_does_not_renew_the_lease():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.renew()
    clock.time += 30.0
    with pytest.raises(FencedError):
        fence.admit(directive(Action.RUN, 1, epoch=EPOCH + 1), clock())
    fence.renew()
    assert fence.overdue_s() == -30.0


def test_a_fenced_driver_has_no_lease_from_now_on():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.renew()
    fence.revoke()
    assert fence.overdue_s() == 0.0
    clock.time += 5.0
    assert fence.overdue_s() == 5.0


def test_the_last_status_of_a_stopping_driver_does_not_renew_its_lease():
    """The driver loop fails while an operation runs, and the driver then writes the failure into its status."""
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.revoke()
    fence.renew()
    assert fence.overdue_s() == 0.0


def test_a_lease_that_has_expired_does_not_begin_again_when_the_driver_is_fenced():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.renew()
    clock.time += 160.0
    fence.revoke()
    assert fence.overdue_s() == 100.0


def test_clock_of_the_lease_continues_while_the_host_is_suspended(monkeypatch: pytest.MonkeyPatch):
    """The host is suspended for an hour: `CLOCK_BOOTTIME` continues, and `CLOCK_MONOTONIC` stops."""
    clocks = {7: 1000.0, time.CLOCK_MONOTONIC: 50.0}
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    before = boot_time()
    clocks[7] += 3600.0
    assert boot_time() - before == 3600.0


def test_platform_without_a_boot_clock_has_a_monotonic_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_MONOTONIC: 50.0}.__getitem__)
    assert boot_time() == 50.0
