from __future__ import annotations

import pytest

from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.protocol.documents import Action
from tests.support.driver.simulated_driver import EPOCH, NONCE, directive


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


def make_fence() -> tuple[Fence, Clock]:
    clock = Clock()
    return Fence(epoch=EPOCH, nonce=NONCE, lease_timeout_s=60.0, clock=clock), clock


@pytest.mark.parametrize(("epoch", "nonce"), [(EPOCH + 1, NONCE), (EPOCH - 1, NONCE), (EPOCH, "another"), (EPOCH, "")])
def test_admit_refuses_when_epoch_or_nonce_is_another(epoch, nonce):
    fence, clock = make_fence()
    with pytest.raises(FencedError, match=f"epoch {epoch}, nonce '{nonce}'"):
        fence.admit(directive(Action.RUN, 1, epoch=epoch, nonce=nonce), clock())


def test_lease_holds_until_timeout_after_the_reading_began():
    fence, clock = make_fence()
    began = clock.time = 1050.0
    clock.time = 1055.0  # the reading took its time
    fence.admit(directive(Action.RUN, 1), began)
    clock.time = 1109.9
    fence.check(query_may_run=False)
    clock.time = 1110.0
    with pytest.raises(FencedError, match="60 s.* has named"):
        fence.check(query_may_run=False)


def test_query_may_run_only_when_the_driver_has_reported():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    assert fence.overdue_s() > 0
    fence.renew()
    assert fence.overdue_s() == -60.0


def test_query_may_run_until_timeout_after_the_reading_before_the_last_report():
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


def test_reading_the_log_does_not_bring_back_a_lease_that_ran_out():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.renew()
    clock.time = 9000.0  # it was frozen
    fence.admit(directive(Action.RUN, 1), clock())
    with pytest.raises(FencedError, match="60 s"):
        fence.check(query_may_run=True)


def test_lease_runs_out_when_the_log_never_named_the_driver():
    fence, clock = make_fence()
    clock.time += 60.0
    with pytest.raises(FencedError):
        fence.check(query_may_run=False)


def test_a_refused_directive_renews_nothing():
    fence, clock = make_fence()
    fence.admit(directive(Action.RUN, 1), clock())
    fence.renew()
    clock.time += 30.0
    with pytest.raises(FencedError):
        fence.admit(directive(Action.RUN, 1, epoch=EPOCH + 1), clock())
    fence.renew()
    assert fence.overdue_s() == -30.0
