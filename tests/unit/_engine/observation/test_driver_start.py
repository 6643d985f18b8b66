"""A driver that waits: users read why, and a driver that cannot start does not wait for `deploy_timeout`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import ClusterUnreachableError, SubmissionState, SubmissionStatus
from airflow_adaptive._core.scheduler.events import DriverEnded
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._engine.observation.driver_start import MAX_GRACE, DriverStart
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.manual_clock import START, ManualClock
from tests.lab.simulation.one_job import MEMORY_MB, Simulation
from tests.support.runtime.loop_simulation import QUICK

LEASE = 4 * MAX_GRACE

NO_IMAGE = "the image 'spark:9' cannot be pulled: ErrImagePull: not found: correct `image`"


def texts(*observed: tuple[str, SubmissionStatus | None]) -> list[str | None]:
    start = DriverStart(FakeCluster(), ManualClock(), LEASE)
    reasons = [asyncio.run(start.observe(driver, submission)) for driver, submission in observed]
    return [None if reason is None else reason.text for reason in reasons]


def waiting(message: str) -> SubmissionStatus:
    return SubmissionStatus(state=SubmissionState.SUBMITTED, message=message)


def test_driver_that_runs_or_waits_as_usual_reports_nothing() -> None:
    running = SubmissionStatus(state=SubmissionState.RUNNING)
    assert texts(("driver-1", running), ("driver-1", waiting("")), ("driver-1", None)) == [None, None, None]


def test_reasons_that_alternate_are_reported_once_for_each_driver() -> None:
    pull, pause = waiting("ErrImagePull"), waiting("ImagePullBackOff")
    first = ["the driver waits: ErrImagePull", "the driver waits: ImagePullBackOff", None, None]
    observed = [("driver-1", pull), ("driver-1", pause), ("driver-1", pull), ("driver-1", pause)]
    assert texts(*observed, ("driver-2", pull)) == [*first, "the driver waits: ErrImagePull"]


def test_reason_of_an_executor_that_cannot_start_is_reported_once() -> None:
    running = SubmissionStatus(state=SubmissionState.RUNNING, message="executor 1 cannot start")
    assert texts(("driver-1", running), ("driver-1", running)) == ["executor 1 cannot start", None]


def kills(*observed: SubmissionStatus, interval: timedelta, lease: timedelta = LEASE) -> list[int]:
    """Return after which of the observed states the driver is killed."""

    async def observe() -> list[int]:
        for number, submission in enumerate(observed):
            await start.observe("driver-1", submission)
            killed.extend([number] * (len(cluster.killed) - len(killed)))
            await clock.sleep(interval.total_seconds())
        return killed

    cluster, clock, killed = KilledDrivers(), ManualClock(), list[int]()
    start = DriverStart(cluster, clock, lease)
    return asyncio.run(observe())


class KilledDrivers(FakeCluster):
    """A cluster that records the drivers that are killed."""

    def __init__(self) -> None:
        super().__init__()
        self.killed: list[str] = []

    async def kill(self, submission_id: str) -> None:
        self.killed.append(submission_id)


STUCK = SubmissionStatus(state=SubmissionState.SUBMITTED, message=NO_IMAGE, can_start=False)


@pytest.mark.parametrize("state", [SubmissionState.SUBMITTED, SubmissionState.RUNNING])
def test_driver_that_cannot_start_or_get_an_executor_is_killed_after_a_grace_period(state: SubmissionState) -> None:
    stuck = replace(STUCK, state=state)
    assert kills(stuck, stuck, stuck, stuck, interval=MAX_GRACE / 2) == [2]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (SubmissionState.SUBMITTED, "ImagePullBackOff"),
        (SubmissionState.RUNNING, "ImagePullBackOff"),
        (SubmissionState.RUNNING, ""),
    ],
)
def test_states_of_a_failed_pull_alternate(state: SubmissionState, message: str) -> None:
    """Before version 1.32, ImagePullBackOff does not contain the cause."""
    stuck, back_off = replace(STUCK, state=state), SubmissionStatus(state=state, message=message)
    assert kills(stuck, back_off, stuck, back_off, interval=MAX_GRACE / 2) == [2]


def test_cause_that_has_ended_does_not_shorten_the_grace_period_of_the_next_one() -> None:
    """A volume arrives, the image is pulled, and then the kubelet misses a Secret for a moment."""
    pulled = SubmissionStatus(state=SubmissionState.SUBMITTED)
    assert kills(STUCK, pulled, pulled, STUCK, interval=MAX_GRACE / 2) == []


def test_driver_that_cannot_start_is_killed_before_its_lease_ends() -> None:
    assert kills(STUCK, STUCK, STUCK, interval=MAX_GRACE / 4, lease=MAX_GRACE) == [2]


def test_object_that_is_created_within_the_grace_period_lets_the_driver_start() -> None:
    running = SubmissionStatus(state=SubmissionState.RUNNING)
    stuck_again = replace(STUCK, state=SubmissionState.RUNNING)
    assert kills(STUCK, running, stuck_again, interval=MAX_GRACE / 2) == []


def test_secrets_of_a_reason_are_masked() -> None:
    assert "hush" not in str(texts(("driver-1", waiting("GET https://registry/v2?password=hush"))))


# ---- in the loop ----------------------------------------------------------------------------------------------------


@pytest.fixture
def simulation() -> Simulation:
    return create_simulation()


def create_simulation(**options: Any) -> Simulation:
    strategy = {"type": "fixed-delay", "attempts": 1, "delay": "1 s"}
    simulation = Simulation(**QUICK, deploy_timeout="1 h", restart_strategy=strategy, **options)
    simulation.cluster.add_worker(cores=8, memory_mb=16 * MEMORY_MB)
    simulation.cluster.start_error = NO_IMAGE
    return simulation


def test_driver_that_cannot_start_fails_the_job_before_deploy_timeout_without_a_restart(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        end = simulation.run_to_end()
    assert end.outcome is Outcome.FAILED
    assert end.cause is not None
    assert end.cause.summary == f"{FailureCode.DRIVER_NOT_STARTED}: {NO_IMAGE}"
    assert simulation.elapsed_s() < 600
    assert set(simulation.cluster.states.values()) == {SubmissionState.KILLED}
    assert caplog.messages.count(f"the driver waits: {NO_IMAGE}") == len(simulation.cluster.submissions) == 1


def test_job_restarts_if_its_options_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = create_simulation(recoverable_failures=[FailureCode.DRIVER_NOT_STARTED])
    kill = simulation.cluster.kill

    async def correct_and_kill(driver: str) -> None:
        simulation.cluster.start_error = ""
        await kill(driver)

    monkeypatch.setattr(simulation.cluster, "kill", correct_and_kill)
    simulation.clock.at(300, simulation.drivers.finish)
    assert simulation.run_to_end().outcome is Outcome.FINISHED
    assert len(simulation.cluster.submissions) == 2


def test_kill_that_fails_is_repeated(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = simulation.cluster.kill
    requests: list[str] = []

    async def fail_once(driver: str) -> None:
        requests.append(driver)
        if len(requests) == 1:
            raise ClusterUnreachableError("no response")
        await kill(driver)

    monkeypatch.setattr(simulation.cluster, "kill", fail_once)
    end = simulation.run_to_end()
    assert end.cause is not None
    assert end.cause.error_class == FailureCode.DRIVER_NOT_STARTED
    assert requests[0] == requests[1]


def test_reason_is_published_while_the_driver_waits(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    kill, published = simulation.cluster.kill, list[Any]()

    async def fail_for_a_minute(driver: str) -> None:
        if simulation.elapsed_s() < 60:
            published[:] = simulation.store.views
            raise ClusterUnreachableError("no response")
        await kill(driver)

    monkeypatch.setattr(simulation.cluster, "kill", fail_for_a_minute)
    simulation.run_to_end()
    assert f"the driver waits: {NO_IMAGE}" in [each.reason for each in published[-1].history.decisions]


@pytest.mark.parametrize("is_refused", [True, False])
def test_end_of_a_driver_whose_requests_were_refused_has_the_cause(is_refused: bool) -> None:
    start = DriverStart(FakeCluster(), ManualClock(), LEASE)
    ended = SubmissionStatus(state=SubmissionState.FAILED, message="no rights: bind", can_start=not is_refused)
    assert asyncio.run(start.observe("driver-1", ended)) is None
    event = DriverEnded(at=START, epoch=1, failure=Failure(error_class="DRIVER_LOST", message="exit code 1"))
    explained = start.explain(event, "driver-1")
    assert isinstance(explained, DriverEnded)
    expected = Failure(error_class=FailureCode.DRIVER_REFUSED, message="no rights: bind", causes=("DRIVER_LOST",))
    assert explained.failure == (expected if is_refused else event.failure)
    assert start.explain(event, "driver-2") == event
