"""A hint begins the next cycle of a loop at once: a request, or the end of a driver, does not wait for the next poll."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import ClusterSnapshot
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.clock import Hint
from airflow_adaptive._engine.loop import Ports, RunLimits
from tests.lab.fakes.driver import FakeDrivers
from tests.lab.fakes.manual_clock import START
from tests.lab.fakes.virtual_time import VirtualClock, run
from tests.lab.simulation.one_job import Simulation

NO_WAIT = dict.fromkeys(
    ("resource_stabilization_timeout", "scaling_interval_min", "executing_stabilization_timeout"), 0
)


def kill_driver(job: Simulation) -> None:
    job.cluster.kill_driver(next(reversed(job.cluster.submissions)))


def lower_bound(job: Simulation) -> None:
    job.store.requests = ControlRequests(requirements={"job": ParallelismRange(1, 2)})


def announced(poll: Callable[[], Awaitable[ClusterSnapshot]], cycle: asyncio.Event) -> Callable[[], Any]:
    """Return a poll of the cluster that sets an event."""

    async def snapshot() -> ClusterSnapshot:
        cycle.set()
        return await poll()

    return snapshot


async def delay_s(change: Callable[[Simulation], None], target: str, *, hinted: bool) -> float:
    """Time from a change, right after a poll of a job that runs as planned, until the job has entered a state."""
    job, clock, hint = Simulation((1, 4), **NO_WAIT), VirtualClock(), Hint()
    job.cluster.add_worker(cores=5, memory_mb=4096)
    job.drivers = FakeDrivers(job.cluster, job.directory, lambda: clock.elapsed)
    job.ports = Ports(cluster=job.cluster, directory=job.directory, store=job.store, clock=clock, hint=hint)
    loop = asyncio.create_task(job.loop(RunLimits(recycle_at=START + timedelta(seconds=45))).run())

    async def drive() -> None:
        while not loop.done():
            job.drivers.tick(job.cluster.states)
            await clock.sleep(0.1)

    driving, cycle = asyncio.create_task(drive()), asyncio.Event()
    await clock.sleep(39.9)
    job.cluster.snapshot = announced(job.cluster.snapshot, cycle)  # type: ignore[method-assign]
    await cycle.wait()
    changed_s = clock.elapsed
    change(job)
    if hinted:
        hint.give()
    await asyncio.gather(loop, driving)
    entered = ((it.at - START).total_seconds() - changed_s for it in job.transitions if it.target == target)
    return next(delay for delay in entered if delay >= 0)


@pytest.mark.parametrize(("change", "target"), [(kill_driver, "Restarting"), (lower_bound, "Executing")])
def test_loop_observes_at_once_what_a_hint_announces(change: Callable[[Simulation], None], target: str) -> None:
    hinted_s, polled_s = (run(delay_s(change, target, hinted=hinted)) for hinted in (True, False))
    assert hinted_s == pytest.approx(polled_s - 1.0)


def test_rescale_takes_effect_at_the_next_commit_and_not_at_the_next_poll() -> None:
    assert run(delay_s(lower_bound, "Executing", hinted=True)) < 0.5


def test_hint_during_a_cycle_ends_the_next_pause_and_only_that_one() -> None:
    async def pauses() -> list[tuple[bool, float]]:
        hint, clock = Hint(), VirtualClock()
        hint.give()
        found = [(await hint.wait(clock.sleep(1)), clock.elapsed) for _ in range(2)]
        canceled = asyncio.create_task(hint.wait(clock.sleep(1)))
        await clock.sleep(0.5)
        canceled.cancel()
        await asyncio.wait({canceled})
        hint.give()  # The cluster reports the end of a driver after the end of the loop.
        return found

    assert run(pauses()) == [(True, 0.0), (False, 1.0)]
