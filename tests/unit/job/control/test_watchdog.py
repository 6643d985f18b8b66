"""The watchdog process ends the processes of a driver at the end of its lease, whatever the driver does."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_adaptive.job.control.fence import boot_time
from airflow_adaptive.local.waiting import wait_until
from tests.support.repository import ROOT

TIMEOUT_S = 60.0
LEASE_S = 600.0

JVM = "import time; time.sleep(600)"

PYTHON = """
import math, sys
from airflow_adaptive.job.control.fence import LeaseWatchdog
watchdog = LeaseWatchdog(int(sys.argv[1]), grace_s=0.0)
for line in sys.stdin:
    watchdog.enforce(float(line))
    print(watchdog.is_enforcing, flush=True)
watchdog.close()
"""


class Driver:
    """A process in place of the JVM, and a Python process that has a watchdog and enforces the leases that a test gives."""

    def __init__(self, folder: Path) -> None:
        self.jvm = subprocess.Popen([sys.executable, "-c", JVM])
        self.python = subprocess.Popen(
            [sys.executable, "-c", PYTHON, str(self.jvm.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def enforce(self, lease_end: float) -> bool:
        """Enforce a lease, and return whether the watchdog enforces one now."""
        assert self.python.stdin is not None
        assert self.python.stdout is not None
        self.python.stdin.write(f"{lease_end}\n")
        self.python.stdin.flush()
        return self.python.stdout.readline() == "True\n"

    def watchdog(self) -> psutil.Process:
        (watchdog,) = psutil.Process(self.python.pid).children()
        return watchdog

    def end(self) -> None:
        """End the Python process in an orderly way."""
        assert self.python.stdin is not None
        self.python.stdin.close()
        assert self.python.wait(TIMEOUT_S) == 0

    def wait_for_kill(self, process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL

    def kill(self) -> None:
        for process in (self.python, self.jvm):
            process.kill()
            process.wait()
        for pipe in (self.python.stdin, self.python.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    made.kill()


@pytest.mark.parametrize("frozen", ["Python", "JVM", "neither"])
def test_ends_the_process_when_the_lease_has_expired_and_a_query_may_run(driver: Driver, tmp_path: Path, frozen: str):
    """A process of the driver is frozen, or its driver loop hangs, and the lease expires."""
    (tmp_path / "stderr").touch()
    assert driver.enforce(boot_time() + LEASE_S)
    driver.enforce(boot_time() + 1.0)
    if frozen != "neither":
        (driver.python if frozen == "Python" else driver.jvm).send_signal(signal.SIGSTOP)
    driver.wait_for_kill(driver.jvm)
    driver.wait_for_kill(driver.python)
    wait_until(lambda: "lease" in (tmp_path / "stderr").read_text(), TIMEOUT_S, "the reason in the driver's output")


def test_lease_that_is_renewed_while_the_watchdog_process_is_frozen_does_not_expire(driver: Driver):
    """The watchdog process gets no processor time until the old end of the lease has passed."""
    end = boot_time() + 1.0
    driver.enforce(end)
    watchdog = driver.watchdog()
    watchdog.suspend()
    driver.enforce(boot_time() + LEASE_S)
    wait_until(lambda: boot_time() > end, TIMEOUT_S, "the old end of the lease")
    watchdog.resume()
    before = watchdog.num_ctx_switches().voluntary
    wait_until(
        lambda: not watchdog.is_running() or watchdog.num_ctx_switches().voluntary > before + 1, TIMEOUT_S, "a check"
    )
    driver.end()
    assert driver.jvm.poll() is None


def test_ends_a_frozen_process_whose_jvm_has_ended(driver: Driver):
    """The JVM is killed while the Python process is frozen."""
    driver.enforce(boot_time() + 1.0)
    driver.python.send_signal(signal.SIGSTOP)
    driver.jvm.kill()
    driver.jvm.wait()
    driver.wait_for_kill(driver.python)


def test_ends_a_jvm_that_outlives_its_python_process_at_the_end_of_the_lease(driver: Driver):
    """The Python process is killed, and the JVM hangs in its shutdown hooks."""
    driver.enforce(boot_time() + 1.0)
    driver.python.kill()
    driver.wait_for_kill(driver.jvm)


def test_does_not_end_a_driver_without_a_query(driver: Driver):
    assert driver.enforce(boot_time() + LEASE_S)
    assert not driver.enforce(math.inf)
    assert driver.watchdog().is_running()
    driver.end()
    assert driver.jvm.poll() is None


def test_watchdog_process_ends_with_the_driver(driver: Driver):
    driver.enforce(boot_time() + LEASE_S)
    watchdog = driver.watchdog()
    driver.end()
    assert not watchdog.is_running()
    assert driver.jvm.poll() is None


def test_watchdog_process_ends_with_the_jvm_of_a_driver_that_was_killed(driver: Driver):
    driver.enforce(boot_time() + LEASE_S)
    watchdog = driver.watchdog()
    driver.kill()
    watchdog.wait(TIMEOUT_S)


def test_watchdog_process_that_was_killed_is_started_again(driver: Driver):
    """A user, or the kernel for lack of memory, kills the watchdog process."""
    driver.enforce(boot_time() + LEASE_S)
    first = driver.watchdog()
    first.kill()
    wait_until(lambda: first.status() == psutil.STATUS_ZOMBIE, TIMEOUT_S, "the end of the watchdog process")
    driver.enforce(boot_time() + LEASE_S)
    assert [child for child in psutil.Process(driver.python.pid).children() if child != first]
    assert driver.python.poll() is None


PIPE_BYTES = 65_536


@pytest.mark.timeout(120)
def test_watchdog_process_that_is_frozen_for_many_renewals_is_replaced(driver: Driver):
    """Only the watchdog process is frozen, its pipe is full after thousands of renewals, and later the lease expires."""
    driver.enforce(boot_time() + LEASE_S)
    first = driver.watchdog()
    first.suspend()
    renewals = PIPE_BYTES // len(str(boot_time())) + 2
    assert all(driver.enforce(boot_time() + LEASE_S) for _ in range(renewals))
    assert not first.is_running()
    driver.enforce(boot_time() + 1.0)
    driver.wait_for_kill(driver.jvm)
    driver.wait_for_kill(driver.python)
