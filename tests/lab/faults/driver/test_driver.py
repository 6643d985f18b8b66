"""The driver dies, hangs and comes back; its documents are damaged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from airflow_adaptive._core.protocol.documents import encode_document, journal_name
from tests.lab.faults.harness.job_under_fault import LEASE_S, JobUnderFault, Outcome, frozen

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]
Part = Callable[[psutil.Process], bool]


def is_jvm(process: psutil.Process) -> bool:
    return name_of(process) == "java"


def is_python(process: psutil.Process) -> bool:
    return name_of(process).startswith("python")


def name_of(process: psutil.Process) -> str:
    """Name of a process, "" if it has just ended: a driver has short processes, too."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


PROCESSES: dict[str, Part] = {"JVM": is_jvm, "Python": is_python, "both": lambda process: True}


def processes_of(job: JobUnderFault, part: str) -> list[psutil.Process]:
    """Processes of the newest driver."""
    found = [process for process in job.driver_processes() if PROCESSES[part](process)]
    assert found
    return found


@pytest.mark.parametrize(("part", "standby"), [("JVM", "none"), ("both", "none"), ("JVM", "driver+executors")])
def test_driver_that_has_to_leave_its_machine(job: JobUnderFault, record: Record, part: str, standby: str) -> None:
    """A worker and a container runtime send SIGTERM to the JVM, and a service manager to both processes."""
    job.changes = {"options": {"standby": standby}}
    loop = job.start_loop()
    job.run_well()
    if standby != "none":
        job.wait_for("a standby", lambda: job.newest().scheduler["standby"]["is_prepared"])  # type: ignore[union-attr]
    processes = processes_of(job, part)
    job.fault()
    for process in processes:
        process.terminate()
    job.wait_for("the next driver", lambda: job.epoch() == 2)
    job.feed()
    job.recover()
    assert job.newest().scheduler["failures"] == []  # type: ignore[union-attr]
    assert job.logged("the driver had to leave its machine (SIGTERM)")
    record("driver ended (SIGTERM)", f"{part}, with standby={standby}", job.finish(loop))


@pytest.mark.parametrize("part", PROCESSES)
def test_driver_that_hangs_and_thaws(job: JobUnderFault, record: Record, part: str) -> None:
    loop = job.start_loop()
    job.run_well()
    old = job.driver_processes()
    with frozen(processes_of(job, part)):
        job.fault()
        job.wait_for("the next driver", lambda: job.epoch() == 2)
        job.recover()
    job.wait_for("the end of the old driver", lambda: not any(process.is_running() for process in old))
    record("driver frozen, then resumed", f"{part}, until the next driver had taken over", job.finish(loop))


def test_driver_that_hangs_on_a_lost_worker_and_thaws(job: JobUnderFault, record: Record) -> None:
    """The master cannot kill the driver or observe its end, so its lease must expire."""
    loop = job.start_loop()
    job.run_well()
    old = job.driver_processes()
    (worker,) = job.cluster.workers
    with frozen(old):
        job.fault()
        job.cluster.kill_worker(worker)
        job.cluster.add_worker(cores=4, memory_mb=4096)
        job.wait_for("the next driver", lambda: job.epoch() == 2)
        assert job.since_fault() >= LEASE_S
        job.recover()
    job.wait_for("the end of the old driver", lambda: not any(process.is_running() for process in old))
    record(
        "driver frozen, then resumed",
        "both, on a worker that was lost, until the next driver had taken over",
        job.finish(loop),
    )


def test_driver_that_hangs_shortly(job: JobUnderFault, record: Record) -> None:
    loop = job.start_loop()
    job.run_well()
    with frozen(job.driver_processes()):
        job.fault()
        job.wait_for("a third of the lease", lambda: job.since_fault() > LEASE_S / 3)
    job.recover()
    assert job.epoch() == 1
    record("driver frozen, then resumed", "both, for a third of the lease", job.finish(loop))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half-written": lambda data: data[: len(data) // 2],
    "foreign": lambda data: b'{"hello": "world"}',
    "oversized": lambda data: b" " * (1 << 21),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_next_log_document_that_is_damaged(job: JobUnderFault, record: Record, damage: str) -> None:
    loop = job.start_loop()
    job.run_well()
    newest = job.newest()
    assert newest is not None
    (job.directory / "journal" / journal_name(newest.number + 1)).write_bytes(DAMAGE[damage](encode_document(newest)))
    job.request_state(parallelism=(2, 2))
    job.fault()
    job.wait_for("the next plan", lambda: job.newest().number > newest.number + 1)  # type: ignore[union-attr]
    job.recover()
    record("journal document damaged", f"the next number is {damage}", job.finish(loop))


@pytest.mark.parametrize("damage", DAMAGE)
def test_report_that_is_damaged(job: JobUnderFault, record: Record, damage: str) -> None:
    """Until the driver writes the next one."""
    loop = job.start_loop()
    job.run_well()
    status = job.status()
    assert status is not None
    (job.directory / "status.json").write_bytes(DAMAGE[damage](encode_document(status)))
    job.fault()
    job.recover()
    assert job.epoch() == 1
    record("driver status damaged", damage, job.finish(loop))


def test_report_of_another_epoch(job: JobUnderFault, record: Record) -> None:
    """A driver that was replaced writes once more."""
    loop = job.start_loop()
    job.run_well()
    old = (job.directory / "status.json").read_bytes()
    job.cluster.kill_driver(job.driver())
    job.wait_for("the next driver", lambda: job.epoch() == 2 and job.is_in("Executing"))
    (job.directory / "status.json").write_bytes(old)
    job.fault()
    job.recover()
    assert job.epoch() == 2
    record("driver status damaged", "the status of the previous driver", job.finish(loop))
