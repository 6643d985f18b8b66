"""One poll and one calculation of the capacity shares for all loops of a process, also if clocks differ or masters answer slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.address import CredentialsError
from airflow_adaptive._core.ports import ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand
from airflow_adaptive._engine.cluster.shared_cluster import (
    CONTENTION_WINDOW,
    DEMAND_TIMEOUT,
    MAX_CONTENTION_WINDOW,
    ClusterView,
    Participant,
    SharedCluster,
)
from tests.lab.fakes import virtual_time
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.virtual_time import DistantCluster, VirtualClock
from tests.lab.fleet.cluster.driver import DriverTimes
from tests.lab.fleet.cluster.masters import MasterFault
from tests.lab.fleet.jobs import JobFleet
from tests.support.runtime.quick_jobs import QUICK

SECOND = timedelta(seconds=1)

AsyncTest = Callable[["ClusterScenario"], Coroutine[Any, Any, None]]


class ClusterScenario:
    """A cluster of eight cores, the number of its polls, and participants."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_worker(cores=8, memory_mb=65536)
        self.clock = VirtualClock()
        self.polls = 0
        client = DistantCluster(self.cluster, self.clock)
        poll = client.snapshot

        async def counted() -> ClusterSnapshot:
            self.polls += 1
            return await poll()

        client.snapshot = counted  # type: ignore[method-assign]
        self.client = client
        self.shared = SharedCluster(self.clock)

    def participant(self) -> Participant:
        return Participant(self.shared, self.client)

    async def later(self, *demands: tuple[Participant, SlotDemand]) -> list[ClusterView]:
        """The views of these participants a second later."""
        await self.clock.sleep(1)
        return [await participant.observe(demand, SECOND) for participant, demand in demands]


def in_virtual_time(body: AsyncTest) -> Callable[[], None]:
    """A test in virtual time."""

    def test() -> None:
        virtual_time.run(body(ClusterScenario()))

    test.__name__ = body.__name__
    return test


def wants(job: str, maximum: int = 8, **more: Any) -> SlotDemand:
    return SlotDemand(
        job=job, minimum=1, maximum=maximum, age=timedelta(0), growth_block_timeout=timedelta(minutes=5), **more
    )


def executors(view: ClusterView) -> int:
    return sum(view.share.executors.values())


@in_virtual_time
async def test_thousand_polls_are_one_poll(scenario: ClusterScenario) -> None:
    await asyncio.gather(*(scenario.participant().observe(wants(f"job-{number}"), SECOND) for number in range(1000)))
    assert scenario.polls == 1


@in_virtual_time
async def test_cluster_is_polled_again_when_the_poll_is_older_than_a_participant_allows(
    scenario: ClusterScenario,
) -> None:
    participant = scenario.participant()
    for _ in range(3):
        await scenario.later((participant, wants("a")))
    assert scenario.polls == 3
    await participant.observe(wants("a"), SECOND)
    assert scenario.polls == 3
    await participant.observe(wants("a"), timedelta(0))
    assert scenario.polls == 4


@in_virtual_time
async def test_shared_failure_keeps_its_class_and_code(scenario: ClusterScenario) -> None:
    async def snapshot() -> ClusterSnapshot:
        raise CredentialsError("the token has expired")

    scenario.cluster.snapshot = snapshot  # type: ignore[method-assign]
    with pytest.raises(CredentialsError, match="^the token has expired$"):
        await scenario.participant().observe(wants("job"), SECOND)


@in_virtual_time
async def test_failure_is_shared_like_an_answer(scenario: ClusterScenario) -> None:
    scenario.cluster.reachable = False
    outcomes = await asyncio.gather(
        *(scenario.participant().observe(wants(f"job-{number}"), SECOND) for number in range(10)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [ClusterUnreachableError] * 10
    assert scenario.polls == 1
    scenario.cluster.reachable = True
    await scenario.later((scenario.participant(), wants("a")))


@in_virtual_time
async def test_jobs_that_come_together_receive_slots_by_rank_not_by_order(scenario: ClusterScenario) -> None:
    low, high = (scenario.participant(), wants("a")), (scenario.participant(), wants("b", priority=2))
    first = [await participant.observe(demand, SECOND) for participant, demand in (low, high)]
    assert [executors(view) for view in first] == [0, 0]
    assert [executors(view) for view in await scenario.later(low, high)] == [1, 5]


@in_virtual_time
async def test_plan_of_a_loop_that_takes_over_is_honoured_at_once(scenario: ClusterScenario) -> None:
    planned = wants("a", has_driver=True, planned=4)
    assert executors(await scenario.participant().observe(planned, SECOND)) == 4


@in_virtual_time
async def test_share_of_an_unregistered_participant_is_free_for_others(scenario: ClusterScenario) -> None:
    unregistered, staying = scenario.participant(), scenario.participant()
    demands = (unregistered, wants("a", priority=2)), (staying, wants("b"))
    await scenario.later(*demands)
    assert executors((await scenario.later(*demands))[1]) == 1
    unregistered.unregister()
    assert executors((await scenario.later((staying, wants("b"))))[0]) == 7


@in_virtual_time
async def test_minimum_of_a_loop_that_hangs_is_free_for_others_after_a_timeout(scenario: ClusterScenario) -> None:
    """A job waits for its minimum, its loop hangs in a read from its storage, and a second job can use the slots."""
    hanging, other = scenario.participant(), scenario.participant()
    waiting = replace(wants("a", priority=2), minimum=5)
    await scenario.later((hanging, waiting), (other, wants("b")))
    before = await scenario.later((other, wants("b")))
    await scenario.clock.sleep(DEMAND_TIMEOUT.total_seconds())
    after = await scenario.later((other, wants("b")))
    assert [executors(view) for view in (*before, *after)] == [1, 7]
    assert executors((await scenario.later((hanging, waiting)))[0]) == 5


@in_virtual_time
async def test_loop_with_a_long_poll_interval_keeps_its_minimum(scenario: ClusterScenario) -> None:
    slow, other = scenario.participant(), scenario.participant()
    for _ in range(2):
        await slow.observe(replace(wants("a", priority=2), minimum=5), timedelta(minutes=10))
        await scenario.later((other, wants("b")))
    await scenario.clock.sleep(599)
    assert executors((await scenario.later((other, wants("b"))))[0]) == 1


# ---- what may be planned --------------------------------------------------------------------------------------------


@in_virtual_time
async def test_plan_on_the_newest_share_is_admitted(scenario: ClusterScenario) -> None:
    participant, waiting = scenario.participant(), wants("a")
    await scenario.later((participant, waiting))
    assert participant.admits(replace(waiting, has_driver=True, planned=7))


@in_virtual_time
async def test_plan_on_a_share_that_was_allocated_again_is_not(scenario: ClusterScenario) -> None:
    participant, other, waiting = scenario.participant(), scenario.participant(), wants("a")
    await scenario.later((participant, waiting))
    await scenario.later((other, wants("b", priority=2)))
    plan = replace(waiting, has_driver=True, planned=7)
    assert not participant.admits(plan)
    await participant.observe(waiting, SECOND)
    assert participant.admits(plan)


@in_virtual_time
async def test_standby_on_a_share_that_was_allocated_again_is_not_admitted(scenario: ClusterScenario) -> None:
    participant, running = scenario.participant(), wants("a", has_driver=True, planned=4)
    needed, submitted = (
        replace(running, standby=replace(running, has_driver=it, planned=2 * it)) for it in (False, True)
    )
    await scenario.later((participant, needed))
    participant.back_off(0.9)
    await scenario.later((scenario.participant(), wants("b")))
    assert (participant.admits(submitted), participant.admits(needed)) == (False, True)
    await participant.observe(needed, SECOND)
    assert participant.admits(submitted)


@in_virtual_time
async def test_plan_without_more_executors_is_always_admitted(scenario: ClusterScenario) -> None:
    participant, running = scenario.participant(), wants("a", has_driver=True, planned=4)
    await scenario.later((participant, running))
    await scenario.later((scenario.participant(), wants("b")))
    assert participant.admits(replace(running, planned=2))


@in_virtual_time
async def test_nothing_is_planned_before_the_first_observation(scenario: ClusterScenario) -> None:
    assert not scenario.participant().admits(wants("a", has_driver=True))
    assert scenario.participant().admits(wants("a"))


@in_virtual_time
async def test_plan_counts_against_others_from_the_next_allocation_on(scenario: ClusterScenario) -> None:
    first, second = (scenario.participant(), wants("a", maximum=4)), (scenario.participant(), wants("b"))
    await scenario.later(first, second)
    assert first[0].admits(replace(first[1], has_driver=True, planned=4))
    assert executors((await scenario.later(second))[0]) == 2


async def waits(participant: Participant, scenario: ClusterScenario, jitter: float) -> timedelta:
    """How long a participant makes no larger plan after a conflict."""
    begin = scenario.clock.now()
    participant.back_off(jitter)
    plan = wants("a", has_driver=True)
    while True:
        await scenario.later((participant, wants("a")))
        if participant.admits(plan):
            await participant.observe(wants("a"), SECOND)
            return scenario.clock.now() - begin


@in_virtual_time
async def test_backoff_after_conflicts_is_random_and_grows(scenario: ClusterScenario) -> None:
    participant = scenario.participant()
    waited = [await waits(participant, scenario, jitter=0.9) for _ in range(8)]
    assert waited == sorted(waited)
    assert waited[0] < 2 * CONTENTION_WINDOW * 0.9 < waited[1]
    assert MAX_CONTENTION_WINDOW / 2 < waited[-1] < MAX_CONTENTION_WINDOW
    participant.reset_backoff()
    assert await waits(participant, scenario, jitter=0.0) <= 2 * SECOND


@in_virtual_time
async def test_poll_without_a_demand_takes_no_capacity(scenario: ClusterScenario) -> None:
    participant = scenario.participant()
    await scenario.later((participant, wants("a", maximum=4)))
    cluster = await scenario.shared.unclaimed(scenario.client, SECOND)
    assert sum(worker.free.cpu_millicores for worker in cluster.workers) == 6000
    assert executors((await scenario.later((participant, wants("a", maximum=4))))[0]) == 4


HOUR = timedelta(hours=1)
JOBS = 10
FAILURE = FailureReport(error_class="SparkException", message="a task failed", causes=("SparkException",))


def fleet_of(*cores: int, jobs: int = 0) -> JobFleet:
    fleet = JobFleet(times=DriverTimes(boot_s=(2, 2)))
    fleet.add_triggerer()
    fleet.add_workers(*cores)
    for number in range(jobs):
        fleet.add_job(f"job-{number}", (1, 1), resource_wait_timeout=-1, **QUICK)
    return fleet


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_job_grows_after_the_timeout_although_the_journal_of_a_waiting_job_is_ahead(ahead: timedelta) -> None:
    """A job with a journal that is an hour ahead waits for its minimum, a worker joins, and the other job may grow after two minutes."""
    fleet = fleet_of(4)
    triggerer = fleet.triggerers[0]
    running = fleet.add_job("running", (1, 12), resource_wait_timeout=-1, **QUICK)
    options = {**QUICK, "resource_wait_timeout": -1, "deploy_timeout": "2 min"}
    fleet.add_job("too-large", (20, 20), starts_s=30, **options)
    fleet.kernel.at(29, lambda: setattr(triggerer, "wall_offset", ahead))
    fleet.kernel.at(31, lambda: setattr(triggerer, "wall_offset", timedelta(0)))
    fleet.kernel.at(60, lambda: fleet.add_workers(2))
    fleet.run_until(lambda: running.runs_on == 5)
    assert 150 <= fleet.kernel.now <= 190


@pytest.mark.long
@pytest.mark.parametrize("latency_s", [1.01, 5.0])
def test_many_jobs_proceed_while_the_master_answers_slowly(latency_s: float) -> None:
    """Each answer of the master takes longer than the poll interval. All jobs await the same poll, and no job waits for a second one."""
    fleet = fleet_of(2 * JOBS, jobs=JOBS)
    fleet.masters.begin(MasterFault("slow", delay_s=latency_s))
    fleet.run(60 + 6 * latency_s)
    assert {job.runs_on for job in fleet.jobs.values()} == {1}


@pytest.mark.long
def test_many_jobs_detect_failures_while_the_master_is_frozen() -> None:
    """All jobs run, the two masters answer no more requests, and the query of each job fails. Each loop restarts its queries after two cycles of four timeouts."""
    fleet = fleet_of(2 * JOBS, jobs=JOBS)
    fleet.run_until(lambda: all(job.runs_on for job in fleet.jobs.values()))
    fleet.masters.hang()
    for job in fleet.jobs.values():
        fleet.kernel.after(5, job.model.fail_queries(FAILURE))
    fleet.run(90)
    assert {tuple(job.path[:4]) for job in fleet.jobs.values()} == {
        ("WaitingForResources", "Deploying", "Executing", "Restarting")
    }
