"""The processes of a simulated driver: calls from Python to the JVM, and the watchdog."""

from __future__ import annotations

import math

import pytest

from airflow_adaptive.job.control.watchdog import WATCHDOG_GRACE_S
from tests.lab.fleet.cluster.processes import JVM_EXIT_S, DriverProcesses, SimulatedWatchdog
from tests.lab.fleet.kernel.kernel import Kernel


class Driver:
    """Processes whose exit codes are in `exits`. `calls` has the times of the beginning, of the effect and of the end of a call."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.exits: list[tuple[int | None, float]] = []
        self.processes = DriverProcesses(self.kernel, "driver", drift=0.0, on_exit=self._exited)
        self.watchdog = SimulatedWatchdog(self.kernel, self.processes, lambda text: None)
        self.calls: list[float] = []

    def call(self, at: float) -> None:
        """Call the JVM from the Python process at a time; the call takes a second."""
        self.kernel.at(at, lambda: self.kernel.start_thread(self._call), self.processes.python)

    def _call(self) -> None:
        self.calls.append(self.kernel.now)
        self.processes.in_jvm(self._act)
        assert self.kernel.process is self.processes.python
        self.calls.append(self.kernel.now)

    def _act(self) -> None:
        assert self.kernel.process is self.processes.jvm
        self.calls.append(self.kernel.now)
        self.kernel.sleep(1.0)

    def _exited(self, code: int | None) -> None:
        self.exits.append((code, self.kernel.now))


@pytest.fixture
def driver():
    return Driver()


def test_a_call_runs_in_the_jvm(driver):
    driver.call(1.0)
    driver.kernel.run(until=10)
    assert driver.calls == [1, 1, 2]


def test_a_call_begins_when_a_frozen_jvm_resumes(driver):
    driver.kernel.at(4.0, driver.processes.freeze_jvm())
    driver.call(1.0)
    driver.kernel.run(until=10)
    assert driver.calls == [1, 4, 5]


def test_a_frozen_python_process_continues_after_its_call_when_it_resumes(driver):
    driver.call(1.0)
    driver.kernel.at(1.5, lambda: driver.kernel.at(6.0, driver.processes.freeze_python()))
    driver.kernel.run(until=10)
    assert driver.calls == [1, 1, 6]


def test_an_exception_of_the_jvm_reaches_the_python_process(driver):
    errors = []

    def act():
        raise OSError("no space")

    def run():
        try:
            driver.processes.in_jvm(act)
        except OSError as error:
            errors.append((str(error), driver.kernel.process))

    driver.processes.python.soon(lambda: driver.kernel.start_thread(run))
    driver.kernel.run(until=1)
    assert errors == [("no space", driver.processes.python)]


def test_a_jvm_outlives_its_killed_python_process_for_a_moment(driver):
    driver.kernel.at(1.0, driver.processes.kill_python)
    driver.kernel.run(until=1.0)
    assert driver.processes.is_alive
    driver.kernel.run(until=10)
    assert driver.exits == [(None, 1.0 + JVM_EXIT_S)]


def test_the_watchdog_kills_at_the_end_of_the_newest_lease(driver):
    driver.watchdog.enforce(5.0)
    driver.watchdog.enforce(8.0)
    driver.processes.freeze()
    driver.kernel.run(until=60)
    assert driver.exits == [(None, 8.0 + WATCHDOG_GRACE_S)]


def test_the_watchdog_spares_a_driver_without_a_lease(driver):
    driver.watchdog.enforce(5.0)
    assert driver.watchdog.is_enforcing
    driver.watchdog.enforce(math.inf)
    assert not driver.watchdog.is_enforcing
    driver.kernel.run(until=60)
    assert driver.processes.is_alive
