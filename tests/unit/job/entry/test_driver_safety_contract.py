"""The safety contract: the limits that keep two drivers apart, together.

The real control loop, journal and job directory run against the real drivers, with their fences, watchdogs and the settings of their
submissions. A successor starts as early as the scheduler allows, and an old driver ends as late as its lease and its watchdog allow.
`SafetySimulation.check` fails as soon as two drivers run queries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from airflow_adaptive._core.protocol.documents import DriverState
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._engine.observation.driver_events import LEASE_MARGIN
from airflow_adaptive.job.control.watchdog import WATCHDOG_GRACE_S
from airflow_adaptive.job.control.watchdog_process import CHECK_INTERVAL_S
from airflow_adaptive.job.entry.driver import OUTPUT_TIMEOUT_S
from tests.support.safety.leased_driver import EXIT_S
from tests.support.safety.simulation import SafetySimulation

Fault = Callable[[SafetySimulation], object]

LONG_S = 300.0
"""Time in which every driver of a simulation starts or ends."""

MOMENTS_S = [0.0, 0.3, 0.7, 1.1, 1.9, 3.0, 7.0, 11.0]
"""Times of a fault after the start of the query, at different distances to the newest status and to the newest read of the journal."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Many drivers would log."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def freeze_python(simulation: SafetySimulation) -> None:
    """The JVM continues to run the query, and nothing stops the query but the watchdog process."""
    simulation.lose_worker()
    simulation.driver.freeze_python()


def disconnect(simulation: SafetySimulation) -> None:
    """The host of the driver reaches neither the master nor the storage."""
    simulation.lose_worker()
    simulation.driver.directory.is_connected = False


def hang_in_spark(simulation: SafetySimulation) -> None:
    """The driver fences itself, but the call that stops its query never returns."""
    disconnect(simulation)
    simulation.driver.query.hangs = True


def suspend_host(simulation: SafetySimulation) -> None:
    """The host of the driver is suspended until just before the end of the lease. The timeouts of its processes do not count that time."""
    simulation.lose_worker()
    simulation.driver.freeze_python()
    simulation.driver.host.suspend(simulation.lease_s - simulation.driver.age_s - 1)


def freeze_python_of_killed_driver(simulation: SafetySimulation) -> None:
    """The master reaches the worker, which needs long to kill the driver."""
    simulation.cluster.kill_s = simulation.lease_s / 2
    simulation.driver.freeze_python()


FAULTS: list[Fault] = [freeze_python, disconnect, hang_in_spark, suspend_host, freeze_python_of_killed_driver]


def test_driver_ends_before_the_scheduler_may_start_its_successor() -> None:
    margin_s = LEASE_MARGIN.total_seconds()
    for lease_s in (1.0, 60.0, 3600.0):
        assert lease_s + WATCHDOG_GRACE_S + CHECK_INTERVAL_S < lease_s + margin_s


def test_simulated_driver_takes_as_long_to_exit_as_a_real_one() -> None:
    assert EXIT_S >= OUTPUT_TIMEOUT_S


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_successor_starts_when_the_old_driver_runs_no_query_any_more(fault: Fault, moment_s: float) -> None:
    simulation = SafetySimulation(driver_heartbeat_timeout="3 s")
    simulation.start_loop()
    simulation.run_until_query()
    simulation.run(moment_s)
    fault(simulation)
    simulation.run_until_query(2)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_successor_starts_late_enough_on_a_slow_storage(fault: Fault, moment_s: float) -> None:
    """Each read and write of the job directory takes three seconds, so reads of the journal take more than the margin has to spare."""
    simulation = SafetySimulation(call_s=3.0, driver_lease_timeout="40 s", driver_heartbeat_timeout="40 s")
    simulation.start_loop()
    simulation.run_until_query()
    simulation.run(moment_s)
    fault(simulation)
    simulation.run_until_query(2)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("gap_s", [1.0, 15.0, 25.0, 29.0, 60.0])
def test_loop_that_takes_over_during_the_lease_waits_for_its_end(fault: Fault, gap_s: float) -> None:
    simulation = SafetySimulation()
    simulation.start_loop()
    simulation.run_until_query()
    simulation.kill_loop()
    fault(simulation)
    simulation.run(gap_s)
    simulation.start_loop()
    simulation.run_until_query(2)


@pytest.mark.parametrize("call_s", [0.02, 1.0])
@pytest.mark.parametrize("gap_s", [25.0, 60.0, 600.0])
def test_loop_that_takes_over_after_a_long_time_keeps_the_driver(gap_s: float, call_s: float) -> None:
    """The newest heartbeat in the journal is older than every timeout, but the driver has written its status all the time."""
    simulation = SafetySimulation(call_s=call_s)
    simulation.start_loop()
    simulation.run_until_query()
    simulation.kill_loop()
    simulation.run(gap_s)
    simulation.start_loop()
    simulation.run(LONG_S)
    assert len(simulation.drivers) == 1
    assert simulation.driver.runs_query


def test_loop_that_takes_over_while_the_driver_is_lost_waits_for_a_lease_from_then_on() -> None:
    """The driver has renewed its lease until the new loop starts; the lease does not end when the loop finds the old heartbeat."""
    simulation = SafetySimulation()
    simulation.start_loop()
    simulation.run_until_query()
    simulation.kill_loop()
    simulation.run(100)
    simulation.start_loop()
    freeze_python(simulation)
    simulation.run_until_query(2)


def test_loop_that_takes_over_after_an_outage_lets_the_driver_write_its_status_first() -> None:
    """The driver cannot reach the storage for longer than the heartbeat timeout, but for less than its lease.

    The journal contains its newest heartbeat, because a loop that ended soon has claimed the journal during the outage.
    """
    simulation = SafetySimulation(driver_heartbeat_timeout="3 s")
    simulation.start_loop()
    simulation.run_until_query()
    simulation.kill_loop()
    simulation.driver.directory.is_connected = False
    simulation.start_loop()
    simulation.run(1)
    simulation.kill_loop()
    simulation.run(5)
    simulation.driver.directory.is_connected = True
    simulation.start_loop()
    simulation.run(LONG_S)
    assert len(simulation.drivers) == 1


def test_loop_that_takes_over_during_the_start_of_a_driver_waits_for_its_lease() -> None:
    """The journal does not contain a heartbeat of the new driver yet, and the master does not know the driver any more."""
    simulation = SafetySimulation(boot_s=60.0)
    simulation.start_loop()
    simulation.run(LONG_S, lambda: bool(simulation.drivers))
    simulation.kill_loop()
    simulation.lose_worker()
    simulation.start_loop()
    simulation.run(simulation.lease_s)
    assert len(simulation.drivers) == 1


def test_status_of_a_driver_of_a_former_journal_is_not_the_status_of_the_new_driver() -> None:
    """The journal is deleted, and the new one begins with the same epoch. The status of the old driver stays."""
    simulation = SafetySimulation(boot_s=5.0)
    simulation.start_loop()
    simulation.run_until_query()
    simulation.kill_loop()
    simulation.driver.kill()
    simulation.files.remove_journal()
    simulation.start_loop()
    simulation.run(LONG_S, lambda: simulation.loop.state.name == "Executing")
    assert simulation.loop.state.epoch == 1
    assert [driver.runs_query for driver in simulation.drivers.values()] == [False, True]


def test_driver_without_a_control_loop_stops_after_the_orphan_timeout() -> None:
    simulation = SafetySimulation(orphan_timeout="60 s", trigger_lifetime="20 s")
    simulation.start_loop()
    simulation.run_until_query()
    simulation.kill_loop()
    simulation.run(55)
    assert simulation.driver.runs_query
    simulation.run(LONG_S)
    assert simulation.driver.end is DriverState.STOPPED


def test_driver_interrupts_a_batch_that_does_not_end_before_the_scheduler_kills_the_driver() -> None:
    simulation = SafetySimulation(stop_timeout="20 s")
    simulation.start_loop()
    simulation.run_until_query()
    simulation.driver.query.batch_ends = False
    simulation.store.requests = ControlRequests(desired_state=DesiredState.SUSPENDED)
    simulation.run(LONG_S, lambda: simulation.loop.state.name == "Finished")
    assert simulation.driver.end is DriverState.STOPPED
    assert simulation.cluster.kills == []
