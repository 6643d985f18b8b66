"""The job directory is away, read-only or full for a while, shorter and longer than the driver's lease.

Some cases need the right to mount a file system in memory: root has it, or whoever runs them under `unshare -Urm`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.faults.conftest import WORKER
from tests.faults.harness.disk import NoMountError, full, read_only, small_disk
from tests.faults.harness.job_under_fault import LEASE_S, FaultWorld
from tests.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

LONG_S = 3 * LEASE_S
SHORT_S = LEASE_S / 4
DURATIONS = {SHORT_S: "for a quarter of the lease", LONG_S: "for three leases"}

MEANWHILE = "and the loop killed meanwhile"

SIZE_MB = 4


@pytest.fixture(name="small_disk")
def job_directories_on_a_small_disk(tmp_path: Path) -> Iterator[None]:
    """All of them are on a file system of their own, in memory."""
    (tmp_path / "jobs").mkdir()
    try:
        with small_disk(tmp_path / "jobs", SIZE_MB):
            yield
    except NoMountError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def small_world(
    fault_cluster: LocalCluster, small_disk: None, make_world: Callable[..., FaultWorld]
) -> Iterator[FaultWorld]:
    """A job whose directory is a small disk."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    world = make_world()
    yield world
    world.close()


def replaced(world: FaultWorld, loop: subprocess.Popen[bytes], reason: str) -> subprocess.Popen[bytes]:
    """Kill the loop; return the next one, which has said why it can't go on, for long."""
    loop.kill()
    loop.wait()
    following = world.start_loop()
    world.wait_for("an explanation", lambda: world.said(str(world.directory), reason))
    world.last(LONG_S)
    return following


BROKEN = {
    "read-only": (read_only, "Read-only file system"),
    "full": (full, "No space left on device"),
}


@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_is_renamed_and_back(world: FaultWorld, record: Record, seconds: float) -> None:
    loop = world.start_loop()
    world.run_well()
    away = world.root / "away"
    world.fault()
    world.directory.rename(away)
    world.last(seconds)
    assert not world.directory.exists(), "something was made in its place"
    away.rename(world.directory)
    world.recover()
    assert seconds == SHORT_S or world.said(str(world.directory), "bring the directory of the job back")
    record("job directory renamed", DURATIONS[seconds], world.finish(loop))


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_can_not_be_written(
    small_world: FaultWorld, record: Record, seconds: float, broken: str
) -> None:
    world = small_world
    loop = world.start_loop()
    world.run_well()
    breaks, reason = BROKEN[broken]
    with breaks(world.base):
        world.ask(parallelism=(2, 2))  # something to write down
        world.fault()
        world.last(seconds)
    world.recover()
    assert world.said(str(world.directory), reason)
    assert not list((world.directory / "journal").glob(".*")), "temporary files are left"
    record(f"job directory {broken}", DURATIONS[seconds], world.finish(loop))


@pytest.mark.parametrize("broken", BROKEN)
def test_directory_that_can_not_be_written_when_the_loop_is_killed(
    small_world: FaultWorld, record: Record, broken: str
) -> None:
    world = small_world
    loop = world.start_loop()
    world.run_well()
    breaks, reason = BROKEN[broken]
    with breaks(world.base):
        world.fault()
        loop = replaced(world, loop, reason)
    world.recover()
    record(f"job directory {broken}", f"{DURATIONS[LONG_S]}, {MEANWHILE}", world.finish(loop))


def test_directory_that_is_away_when_the_loop_is_killed(world: FaultWorld, record: Record) -> None:
    """The next loop must not take it for a new job."""
    loop = world.start_loop()
    world.run_well()
    away = world.root / "away"
    world.fault()
    world.base.rename(away)
    loop = replaced(world, loop, "or mount it")
    assert not world.base.exists(), "something was made in its place"
    away.rename(world.base)
    world.recover()
    record("job directory renamed", f"{DURATIONS[LONG_S]}, {MEANWHILE}", world.finish(loop))
