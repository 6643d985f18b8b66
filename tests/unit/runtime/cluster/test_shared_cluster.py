"""One poll and one ledger for all loops of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive.ports import ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive.runtime.cluster.capacity_share import SlotDemand
from airflow_adaptive.runtime.cluster.shared_cluster import (
    CONTENTION_WINDOW,
    MAX_CONTENTION_WINDOW,
    ClusterView,
    Participant,
    SharedCluster,
)
from airflow_adaptive.testing.fakes import virtual_time
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.manual_clock import START
from airflow_adaptive.testing.fakes.virtual_time import VirtualClock
from airflow_adaptive.testing.simulation.several_jobs import DistantCluster

SECOND = timedelta(seconds=1)

Story = Callable[["ClusterScenario"], Coroutine[Any, Any, None]]


class ClusterScenario:
    """A cluster of eight cores, how often it was asked, and seats at it."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_worker(cores=8, memory_mb=65536)
        self.clock = VirtualClock()
        self.polls = 0
        client = DistantCluster(self.cluster, self.clock)
        ask = client.snapshot

        async def counted() -> ClusterSnapshot:
            self.polls += 1
            return await ask()

        client.snapshot = counted  # type: ignore[method-assign]
        self.shared = SharedCluster(client, self.clock)

    def seat(self) -> Participant:
        return Participant(self.shared)

    async def later(self, *looks: tuple[Participant, SlotDemand]) -> list[ClusterView]:
        """What these see a second later."""
        await self.clock.sleep(1)
        return [await seat.observe(demand, SECOND) for seat, demand in looks]


def story(told: Story) -> Callable[[], None]:
    """A test in virtual time."""

    def test() -> None:
        virtual_time.run(told(ClusterScenario()))

    test.__name__ = told.__name__
    return test


def wants(job: str, maximum: int = 8, **more: Any) -> SlotDemand:
    return SlotDemand(
        job=job, minimum=1, maximum=maximum, since=START, growth_block_timeout=timedelta(minutes=5), **more
    )


def executors(look: ClusterView) -> int:
    return sum(look.share.values())


@story
async def test_thousand_polls_are_one_poll(scenario: ClusterScenario) -> None:
    await asyncio.gather(*(scenario.seat().observe(wants(f"job-{number}"), SECOND) for number in range(1000)))
    assert scenario.polls == 1


@story
async def test_cluster_is_polled_again_when_the_poll_is_older_than_a_participant_allows(
    scenario: ClusterScenario,
) -> None:
    seat = scenario.seat()
    for _ in range(3):
        await scenario.later((seat, wants("a")))
    assert scenario.polls == 3
    await seat.observe(wants("a"), SECOND)
    assert scenario.polls == 3
    await seat.observe(wants("a"), timedelta(0))
    assert scenario.polls == 4


@story
async def test_failure_is_shared_like_an_answer(scenario: ClusterScenario) -> None:
    scenario.cluster.reachable = False
    outcomes = await asyncio.gather(
        *(scenario.seat().observe(wants(f"job-{number}"), SECOND) for number in range(10)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [ClusterUnreachableError] * 10
    assert scenario.polls == 1
    scenario.cluster.reachable = True
    await scenario.later((scenario.seat(), wants("a")))


@story
async def test_jobs_that_come_together_receive_slots_by_rank_not_by_order(scenario: ClusterScenario) -> None:
    low, high = (scenario.seat(), wants("a")), (scenario.seat(), wants("b", priority=2))
    first = [await seat.observe(demand, SECOND) for seat, demand in (low, high)]
    assert [executors(look) for look in first] == [0, 0]
    assert [executors(look) for look in await scenario.later(low, high)] == [1, 5]


@story
async def test_plan_of_a_loop_that_takes_over_is_honoured_at_once(scenario: ClusterScenario) -> None:
    planned = wants("a", has_driver=True, planned=4)
    assert executors(await scenario.seat().observe(planned, SECOND)) == 4


@story
async def test_nothing_is_kept_for_one_who_has_left(scenario: ClusterScenario) -> None:
    leaving, staying = scenario.seat(), scenario.seat()
    looks = (leaving, wants("a", priority=2)), (staying, wants("b"))
    await scenario.later(*looks)
    assert executors((await scenario.later(*looks))[1]) == 1
    leaving.unregister()
    assert executors((await scenario.later((staying, wants("b"))))[0]) == 7


# ---- what may be planned --------------------------------------------------------------------------------------------


@story
async def test_plan_on_the_newest_share_is_admitted(scenario: ClusterScenario) -> None:
    seat, waiting = scenario.seat(), wants("a")
    await scenario.later((seat, waiting))
    assert seat.admits(replace(waiting, has_driver=True, planned=7), scenario.clock.now())


@story
async def test_plan_on_a_share_that_was_allocated_again_is_not(scenario: ClusterScenario) -> None:
    seat, other, waiting = scenario.seat(), scenario.seat(), wants("a")
    await scenario.later((seat, waiting))
    await scenario.later((other, wants("b", priority=2)))
    plan = replace(waiting, has_driver=True, planned=7)
    assert not seat.admits(plan, scenario.clock.now())
    await seat.observe(waiting, SECOND)
    assert seat.admits(plan, scenario.clock.now())


@story
async def test_plan_that_takes_nothing_more_is_always_admitted(scenario: ClusterScenario) -> None:
    seat, running = scenario.seat(), wants("a", has_driver=True, planned=4)
    await scenario.later((seat, running))
    await scenario.later((scenario.seat(), wants("b")))
    assert seat.admits(replace(running, planned=2), scenario.clock.now())


@story
async def test_nothing_is_planned_before_the_first_look(scenario: ClusterScenario) -> None:
    assert not scenario.seat().admits(wants("a", has_driver=True), scenario.clock.now())
    assert scenario.seat().admits(wants("a"), scenario.clock.now())


@story
async def test_plan_counts_against_others_from_the_next_allocation_on(scenario: ClusterScenario) -> None:
    first, second = (scenario.seat(), wants("a", maximum=4)), (scenario.seat(), wants("b"))
    await scenario.later(first, second)
    assert first[0].admits(replace(first[1], has_driver=True, planned=4), scenario.clock.now())
    assert executors((await scenario.later(second))[0]) == 2


async def waits(seat: Participant, scenario: ClusterScenario, jitter: float) -> timedelta:
    """How long a seat makes no plan after it gave way."""
    begin = scenario.clock.now()
    seat.back_off(begin, jitter)
    plan = wants("a", has_driver=True)
    while True:
        await scenario.later((seat, wants("a")))
        if seat.admits(plan, scenario.clock.now()):
            await seat.observe(wants("a"), SECOND)
            return scenario.clock.now() - begin


@story
async def test_who_gave_way_waits_for_a_random_time_that_grows(scenario: ClusterScenario) -> None:
    seat = scenario.seat()
    waited = [await waits(seat, scenario, jitter=0.9) for _ in range(8)]
    assert waited == sorted(waited)
    assert waited[0] < 2 * CONTENTION_WINDOW * 0.9 < waited[1]
    assert MAX_CONTENTION_WINDOW / 2 < waited[-1] < MAX_CONTENTION_WINDOW
    seat.reset_backoff()
    assert await waits(seat, scenario, jitter=0.0) <= 2 * SECOND


@story
async def test_those_who_only_look_take_nothing(scenario: ClusterScenario) -> None:
    seat = scenario.seat()
    await scenario.later((seat, wants("a", maximum=4)))
    cluster = await scenario.shared.unclaimed(SECOND)
    assert sum(worker.cores_free for worker in cluster.workers) == 6
    assert executors((await scenario.later((seat, wants("a", maximum=4))))[0]) == 4


def test_virtual_time_ends_a_wait_for_nothing() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock: all tasks wait"):
        virtual_time.run(stuck())
