"""The job directory is away, read-only or full for a while, shorter and longer than the driver's lease.

Some cases need the right to mount a file system in memory: root has this right, and so has a user who runs the tests under `unshare -Urm`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.conftest import WORKER
from tests.lab.faults.harness.disk import NoMountError, full, read_only, small_disk
from tests.lab.faults.harness.job_under_fault import LEASE_S, JobUnderFault
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

LONG_S = 3 * LEASE_S
SHORT_S = LEASE_S / 4
DURATIONS = {SHORT_S: "for a quarter of the lease", LONG_S: "for three leases"}

MEANWHILE = "and the loop is killed in the meantime"

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
    fault_cluster: LocalCluster, small_disk: None, make_job: Callable[..., JobUnderFault]
) -> Iterator[JobUnderFault]:
    """A job whose directory is a small disk."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    job = make_job()
    yield job
    job.close()


def replaced(job: JobUnderFault, loop: subprocess.Popen[bytes], reason: str) -> subprocess.Popen[bytes]:
    """Kill the loop; return the next one, which has reported for some time why it cannot continue."""
    loop.kill()
    loop.wait()
    following = job.start_loop()
    job.wait_for("an explanation", lambda: job.logged(str(job.directory), reason))
    job.last(LONG_S)
    return following


BROKEN = {
    "read-only": (read_only, "Read-only file system"),
    "full": (full, "No space left on device"),
}


@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_is_renamed_and_back(job: JobUnderFault, record: Record, seconds: float) -> None:
    loop = job.start_loop()
    job.run_well()
    away = job.root / "away"
    job.fault()
    job.directory.rename(away)
    job.last(seconds)
    assert not job.directory.exists(), "something was made in its place"
    away.rename(job.directory)
    job.recover()
    assert seconds == SHORT_S or job.logged(str(job.directory), "restore the directory of the job")
    record("job directory renamed", DURATIONS[seconds], job.finish(loop))


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("seconds", DURATIONS, ids=["short", "long"])
def test_directory_that_can_not_be_written(
    small_world: JobUnderFault, record: Record, seconds: float, broken: str
) -> None:
    job = small_world
    loop = job.start_loop()
    job.run_well()
    breaks, reason = BROKEN[broken]
    with breaks(job.base):
        job.request_state(parallelism=(2, 2))  # something to write down
        job.fault()
        job.last(seconds)
    job.recover()
    assert job.logged(str(job.directory), reason)
    assert not list((job.directory / "journal").glob(".*")), "temporary files are left"
    record(f"job directory {broken}", DURATIONS[seconds], job.finish(loop))


@pytest.mark.parametrize("broken", BROKEN)
def test_directory_that_can_not_be_written_when_the_loop_is_killed(
    small_world: JobUnderFault, record: Record, broken: str
) -> None:
    job = small_world
    loop = job.start_loop()
    job.run_well()
    breaks, reason = BROKEN[broken]
    with breaks(job.base):
        job.fault()
        loop = replaced(job, loop, reason)
    job.recover()
    record(f"job directory {broken}", f"{DURATIONS[LONG_S]}, {MEANWHILE}", job.finish(loop))


def test_directory_that_is_away_when_the_loop_is_killed(job: JobUnderFault, record: Record) -> None:
    """The next loop must not take it for a new job."""
    loop = job.start_loop()
    job.run_well()
    away = job.root / "away"
    job.fault()
    job.base.rename(away)
    loop = replaced(job, loop, "or mount it")
    assert not job.base.exists(), "something was made in its place"
    away.rename(job.base)
    job.recover()
    record("job directory renamed", f"{DURATIONS[LONG_S]}, {MEANWHILE}", job.finish(loop))
