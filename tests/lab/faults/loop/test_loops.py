"""Two loops at once, and loops that live shortly."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from tests.lab.faults.harness.job_under_fault import LEASE_S, TIMEOUT_S, JobUnderFault, Outcome, frozen

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


@pytest.mark.parametrize("attempt", ["1", "2"], ids=["duplicate", "next attempt"])
def test_loop_that_thaws_yields_to_the_one_that_took_over(job: JobUnderFault, record: Record, attempt: str) -> None:
    sleeper = job.start_loop()
    job.run_well()
    with frozen([psutil.Process(sleeper.pid)]):
        job.fault()
        loop = job.start_loop(attempt=attempt)
        job.recover()
        job.cluster.kill_driver(job.driver())
        job.wait_for("the next driver", lambda: job.epoch() == 2 and job.is_in("Executing"))
        documents = job.newest()
    job.wait_superseded(sleeper)
    newest, before = job.newest(), documents
    assert newest is not None
    assert before is not None
    assert newest.owner == before.owner
    who = "a duplicate loop" if attempt == "1" else "the next attempt"
    record("loop frozen, then resumed", f"until {who} had taken over and replaced the driver", job.finish(loop))


def test_loop_that_is_frozen_alone_goes_on(job: JobUnderFault, record: Record) -> None:
    loop = job.start_loop()
    job.run_well()
    epoch = job.epoch()
    with frozen([psutil.Process(loop.pid)]):
        job.fault()
        job.wait_for("rows without a loop", job.took_all)
        job.wait_for("longer than the lease", lambda: job.since_fault() > 2 * LEASE_S)
    job.recover()
    assert job.epoch() == epoch, "it lost its driver"
    record("loop frozen, then resumed", "alone, for two leases", job.finish(loop))


def test_two_loops_that_start_at_once(job: JobUnderFault, record: Record) -> None:
    job.fault()
    loops = [job.start_loop() for _ in range(2)]
    job.wait_for("one to yield", lambda: any(loop.poll() is not None for loop in loops))
    (loop,) = [loop for loop in loops if loop.poll() is None]
    job.recover()
    record("two loops of one attempt", "started at the same time", job.finish(loop))


def test_loops_shorter_than_the_lease_replace_a_driver_that_no_one_knows_of(job: JobUnderFault, record: Record) -> None:
    """Its answer is lost with the loop, and it is killed before it reports."""
    job.feed()
    job.wait_death(job.start_loop("http:answered:submit"))
    job.cluster.kill_driver(next(iter(job.wait_for("the driver", job.submitted))))
    loops = 0
    while job.epoch() < 2 or not job.is_in("Executing"):
        job.wait_exit(job.start_loop(lifetime_s=5), 0)
        loops += 1
        assert job.since_fault() < TIMEOUT_S
    loop = job.start_loop()
    job.recover()
    assert loops > 2
    record("loops that live 5 s", "a driver that ended before any loop knew it", job.finish(loop))
