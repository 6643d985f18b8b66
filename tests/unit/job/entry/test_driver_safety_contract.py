"""The safety contract: the limits that keep two drivers apart, together.

The real control loop, journal, job directory and client of the cluster run against the real drivers, with their fences, watchdogs and the settings of their
submissions. A successor starts as early as the scheduler allows, and an old driver ends as late as its lease and its watchdog allow. `JobFleet` raises
`TwoDriversError` as soon as two drivers run queries, or a driver runs a query after its lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import DriverState
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._engine.observation.driver_events import LEASE_MARGIN
from airflow_adaptive.job.control.fence import WATCHDOG_GRACE_S
from airflow_adaptive.job.control.watchdog_process import CHECK_INTERVAL_S
from tests.lab.fleet.cluster.driver import DriverTimes, SimulatedDriver
from tests.lab.fleet.jobs import JOB, ROOT, OneJobFleet
from tests.support.examples import long_except

LEASE_S = 20.0

LONG_S = 120.0
"""Time in which every driver of these tests starts or ends."""

MOMENTS_S = [0.0, 0.3, 0.7, 1.1, 1.9, 3.0, 7.0, 11.0]
"""Times of a fault after the start of the query, at different distances to the newest status and to the newest read of the journal."""


class SafetyFleet(OneJobFleet):
    """One job with three workers that have room for one driver and its executor each. A successor starts as early as the product allows."""

    def __init__(self, *, call_s: float = 0.0, boot_s: float = 0.1, starts: bool = True, **options: Any) -> None:
        times = DriverTimes(boot_s=(boot_s, boot_s), registration_s=(0.1, 0.1), exit_s=(1.0, 1.0))
        defaults = {
            "resource_wait_timeout": -1,
            "resource_stabilization_timeout": 0,
            "poll_interval": "0.2 s",
            "deploy_timeout": "10 min",
            "stop_timeout": "10 s",
            "driver_heartbeat_timeout": f"{LEASE_S} s",
            "driver_lease_timeout": f"{LEASE_S} s",
            "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": 0},
        }
        super().__init__(parallelism=(1, 1), times=times, starts=starts, **{**defaults, **options})
        self.cluster.kill_s = (0.5, 0.5)
        self.storage.faults.slow(call_s)
        self.add_workers(2, 2, 2)

    def run_until_query(self, number: int = 1) -> None:
        """Run until the nth driver runs its query, and the scheduler knows this."""
        self.run_until(
            lambda: len(self.drivers.started) >= number and self.driver.runs_query and self.state == "Executing", 400
        )

    def kill_loop(self) -> None:
        self.triggerers[-1].kill()


def freeze_python(fleet: SafetyFleet) -> None:
    """The JVM continues to run the query, and nothing stops the query but the watchdog process."""
    fleet.lose_worker_of_driver()
    fleet.driver.processes.freeze_python()


def disconnect(fleet: SafetyFleet) -> Callable[[], object]:
    """The host of the driver reaches neither the master nor the storage."""
    fleet.lose_worker_of_driver()
    return fleet.storage.faults.disconnect("*", fleet.driver.hosts)


def hang_in_spark(fleet: SafetyFleet) -> None:
    """The driver fences itself, but the call that stops its query never returns."""
    disconnect(fleet)
    fleet.model.stops_hang = True


def suspend_host(fleet: SafetyFleet) -> None:
    """The host of the driver is suspended until just before the end of the lease. The timeouts of its processes do not count that time."""
    fleet.lose_worker_of_driver()
    fleet.driver.processes.freeze_python()
    fleet.kernel.at(fleet.driver.read_began_at + LEASE_S - 1, fleet.driver.processes.suspend())


def freeze_python_of_killed_driver(fleet: SafetyFleet) -> None:
    """The master reaches the worker, which needs long to kill the driver."""
    fleet.cluster.kill_s = (LEASE_S / 2, LEASE_S / 2)
    fleet.driver.processes.freeze_python()


Fault = Callable[[SafetyFleet], object]
FAULTS: list[Fault] = [freeze_python, disconnect, hang_in_spark, suspend_host, freeze_python_of_killed_driver]


def test_driver_ends_before_the_scheduler_may_start_its_successor() -> None:
    margin_s = LEASE_MARGIN.total_seconds()
    for lease_s in (1.0, 60.0, 3600.0):
        assert lease_s + WATCHDOG_GRACE_S + CHECK_INTERVAL_S < lease_s + margin_s


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("moment_s", long_except(MOMENTS_S, 1.1))
def test_successor_starts_when_the_old_driver_runs_no_query_any_more(fault: Fault, moment_s: float) -> None:
    fleet = SafetyFleet(driver_heartbeat_timeout="3 s")
    fleet.run_until_query()
    fleet.run(moment_s)
    fault(fleet)
    fleet.run_until_query(2)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("moment_s", long_except(MOMENTS_S, 1.1))
def test_successor_starts_late_enough_on_a_slow_storage(fault: Fault, moment_s: float) -> None:
    """Each read and write of the job directory takes three seconds, so reads of the journal take more than the margin has to spare."""
    fleet = SafetyFleet(call_s=3.0, driver_lease_timeout="40 s", driver_heartbeat_timeout="40 s")
    fleet.run_until_query()
    fleet.run(moment_s)
    fault(fleet)
    fleet.run_until_query(2)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("gap_s", long_except([1.0, 15.0, 25.0, 29.0, 60.0], 29.0))
def test_loop_that_takes_over_during_the_lease_waits_for_its_end(fault: Fault, gap_s: float) -> None:
    fleet = SafetyFleet()
    fleet.run_until_query()
    fleet.kill_loop()
    fault(fleet)
    fleet.run(gap_s)
    fleet.job.start_loop()
    fleet.run_until_query(2)


@pytest.mark.parametrize("call_s", [0.02, 1.0])
@pytest.mark.parametrize("gap_s", long_except([25.0, 60.0, 600.0], 60.0))
def test_loop_that_takes_over_after_a_long_time_keeps_the_driver(gap_s: float, call_s: float) -> None:
    """The newest heartbeat in the journal is older than every timeout, but the driver has written its status all the time."""
    fleet = SafetyFleet(call_s=call_s)
    fleet.run_until_query()
    fleet.kill_loop()
    fleet.run(gap_s)
    fleet.job.start_loop()
    fleet.run(LONG_S)
    assert len(fleet.drivers.started) == 1
    assert fleet.driver.runs_query


def test_loop_that_takes_over_from_a_lost_driver_waits_for_a_lease() -> None:
    """The driver has renewed its lease until the new loop starts; the lease does not end when the loop finds the old heartbeat."""
    fleet = SafetyFleet()
    fleet.run_until_query()
    fleet.kill_loop()
    fleet.run(100)
    fleet.job.start_loop()
    freeze_python(fleet)
    fleet.run_until_query(2)


def test_loop_that_takes_over_after_an_outage_lets_the_driver_write_its_status_first() -> None:
    """The driver cannot reach the storage for longer than the heartbeat timeout, but for less than its lease.

    The journal contains its newest heartbeat, because a loop that ended soon has claimed the journal during the outage.
    """
    fleet = SafetyFleet(driver_heartbeat_timeout="3 s")
    fleet.run_until_query()
    fleet.kill_loop()
    end = fleet.storage.faults.disconnect("*", fleet.driver.hosts)
    fleet.job.start_loop()
    fleet.run(1)
    fleet.kill_loop()
    fleet.run(5)
    end()
    fleet.job.start_loop()
    fleet.run(LONG_S)
    assert len(fleet.drivers.started) == 1


def test_loop_that_takes_over_during_the_start_of_a_driver_waits_for_its_lease() -> None:
    """The journal does not contain a heartbeat of the new driver yet, and the master does not know the driver any more."""
    fleet = SafetyFleet(boot_s=60.0)
    fleet.run_until(lambda: fleet.drivers.started)
    fleet.kill_loop()
    fleet.lose_worker_of_driver()
    fleet.job.start_loop()
    fleet.run(LEASE_S)
    assert len(fleet.drivers.started) == 1


def test_status_of_a_driver_of_a_former_journal_is_not_the_new_one() -> None:
    """The journal is deleted, and the new one begins with the same epoch. The status of the old driver stays."""
    fleet = SafetyFleet(boot_s=5.0)
    fleet.run_until_query()
    fleet.kill_loop()
    fleet.driver.processes.kill()
    for path in fleet.storage.files.paths(f"{ROOT}/{JOB}/journal"):
        fleet.storage.files.remove(path)
    former = fleet.job.loop
    fleet.job.start_loop()
    fleet.run_until(lambda: fleet.job.loop is not former and fleet.state == "Executing")
    assert fleet.job.loop is not None
    assert fleet.job.loop.state.epoch == 1
    assert [driver.runs_query for driver in fleet.drivers.started] == [False, True]


def test_driver_without_a_control_loop_stops_after_the_orphan_timeout() -> None:
    fleet = SafetyFleet(orphan_timeout="60 s", trigger_lifetime="20 s")
    fleet.run_until_query()
    fleet.kill_loop()
    fleet.run(55)
    assert fleet.driver.runs_query
    fleet.run(LONG_S)
    assert fleet.driver.end is DriverState.STOPPED


def test_driver_interrupts_a_batch_that_does_not_end_before_the_scheduler_kills_the_driver() -> None:
    fleet = SafetyFleet(stop_timeout="20 s")
    fleet.run_until_query()
    fleet.model.stall_queries()
    fleet.job.request(DesiredState.SUSPENDED)
    fleet.run_until(lambda: fleet.state == "Finished")
    assert fleet.driver.end is DriverState.STOPPED
    assert not fleet.has("kill of triggerer")


# ---- a standby ------------------------------------------------------------------------------------------------------


class StandbyFleet(SafetyFleet):
    """The job has a standby, which is prepared when a test begins. The driver is the one that runs queries."""

    def __init__(self, standby: str, **options: Any) -> None:
        super().__init__(standby=standby, driver_heartbeat_timeout="3 s", **options)
        self.run_until(lambda: bool(self.drivers.with_queries(JOB)) and self.is_prepared, 400)

    @property
    def driver(self) -> SimulatedDriver:
        return next(iter(self.drivers.with_queries(JOB)), self.drivers.started[-1])

    @property
    def is_prepared(self) -> bool:
        loop = self.job.loop
        return loop is not None and loop.state.replacement is not None and self.state == "Executing"

    def run_until_takeover(self) -> None:
        """Run until the standby has become the driver, and another standby is prepared."""
        self.run_until(lambda: self.driver.settings.epoch > 1 and self.driver.runs_query and self.is_prepared, 400)


@pytest.mark.parametrize("standby", ["driver+executors"])
@pytest.mark.parametrize("fault", long_except(FAULTS, freeze_python, disconnect))
@pytest.mark.parametrize("moment_s", long_except(MOMENTS_S[::4], 1.9))
def test_standby_takes_over_when_the_old_driver_runs_no_query_any_more(
    fault: Fault, moment_s: float, standby: str
) -> None:
    fleet = StandbyFleet(standby)
    fleet.run(moment_s)
    fault(fleet)
    fleet.run_until_takeover()
    fleet.run(LONG_S)


@pytest.mark.parametrize("standby", long_except(["driver", "driver+executors"], "driver+executors"))
@pytest.mark.parametrize("moment_s", long_except(MOMENTS_S[::2], 0.7))
def test_standby_takes_over_from_a_killed_driver(moment_s: float, standby: str) -> None:
    fleet = StandbyFleet(standby)
    fleet.run(moment_s)
    submitted = len(fleet.drivers.started)
    fleet.driver.processes.kill()
    fleet.run_until(lambda: fleet.driver.runs_query and fleet.state == "Executing", 60)
    assert len(fleet.drivers.started) == submitted
    fleet.run(LONG_S)


@pytest.mark.parametrize("moment_s", long_except(MOMENTS_S[::3], 7.0))
def test_killed_loop_leaves_the_standby_to_the_next_loop(moment_s: float) -> None:
    fleet = StandbyFleet("driver")
    fleet.run(moment_s)
    fleet.kill_loop()
    fleet.driver.processes.kill()
    fleet.run(moment_s)
    started = len(fleet.drivers.started)
    fleet.job.start_loop()
    fleet.run_until(lambda: fleet.driver.runs_query and fleet.state == "Executing", 60)
    assert len(fleet.drivers.started) == started
