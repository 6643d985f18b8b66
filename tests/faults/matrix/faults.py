"""The faults: what each breaks, and how it is put right again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

import psutil

from tests.faults.harness import disk
from tests.faults.harness.job_under_fault import LEASE_S
from tests.faults.harness.master_process import kill_master, restart_master, wait_for_workers
from tests.faults.matrix.matrix_job import WORKER, MatrixWorld

SHORT_S = LEASE_S / 4
"""For so long a disk is broken."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to break something.

    Attributes:
        name: as the table has it.
        strikes: what is broken is broken when this is entered; when it is left the world is whole again.
        there: whether there is something to break.
        holding: whether a driver may be frozen when it strikes.
    """

    name: str
    strikes: Callable[[MatrixWorld], AbstractContextManager[None]]
    there: Callable[[MatrixWorld], bool] = lambda world: True
    holding: bool = True


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


def jvm(world: MatrixWorld) -> list[psutil.Process]:
    """Of all drivers that live."""
    return [process for process in world.drivers_left() if is_jvm(process)]


def python(world: MatrixWorld) -> list[psutil.Process]:
    """Of all drivers that live."""
    return [process for process in world.drivers_left() if not is_jvm(process)]


@contextmanager
def executor_dies(world: MatrixWorld) -> Iterator[None]:
    """One of them."""
    kill(world.executors()[-1:])
    yield


@contextmanager
def worker_dies(world: MatrixWorld) -> Iterator[None]:
    """With an executor on it if there is one, and without the driver; another one comes."""
    world.cluster.kill_worker(world.worker_to_lose())
    yield
    world.cluster.add_worker(**WORKER)


@contextmanager
def driver_jvm_dies(world: MatrixWorld) -> Iterator[None]:
    """Its Python is left behind."""
    kill(jvm(world))
    yield


@contextmanager
def driver_python_dies(world: MatrixWorld) -> Iterator[None]:
    """Its JVM is left behind."""
    kill(python(world))
    yield


@contextmanager
def master_dies(world: MatrixWorld) -> Iterator[None]:
    """Another one comes, with its memory."""
    kill_master(world.cluster)
    yield
    restart_master(world.cluster)
    wait_for_workers(world.cluster)


@contextmanager
def loop_dies(world: MatrixWorld) -> Iterator[None]:
    """As with the triggerer's process; another one comes."""
    world.lose_loop()
    yield
    world.look_after()


@contextmanager
def directory_full(world: MatrixWorld) -> Iterator[None]:
    """For a while."""
    with disk.full(world.base):
        yield
        world.last(SHORT_S)


@contextmanager
def directory_read_only(world: MatrixWorld) -> Iterator[None]:
    """For a while."""
    with disk.read_only(world.base):
        yield
        world.last(SHORT_S)


EXECUTOR = Fault(name="executor", strikes=executor_dies, there=lambda world: bool(world.executors()))
WORKER_FAULT = Fault(name="worker", strikes=worker_dies)
DRIVER_JVM = Fault(name="driver JVM", strikes=driver_jvm_dies, there=lambda world: bool(jvm(world)))
DRIVER_PYTHON = Fault(name="driver Python", strikes=driver_python_dies, there=lambda world: bool(python(world)))
MASTER = Fault(name="master", strikes=master_dies)
LOOP = Fault(name="triggerer (loop's process)", strikes=loop_dies)
FULL = Fault(name="job directory full", strikes=directory_full, holding=False)
READ_ONLY = Fault(name="job directory read-only", strikes=directory_read_only, holding=False)

FAULTS = (EXECUTOR, WORKER_FAULT, DRIVER_JVM, DRIVER_PYTHON, MASTER, LOOP, FULL, READ_ONLY)
