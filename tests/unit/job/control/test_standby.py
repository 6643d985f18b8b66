"""A standby runs no query before the journal names it, tells whether it is prepared, and ends when the journal names it no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import (
    Action,
    Directive,
    DriverState,
    DriverStatus,
    FailureReport,
    StandbyDirective,
)
from airflow_adaptive.job.control.fence import FencedError
from airflow_adaptive.job.control.interfaces import DirectoryError
from airflow_adaptive.job.control.standby import EXECUTOR_TIMEOUT_S, StandbyLoop
from airflow_adaptive.job.entry.driver import OperationThread
from tests.support.driver.simulated_driver import EPOCH, LEASE_S, NONCE, SimulatedDriver, plan

RUNNING = Directive(
    epoch=EPOCH - 1,
    nonce=NONCE,
    version=1,
    action=Action.RUN,
    plan=plan(1),
    standby=StandbyDirective(epoch=EPOCH, plan=plan(1), holds_executors=True),
)
"""The journal while another driver runs, and this one is the standby."""

TAKEOVER = replace(RUNNING, epoch=EPOCH, standby=None)


def completed(act: Callable[[], Any]) -> OperationThread[Any]:
    """An operation that has ended."""
    operation = OperationThread(act)
    assert operation.wait(60)
    return operation


class Waiting(SimulatedDriver):
    """A driver that waits, with what happens while it sleeps."""

    def wait(self, *directives: Directive | Exception | None, executors: int = 0) -> DriverState | None:
        """Wait while the journal changes; the last directive stays."""
        self.newest_directive, *later = directives
        self.steps = [partial(setattr, self, "newest_directive", it) for it in later]
        settings = DriverSettings(
            job="j", directory="", epoch=EPOCH, nonce=NONCE, lease_timeout_s=LEASE_S, standby_executors=executors
        )
        identity = DriverStatus(job="j", epoch=EPOCH, nonce=NONCE, sequence=0, at="", state=DriverState.STARTING)
        interfaces = replace(self.interfaces(), start_operation=completed)
        return StandbyLoop(identity, interfaces, settings, self).wait()

    @property
    def states(self) -> list[DriverState]:
        """The states that the standby has reported."""
        return [status.state for status in self.statuses]


def test_driver_that_the_journal_names_begins_at_once() -> None:
    driver = Waiting()
    assert driver.wait(TAKEOVER) is None
    assert (driver.statuses, driver.history) == ([], [])


def test_standby_prepares_once_and_waits_until_the_journal_names_it() -> None:
    driver = Waiting(executor_count=1)
    assert driver.wait(RUNNING, RUNNING, None, RUNNING, RUNNING, TAKEOVER, executors=1) is None
    assert driver.history.count("warm up") == 1
    assert driver.states[-1] is DriverState.PREPARED
    assert [it.name for it in driver.statuses[-1].prepared] == ["q"]
    assert "start" not in driver.history


@pytest.mark.parametrize(("holds", "declared"), [(True, 2), (False, 0)])
def test_standby_keeps_executors_only_if_it_shall(holds: bool, declared: int) -> None:
    driver, directive = Waiting(executor_count=2), replace(RUNNING.standby, holds_executors=holds)  # type: ignore[type-var]
    driver.wait(*[replace(RUNNING, standby=directive)] * 4, TAKEOVER, executors=2)
    assert driver.declared == declared


def test_standby_prepares_without_executors_if_none_come() -> None:
    driver = Waiting()
    beats = int(EXECUTOR_TIMEOUT_S / 0.1)
    driver.wait(*[RUNNING] * beats, TAKEOVER, executors=1)
    assert "warm up without executors" in driver.history


def test_standby_waits_for_a_plan() -> None:
    driver = Waiting()
    waits = replace(RUNNING, standby=replace(RUNNING.standby, plan=None))  # type: ignore[type-var]
    assert driver.wait(waits, waits, TAKEOVER) is None
    assert driver.history == ["STARTING 0"]


@pytest.mark.parametrize(
    "directive",
    [
        replace(RUNNING, standby=None),
        replace(RUNNING, nonce="another job"),
        replace(RUNNING, epoch=EPOCH + 2, standby=replace(RUNNING.standby, epoch=EPOCH + 3)),  # type: ignore[type-var]
        None,
        DirectoryError("not readable"),
        FencedError("a newer version wrote the journal"),
    ],
)
def test_standby_that_is_not_to_take_over_any_more_ends(directive: Directive | Exception | None) -> None:
    driver = Waiting()
    assert driver.wait(RUNNING, directive) is DriverState.FENCED


def test_standby_that_cannot_be_prepared_reports_why() -> None:
    driver = Waiting(build_error=ValueError("no such column"))
    assert driver.wait(RUNNING) is DriverState.FAILED
    failure = driver.statuses[-1].failure
    assert failure is not None
    assert (failure.error_class, driver.states[-1]) == ("ValueError", DriverState.FAILED)


def test_standby_whose_context_or_script_has_ended_is_not_prepared() -> None:
    for driver in (Waiting(context_alive=False), Waiting(query_failure=FailureReport(error_class="E", message="m"))):
        assert driver.wait(RUNNING) is DriverState.FAILED
        assert driver.statuses[-1].failure is not None


def test_exit_of_the_build_function_is_a_failure_of_the_preparation() -> None:
    driver = Waiting(build_error=SystemExit(3))  # type: ignore[arg-type]
    assert driver.wait(RUNNING) is DriverState.FAILED
