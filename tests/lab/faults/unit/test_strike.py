"""A fault counts only if the job was still at the moment when the fault had struck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.lab.faults.harness.disk import BusyError
from tests.lab.faults.matrix.faults import Fault
from tests.lab.faults.matrix.matrix_job import MatrixJob
from tests.lab.faults.matrix.moments import Moment
from tests.lab.faults.matrix.strike import TRIES, MissedError, strike


class FakeJob:
    """A job that is at the moment after it was led there, until something ends the moment."""

    def __init__(self, over_by_strike: int = 0, over_before: int = 0, busy: int = 0) -> None:
        self.over_by_strike, self.over_before, self.busy = over_by_strike, over_before, busy
        self.there = False
        self.history: list[str] = []

    def drivers_left(self) -> list[Any]:
        return []

    def catch(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return condition()

    def fault(self) -> None:
        self.history.append("input")

    def recover(self) -> None:
        self.there = False
        self.history.append("recovered")

    def story(self) -> str:
        return ""


def lead(job: MatrixJob) -> None:
    fake = cast(FakeJob, job)
    fake.there = fake.over_before == 0
    fake.over_before = max(0, fake.over_before - 1)


@contextmanager
def struck(job: MatrixJob) -> Iterator[None]:
    fake = cast(FakeJob, job)
    if fake.busy:
        fake.busy -= 1
        raise BusyError
    fake.history.append("struck")
    if fake.over_by_strike:
        fake.over_by_strike -= 1
        fake.there = False
    yield
    fake.history.append("ended")


FAULT = Fault(name="fault", strikes=struck, words="")
MOMENT = Moment(name="moment", lead=lead, seen=lambda job: cast(FakeJob, job).there)


def struck_at(job: FakeJob) -> list[str]:
    """What happens to a job."""
    strike(cast(MatrixJob, job), FAULT, MOMENT)
    return job.history


ONCE = ["input", "struck", "ended", "recovered"]


def test_fault_strikes_once_at_its_moment() -> None:
    assert struck_at(FakeJob()) == ONCE


def test_moment_that_was_over_when_the_fault_had_struck_is_led_to_again() -> None:
    assert struck_at(FakeJob(over_by_strike=2)) == 3 * ONCE


def test_moment_that_did_not_occur_is_led_to_again() -> None:
    assert struck_at(FakeJob(over_before=1)) == ["input", "recovered", *ONCE]


def test_disk_that_was_busy_is_broken_again() -> None:
    assert struck_at(FakeJob(busy=1)) == ["input", "recovered", *ONCE]


def test_cell_fails_if_its_moment_is_always_missed() -> None:
    job = FakeJob(over_by_strike=TRIES)
    with pytest.raises(MissedError, match="fault at moment: missed"):
        struck_at(job)
    assert job.history == TRIES * ONCE
