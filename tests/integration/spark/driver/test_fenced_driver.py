"""A fenced driver ends with its JVM on a real cluster, whatever its threads and its processes do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverState
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import TIMEOUT_S, DriverOnCluster, Input, plan

LEASE_S = 10

# The second call is an operation that never ends: its thread runs one Spark job after the other.
ENDLESS_BUILD = """
import sys
from pathlib import Path
from airflow_adaptive.job import AdaptiveJob

calls = []

def distinct(spark, parallelism):
    calls.append(parallelism["read"])
    while len(calls) > 1:
        try:
            spark.range(1).count()
        except Exception as error:
            print("the job was canceled:", type(error).__name__, flush=True)
        with Path(sys.argv[1], "jobs").open("a") as jobs:
            jobs.write("x")
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(sys.argv[1] + "/in")
    return rows.writeStream.format("json").option("path", sys.argv[1] + "/out")

AdaptiveJob(distinct).run()
"""


def jobs(root: Path) -> int:
    """Number of Spark jobs that the endless operation has run."""
    file = root / "jobs"
    return file.stat().st_size if file.exists() else 0


def start(driver: DriverOnCluster) -> list[psutil.Process]:
    """Start a driver that runs its query; returns its processes."""
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(ENDLESS_BUILD, executors=1, conf={"spark.airflow.adaptive.leaseTimeout": str(LEASE_S)})
    driver.wait_status("a batch", lambda now: bool(now.queries) and now.queries[0].committed >= 1)
    return driver.processes()


def wait_for_end(processes: list[psutil.Process]) -> None:
    wait_until(lambda: not any(is_alive(it) for it in processes), TIMEOUT_S, "the end of all processes of the driver")


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_driver_that_is_fenced_during_an_operation_ends_with_its_jvm(
    driver: DriverOnCluster, rows: Input, tmp_path: Path
) -> None:
    """Another epoch begins while the thread of an operation runs one Spark job after the other."""
    rows.write(3)
    processes = start(driver)
    driver.direct(Action.RUN, 2, plan(1, query_version=2))
    wait_until(lambda: jobs(tmp_path) > 2, TIMEOUT_S, "Spark jobs of the operation")
    driver.direct(Action.RUN, 3, plan(1), epoch=2)
    wait_for_end(processes)
    ended_at = jobs(tmp_path)
    status = driver.status()
    assert status is not None
    assert status.state is DriverState.FENCED
    assert driver.wait_end() == "FAILED"
    assert "this driver is fenced: exiting" in driver.output()
    assert jobs(tmp_path) == ended_at


@pytest.mark.long
@pytest.mark.parametrize("frozen", ["both", "java", "python"])
def test_driver_that_is_frozen_longer_than_its_lease_ends_with_its_jvm(
    driver: DriverOnCluster, rows: Input, frozen: str
) -> None:
    """A process of the driver is frozen. Its watchdog process ends both processes; a driver that thaws as a whole is ended then."""
    rows.write(3)
    processes = start(driver)
    stopped = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # A Python worker may have ended.
            if frozen == "both" or is_part(process, frozen):
                process.suspend()
                stopped.append(process)
    parts = ("java", "python") if frozen == "both" else (frozen,)
    assert all(any(is_part(process, part) for process in stopped) for part in parts)
    if frozen == "both":
        with pytest.raises(psutil.TimeoutExpired):
            processes[-1].wait(LEASE_S + 5)
        for process in stopped:
            with suppress(psutil.NoSuchProcess):  # The watchdog process, which thaws first, may have ended it.
                process.resume()
    wait_for_end(processes)


def is_part(process: psutil.Process, name: str) -> bool:
    """Whether this is the JVM or the Python process of the driver, and not the watchdog process."""
    return process.name().startswith(name) and "-I" not in process.cmdline()
