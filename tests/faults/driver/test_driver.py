"""The driver dies, hangs and comes back; its documents are damaged."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_adaptive.job.protocol.codec import encode_journal, encode_status, journal_name
from tests.faults.harness.job_under_fault import LEASE_S, FaultWorld, Outcome, frozen

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]
Part = Callable[[psutil.Process], bool]


def is_jvm(process: psutil.Process) -> bool:
    return process.name() == "java"


def is_python(process: psutil.Process) -> bool:
    return process.name().startswith("python")


PARTS: dict[str, Part] = {"JVM": is_jvm, "Python": is_python, "both": lambda process: True}


def parts(world: FaultWorld, part: str) -> list[psutil.Process]:
    """Processes of the newest driver."""
    found = [process for process in world.driver_processes() if PARTS[part](process)]
    assert found
    return found


@pytest.mark.parametrize("part", PARTS)
def test_driver_that_is_killed(world: FaultWorld, record: Record, part: str) -> None:
    loop = world.start_loop()
    world.run_well()
    for process in parts(world, part):
        process.kill()
    world.fault()
    world.wait_for("the next driver", lambda: world.epoch() == 2)
    world.recover()
    record("driver killed (-9)", part, world.finish(loop))


@pytest.mark.parametrize("part", PARTS)
def test_driver_that_hangs_and_thaws(world: FaultWorld, record: Record, part: str) -> None:
    loop = world.start_loop()
    world.run_well()
    old = world.driver_processes()
    with frozen(parts(world, part)):
        world.fault()
        world.wait_for("the next driver", lambda: world.epoch() == 2)
        world.recover()
    world.wait_for("the end of the old driver", lambda: not any(process.is_running() for process in old))
    record("driver frozen, thawed", f"{part}, until the next had taken over", world.finish(loop))


def test_driver_that_hangs_on_a_lost_worker_and_thaws(world: FaultWorld, record: Record) -> None:
    """Nobody can kill it, and nobody can tell whether it lives: its lease must run out."""
    loop = world.start_loop()
    world.run_well()
    old = world.driver_processes()
    (worker,) = world.cluster.workers
    with frozen(old):
        world.fault()
        world.cluster.kill_worker(worker)
        world.cluster.add_worker(cores=4, memory_mb=4096)
        world.wait_for("the next driver", lambda: world.epoch() == 2)
        assert world.since_fault() >= LEASE_S
        world.recover()
    world.wait_for("the end of the old driver", lambda: not any(process.is_running() for process in old))
    record(
        "driver frozen, thawed", "both, on a worker that was lost, until the next had taken over", world.finish(loop)
    )


def test_driver_that_hangs_shortly(world: FaultWorld, record: Record) -> None:
    loop = world.start_loop()
    world.run_well()
    with frozen(world.driver_processes()):
        world.fault()
        world.wait_for("a third of the lease", lambda: world.since_fault() > LEASE_S / 3)
    world.recover()
    assert world.epoch() == 1
    record("driver frozen, thawed", "both, for a third of the lease", world.finish(loop))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half-written": lambda data: data[: len(data) // 2],
    "foreign": lambda data: b'{"hello": "world"}',
    "oversized": lambda data: b" " * (1 << 21),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_next_log_document_that_is_damaged(world: FaultWorld, record: Record, damage: str) -> None:
    loop = world.start_loop()
    world.run_well()
    newest = world.newest()
    assert newest is not None
    (world.directory / "journal" / journal_name(newest.number + 1)).write_bytes(DAMAGE[damage](encode_journal(newest)))
    world.ask(parallelism=(2, 2))
    world.fault()
    world.wait_for("the next plan", lambda: world.newest().number > newest.number + 1)  # type: ignore[union-attr]
    world.recover()
    record("log document damaged", f"the next number is {damage}", world.finish(loop))


@pytest.mark.parametrize("damage", DAMAGE)
def test_report_that_is_damaged(world: FaultWorld, record: Record, damage: str) -> None:
    """Until the driver writes the next one."""
    loop = world.start_loop()
    world.run_well()
    status = world.status()
    assert status is not None
    (world.directory / "status.json").write_bytes(DAMAGE[damage](encode_status(status)))
    world.fault()
    world.recover()
    assert world.epoch() == 1
    record("report damaged", damage, world.finish(loop))


def test_report_of_another_epoch(world: FaultWorld, record: Record) -> None:
    """A driver that was replaced writes once more."""
    loop = world.start_loop()
    world.run_well()
    old = (world.directory / "status.json").read_bytes()
    world.cluster.kill_driver(world.driver())
    world.wait_for("the next driver", lambda: world.epoch() == 2 and world.is_in("Executing"))
    (world.directory / "status.json").write_bytes(old)
    world.fault()
    world.recover()
    assert world.epoch() == 2
    record("report damaged", "the old driver's", world.finish(loop))
