"""The job directory is away, read-only or full for a while, shorter and longer than the driver's lease."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.faults.world import JOB, LEASE_S, FaultWorld, Outcome

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

Record = Callable[[str, str, Outcome], None]
Break = Callable[[FaultWorld], None]

LONG_S = 3 * LEASE_S
SHORT_S = LEASE_S / 4
DURATIONS = {SHORT_S: "for a quarter of the lease", LONG_S: "for three leases"}


@contextmanager
def mounted(folder: Path, size_mb: int) -> Iterator[None]:
    """A small file system of its own, in memory."""
    folder.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder))
    try:
        yield
    finally:
        _run("umount", "-l", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture
def small_world(fault_cluster: LocalCluster, tmp_path: Path) -> Iterator[FaultWorld]:
    """A job whose directory is a small disk; this needs the right to mount."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(cores=4, memory_mb=4096)
    with mounted(tmp_path / "jobs", size_mb=4):
        world = FaultWorld(fault_cluster, tmp_path, tmp_path / "jobs")
        yield world
        world.close()
        wait_until(lambda: not fault_cluster.state()["activedrivers"], 60, "the end of all drivers")


def pass_time(seconds: float) -> None:
    """The fault lasts."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, 2 * seconds, "the time to pass")


def said(world: FaultWorld, *words: str) -> bool:
    """Whether a loop said something in which all these words are."""
    logs = [line for log in (world.root / "loops").glob("*.log") for line in log.read_text().splitlines()]
    return any(all(word in line for word in words) for line in logs)


@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_is_renamed_and_back(world: FaultWorld, record: Record, seconds: float) -> None:
    loop = world.start_loop()
    world.run_well()
    away = world.root / "away"
    world.fault()
    world.directory.rename(away)
    pass_time(seconds)
    assert not world.directory.exists(), "something was made in its place"
    away.rename(world.directory)
    world.recover()
    assert said(world, str(world.directory), "bring the directory of the job back") or seconds == SHORT_S
    record("job directory renamed", DURATIONS[seconds], world.finish(loop))


@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_is_read_only(small_world: FaultWorld, record: Record, seconds: float) -> None:
    world = small_world
    loop = world.start_loop()
    world.run_well()
    _run("mount", "-o", "remount,ro", str(world.base))
    world.ask(parallelism=(2, 2))  # something to write down
    world.fault()
    pass_time(seconds)
    _run("mount", "-o", "remount,rw", str(world.base))
    world.recover()
    assert said(world, str(world.base / JOB), "Read-only file system")
    record("job directory read-only", DURATIONS[seconds], world.finish(loop))


@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_is_full(small_world: FaultWorld, record: Record, seconds: float) -> None:
    world = small_world
    loop = world.start_loop()
    world.run_well()
    filler = world.base / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1k"], check=False, capture_output=True)
    world.ask(parallelism=(2, 2))
    world.fault()
    pass_time(seconds)
    filler.unlink()
    world.recover()
    assert said(world, str(world.base / JOB), "No space left on device")
    assert not list((world.directory / "log").glob(".*.json.*")), "temporary files are left"
    record("job directory full", DURATIONS[seconds], world.finish(loop))


def test_directory_that_is_away_when_the_loop_is_killed(world: FaultWorld, record: Record) -> None:
    """The next loop must not take it for a new job."""
    loop = world.start_loop()
    world.run_well()
    away = world.root / "away"
    world.fault()
    world.base.rename(away)
    loop.kill()
    loop.wait()
    world.start_loop()
    pass_time(SHORT_S)
    assert not world.base.exists(), "something was made in its place"
    away.rename(world.base)
    world.recover()
    record("job directory renamed", "and the loop killed meanwhile", world.finish(world.loops[-1]))
