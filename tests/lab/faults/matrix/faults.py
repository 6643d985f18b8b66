"""The faults: what each breaks, and how it is put right again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import psutil

from tests.lab.faults.harness import disk
from tests.lab.faults.harness.job_under_fault import LEASE_S, TIMEOUT_S, frozen
from tests.lab.faults.harness.master_process import kill_master, restart_master, wait_for_workers
from tests.lab.faults.matrix.matrix_job import WORKER, MatrixJob

SHORT_S = LEASE_S / 4
"""For so long a disk is broken."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to break something.

    Attributes:
        name: as the table has it.
        strikes: context manager of the fault: entering it injects the fault, and leaving it ends the fault.
        there: whether there is something to break.
        words: pattern of what names the fault in a failure record.
    """

    name: str
    strikes: Callable[[MatrixJob], AbstractContextManager[None]]
    words: str
    there: Callable[[MatrixJob], bool] = lambda job: True


def kill(processes: list[psutil.Process]) -> None:
    """-9, to those that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def is_jvm(process: psutil.Process) -> bool:
    """Of a driver, else it is its Python."""
    with suppress(psutil.NoSuchProcess):
        return process.name() == "java"
    return False


def jvm(job: MatrixJob) -> list[psutil.Process]:
    """Of all drivers that live."""
    return [process for process in job.drivers_left() if is_jvm(process)]


def python(job: MatrixJob) -> list[psutil.Process]:
    """Of all drivers that live."""
    return [process for process in job.drivers_left() if not is_jvm(process)]


@contextmanager
def executor_dies(job: MatrixJob) -> Iterator[None]:
    """One of them."""
    kill(job.executors()[-1:])
    yield


@contextmanager
def worker_dies(job: MatrixJob) -> Iterator[None]:
    """With an executor on it if there is one, and without the driver; another one comes."""
    job.cluster.kill_worker(job.worker_to_lose())
    yield
    job.cluster.add_worker(**WORKER)


@contextmanager
def driver_jvm_dies(job: MatrixJob) -> Iterator[None]:
    """Its Python is left behind."""
    kill(jvm(job))
    yield


@contextmanager
def driver_python_dies(job: MatrixJob) -> Iterator[None]:
    """Its JVM is left behind."""
    kill(python(job))
    yield


@contextmanager
def driver_dies(job: MatrixJob) -> Iterator[None]:
    """The one that the journal names; its standby lives."""
    kill(job.journaled_processes())
    yield


@contextmanager
def standby_dies(job: MatrixJob) -> Iterator[None]:
    """The driver lives."""
    kill(job.journaled_processes(of_standby=True))
    yield


@contextmanager
def driver_freezes(job: MatrixJob) -> Iterator[None]:
    """For longer than its lease, so that another driver takes over before it continues."""
    driver = job.journaled_processes()
    with frozen(driver):
        yield
        with frozen(driver):  # the end of a moment that passes has let them continue
            job.last(LEASE_S * 1.5)


@contextmanager
def driver_has_to_leave(job: MatrixJob, signals: int) -> Iterator[None]:
    """SIGTERM, as from a worker that is stopped; the second one comes while the driver leaves."""
    driver = job.journaled_processes()
    for process in [process for process in driver if is_jvm(process)] * signals:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    yield
    psutil.wait_procs(driver, TIMEOUT_S)  # it may process what came with the fault before it leaves


@contextmanager
def master_dies(job: MatrixJob) -> Iterator[None]:
    """Another one comes, with its memory."""
    kill_master(job.cluster)
    yield
    restart_master(job.cluster)
    wait_for_workers(job.cluster)


@contextmanager
def loop_dies(job: MatrixJob) -> Iterator[None]:
    """As with the triggerer's process; another one comes."""
    job.lose_loop()
    yield
    job.look_after()


@contextmanager
def directory_full(job: MatrixJob) -> Iterator[None]:
    """For a while."""
    with disk.full(job.base):
        yield
        job.last(SHORT_S)


@contextmanager
def directory_read_only(job: MatrixJob) -> Iterator[None]:
    """For a while."""
    with disk.read_only(job.base):
        yield
        job.last(SHORT_S)


LOST_EXECUTOR = (
    r"ExecutorLostFailure|[Ll]ost executor|executor \S+ (?:was )?lost|Connection (?:refused|reset)|FetchFailed"
)
DRIVER_GONE = r"DRIVER_LOST: .*\(FAILED\)|DRIVER_HEARTBEAT_TIMEOUT|SPARK_CONTEXT_STOPPED"
NO_MASTER = r"[Mm]aster|cluster does not answer"
NOTHING = r"(?!)"
"""A fault that no failure may follow."""

EXECUTOR = Fault(name="executor", strikes=executor_dies, words=LOST_EXECUTOR, there=lambda job: bool(job.executors()))
WORKER_FAULT = Fault(name="worker", strikes=worker_dies, words=LOST_EXECUTOR)
DRIVER_JVM = Fault(name="driver JVM", strikes=driver_jvm_dies, words=DRIVER_GONE, there=lambda job: bool(jvm(job)))
DRIVER_PYTHON = Fault(
    name="driver Python", strikes=driver_python_dies, words=DRIVER_GONE, there=lambda job: bool(python(job))
)
MASTER = Fault(name="master", strikes=master_dies, words=NO_MASTER)
LOOP = Fault(name="triggerer (loop's process)", strikes=loop_dies, words=NOTHING)
FULL = Fault(name="job directory full", strikes=directory_full, words=r"No space left on device")
READ_ONLY = Fault(name="job directory read-only", strikes=directory_read_only, words=r"Read-only file system")

DRIVER = Fault(name="driver", strikes=driver_dies, words=DRIVER_GONE, there=lambda job: bool(job.journaled_processes()))
STANDBY = Fault(
    name="standby",
    strikes=standby_dies,
    words=NOTHING,
    there=lambda job: bool(job.journaled_processes(of_standby=True)),
)
FROZEN = replace(DRIVER, name="driver frozen, then thawed", strikes=driver_freezes)
SIGTERM = replace(DRIVER, name="driver SIGTERM", strikes=partial(driver_has_to_leave, signals=1), words=NOTHING)
SIGTERMS = replace(SIGTERM, name="driver SIGTERM, twice", strikes=partial(driver_has_to_leave, signals=2))

FAULTS = (EXECUTOR, WORKER_FAULT, DRIVER_JVM, DRIVER_PYTHON, MASTER, LOOP, FULL, READ_ONLY)
BESIDE_STANDBY = (DRIVER, STANDBY, FROZEN, SIGTERM, SIGTERMS)
"""Further faults of a job with a standby. `DRIVER_JVM` and `DRIVER_PYTHON` meet the driver and the standby."""
