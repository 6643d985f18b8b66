"""Two loops at once, and loops that live shortly."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest

from tests.faults.harness.job_under_fault import LEASE_S, PATIENCE_S, FaultWorld, Outcome, frozen

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


@pytest.mark.parametrize("attempt", ["1", "2"], ids=["twin", "next attempt"])
def test_loop_that_thaws_yields_to_the_one_that_took_over(world: FaultWorld, record: Record, attempt: str) -> None:
    sleeper = world.start_loop()
    world.run_well()
    with frozen([psutil.Process(sleeper.pid)]):
        world.fault()
        loop = world.start_loop(attempt=attempt)
        world.recover()
        world.cluster.kill_driver(world.driver())
        world.wait_for("the next driver", lambda: world.epoch() == 2 and world.is_in("Executing"))
        documents = world.newest()
    world.wait_superseded(sleeper)
    newest, before = world.newest(), documents
    assert newest is not None
    assert before is not None
    assert newest.owner == before.owner
    who = "its twin" if attempt == "1" else "the next attempt"
    record("loop frozen, thawed", f"when {who} had taken over and replaced the driver", world.finish(loop))


def test_loop_that_is_frozen_alone_goes_on(world: FaultWorld, record: Record) -> None:
    loop = world.start_loop()
    world.run_well()
    epoch = world.epoch()
    with frozen([psutil.Process(loop.pid)]):
        world.fault()
        world.wait_for("rows without a loop", lambda: len(world.rows()) == world.files * 10)
        world.wait_for("longer than the lease", lambda: world.since_fault() > 2 * LEASE_S)
    world.recover()
    assert world.epoch() == epoch, "it lost its driver"
    record("loop frozen, thawed", "alone, for two leases", world.finish(loop))


def test_two_loops_that_start_at_once(world: FaultWorld, record: Record) -> None:
    world.fault()
    loops = [world.start_loop() for _ in range(2)]
    world.wait_for("one to yield", lambda: any(loop.poll() is not None for loop in loops))
    (loop,) = [loop for loop in loops if loop.poll() is None]
    world.recover()
    record("two loops of one attempt", "started at once", world.finish(loop))


def test_loops_that_live_shorter_than_the_lease_replace_a_driver_that_nobody_knows_of(
    world: FaultWorld, record: Record
) -> None:
    """Its answer is lost with the loop, and it is killed before it reports."""
    world.feed()
    world.wait_death(world.start_loop("http:answered:submit"))
    world.cluster.kill_driver(next(iter(world.wait_for("the driver", world.submitted))))
    loops = 0
    while world.epoch() < 2 or not world.is_in("Executing"):
        world.wait_exit(world.start_loop(lifetime_s=5), 0)
        loops += 1
        assert world.since_fault() < PATIENCE_S
    loop = world.start_loop()
    world.recover()
    assert loops > 2
    record("loops that live 5 s", "a driver that died unknown", world.finish(loop))


def test_loop_that_is_killed_again_and_again(world: FaultWorld, record: Record) -> None:
    """-9 after a second, after two, and so on, from the start to the first rows, and then on."""
    world.fault()
    for second in range(1, 20):
        loop = world.start_loop()
        world.last(world.since_fault() + second)
        loop.send_signal(signal.SIGKILL)
        loop.wait()
        if world.is_well():
            break
    loop = world.start_loop()
    world.recover()
    record("loop killed (-9)", "again and again, each later than the one before", world.finish(loop))
