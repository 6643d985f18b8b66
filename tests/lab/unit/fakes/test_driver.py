"""The fake drivers: fence, RESCALING, executors that register late, and ids of executors."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from airflow_adaptive.job.protocol.codec import decode_status
from airflow_adaptive.job.protocol.documents import (
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    FailureReport,
)
from airflow_adaptive.ports import SubmissionState
from airflow_adaptive.runtime.command_executor import submission
from airflow_adaptive.scheduler.commands import SubmitDriver
from tests.lab.contracts.job_directory import journal_document
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.driver import FakeDrivers
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.simulation.one_job import small_job

LEASE_S = 20.0


class OneDriver:
    """A driver of epoch 1, whose directive a test sets. Each tick takes a second."""

    def __init__(self, registers: int = 0) -> None:
        self.time = 0.0
        self.cluster, self.directory = FakeCluster(), FakeJobDirectory("flights")
        self.drivers = FakeDrivers(self.cluster, self.directory, lambda: self.time)
        self.drivers.registers = registers
        self.cluster.add_worker(cores=4, memory_mb=4096)
        spec = small_job("flights", (1, 4), {"driver_lease_timeout": f"{LEASE_S:g} s"})
        command = SubmitDriver(epoch=1, slots=1, cause="test")
        self.name = asyncio.run(self.cluster.submit(submission(command, spec, "n1")))

    def directs(self, version: int, executors: int = 1, *, epoch: int = 1, query_version: int = 1) -> None:
        plan = DriverPlan(
            parallelism={"job": executors}, executors=executors, state_partitions={}, query_version=query_version
        )
        directive = Directive(epoch=epoch, nonce="n1", version=version, action=Action.RUN, plan=plan)
        number = len(self.directory.journal) + 1
        asyncio.run(self.directory.create(replace(journal_document(number), directive=directive)))

    def tick(self, seconds: float = 1.0) -> DriverStatus:
        """The status after a time."""
        self.time += seconds
        self.drivers.tick(self.cluster.states)
        assert self.directory.reported is not None
        return decode_status(self.directory.reported)

    def states(self, ticks: int) -> list[tuple[DriverState, int]]:
        return [(status.state, status.version) for status in (self.tick() for _ in range(ticks))]


@pytest.fixture
def driver() -> OneDriver:
    started = OneDriver()
    started.directs(1)
    return started


def test_driver_builds_its_queries_before_they_run(driver: OneDriver) -> None:
    assert driver.states(3) == [(DriverState.STARTING, 0), (DriverState.RUNNING, 1), (DriverState.RUNNING, 1)]
    assert driver.drivers.started == [(1, 1, {"job": 1})]


def test_rescale_of_the_executors_waits_for_them_and_starts_no_query(driver: OneDriver) -> None:
    driver.states(2)
    driver.directs(2, executors=5)
    assert driver.states(2) == [(DriverState.RESCALING, 1)] * 2
    driver.cluster.add_worker(cores=4, memory_mb=4096)
    assert driver.states(1) == [(DriverState.RUNNING, 2)]
    assert len(driver.drivers.started) == 1


def test_rescale_of_the_queries_is_reported_while_they_are_built(driver: OneDriver) -> None:
    driver.states(2)
    driver.directs(2, executors=2, query_version=2)
    assert driver.states(2) == [(DriverState.RESCALING, 1), (DriverState.RUNNING, 2)]
    assert len(driver.drivers.started) == 2


def test_rejected_plan_leaves_the_queries_running(driver: OneDriver) -> None:
    driver.states(2)
    driver.drivers.build_failure = FailureReport(error_class="ValueError", message="no", causes=("ValueError",))
    driver.directs(2, query_version=2)
    assert driver.states(3) == [(DriverState.RESCALING, 1), (DriverState.RUNNING, 1), (DriverState.RUNNING, 1)]
    assert driver.tick().rejected_version == 2
    driver.drivers.build_failure = None
    assert driver.states(2) == [(DriverState.RUNNING, 1)] * 2


def test_executors_register_late() -> None:
    driver = OneDriver(registers=2)
    driver.directs(1, executors=2)
    statuses = [driver.tick() for _ in range(4)]
    assert [len(status.executors) for status in statuses] == [0, 0, 2, 2]
    assert [status.state for status in statuses] == [DriverState.STARTING] * 3 + [DriverState.RUNNING]
    assert asyncio.run(driver.cluster.snapshot()).granted == {"app-20130101000000-0000": 2}


def test_executor_that_replaces_a_lost_one_has_an_id_of_its_own(driver: OneDriver) -> None:
    other = driver.cluster.add_worker(cores=1)
    driver.directs(2, executors=4)
    assert sorted(it.executor_id for it in driver.tick().executors) == ["0", "1", "2", "3"]
    driver.cluster.kill_worker(other)
    driver.cluster.add_worker(cores=1)
    ids = sorted(it.executor_id for it in driver.tick().executors)
    assert len(ids) == 4
    assert "4" in ids


@pytest.mark.parametrize(("hang_s", "is_fenced"), [(LEASE_S - 1, False), (LEASE_S + 1, True)])
def test_driver_that_hangs_for_longer_than_its_lease_is_fenced(
    driver: OneDriver, hang_s: float, is_fenced: bool
) -> None:
    driver.states(2)
    driver.drivers.hang = True
    driver.tick(hang_s - 1)
    driver.drivers.hang = False
    assert (driver.tick().state is DriverState.FENCED) is is_fenced
    assert (driver.cluster.states[driver.name] is SubmissionState.FAILED) is is_fenced


def test_driver_of_another_epoch_is_fenced(driver: OneDriver) -> None:
    driver.states(2)
    driver.directs(2, epoch=2)
    assert driver.states(1) == [(DriverState.FENCED, 1)]
