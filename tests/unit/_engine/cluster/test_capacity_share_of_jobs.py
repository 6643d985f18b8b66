"""Several jobs on one cluster share its slots without a slot that is given twice: under one triggerer, and under two that do not communicate."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from airflow_adaptive._core.scheduler.allocator import minimum_slots
from airflow_adaptive._core.scheduler.machine import default_requirements
from tests.lab.fleet.cluster.driver import DriverTimes
from tests.lab.fleet.jobs import FleetJob, JobFleet
from tests.support.examples import examples, is_nightly
from tests.support.runtime.quick_jobs import QUICK

pytestmark = pytest.mark.long

SEEDS = range(5 if is_nightly() else 1)


class Competition(JobFleet):
    """Jobs that compete for workers of so many cores."""

    def __init__(self, *workers: int, triggerers: int = 1, seed: int = 0, storage_s: float = 0.0) -> None:
        super().__init__(seed, DriverTimes(boot_s=(8, 8), registration_s=(1, 1)))
        for _ in range(triggerers):
            self.add_triggerer()
        self.add_workers(*workers)
        self.storage.faults.slow(storage_s, "*/journal/*")

    def add(self, name: str, bounds: tuple[int, int], triggerer: int = 0, **more: object) -> FleetJob:
        options = {"resource_wait_timeout": -1, **QUICK, **more}
        return self.add_job(name, bounds, triggerer=self.triggerers[triggerer], **options)

    @property
    def capacity(self) -> int:
        return sum(worker.total.cpu_millicores // 1000 for worker in self.cluster.workers)

    @property
    def free(self) -> int:
        return sum(worker.free.cpu_millicores // 1000 for worker in self.cluster.workers)

    def slots_after(self, seconds: float) -> dict[str, int]:
        """Run, and return the slots of the running queries by job."""
        self.run(seconds)
        return {name: job.runs_on for name, job in self.jobs.items()}

    def check_claims(self) -> None:
        """No plan is made on cores that are not there, or that another job has. Checked each second."""
        claimed = {name: claims(job) for name, job in self.jobs.items()}
        assert sum(claimed.values()) <= self.capacity, f"{claimed} on {self.capacity} cores"
        self.kernel.after(1.0, self.check_claims)

    def check_stable(self) -> None:
        """Each job that can run uses its plan, and no job can get more slots."""
        jobs = self.jobs.values()
        assert {job.state for job in jobs} <= {"Executing", "WaitingForResources"}
        waiting = [minimum(job) for job in jobs if job.state == "WaitingForResources"]
        assert all(self.free < 1 + slots for slots in waiting), f"{self.free} cores are free, {waiting} wait"
        assert sum(map(claims, jobs)) + self.free == self.capacity


def claims(job: FleetJob) -> int:
    """Cores that the job holds or has planned."""
    has_driver = job.loop is not None and job.loop.state.driver is not None
    return 1 + job.plan_slots if has_driver else 0


def minimum(job: FleetJob) -> int:
    """Slots for the lower bounds of the job."""
    return minimum_slots(job.spec.graph, default_requirements(job.spec.graph, job.spec.options))


# ---- one triggerer --------------------------------------------------------------------------------------------------


def test_job_that_waits_gets_the_slots_that_come_one_by_one() -> None:
    fleet = Competition(4)
    fleet.add("greedy", (1, 12), priority=9)
    fleet.add("large", (3, 3), starts_s=30)
    for second in range(60, 180, 30):
        fleet.kernel.at(second, lambda: fleet.add_workers(1))
    fleet.check_claims()
    assert fleet.slots_after(240) == {"greedy": 3, "large": 3}


@pytest.mark.parametrize("storage_s", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_capacity_share_gives_no_slot_twice_while_workers_come(seed: int, storage_s: float) -> None:
    chance = Random(seed)
    fleet = Competition(4, 4, seed=seed, storage_s=storage_s)
    for number in range(8):
        lower = chance.randint(1, 3)
        fleet.add(f"job-{number}", (lower, lower + 5), priority=chance.randint(1, 9), starts_s=chance.uniform(0, 60))
    for second in range(20, 120, 20):
        fleet.kernel.at(second, lambda: fleet.add_workers(chance.randint(1, 4)))
    fleet.check_claims()
    fleet.run(240)
    fleet.check_stable()
    states = [job.loop.state for job in fleet.jobs.values() if job.loop is not None]
    assert [state.num_restarts - state.num_rescales for state in states] == [0] * 8


# ---- two triggerers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("triggerers", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_settle_when_workers_have_come_and_gone(triggerers: int, seed: int) -> None:
    """Eight jobs of all sizes begin within a minute, and workers come and go for three."""
    chance = Random(seed)
    fleet = Competition(4, 4, triggerers=triggerers, seed=seed)
    for number in range(8):
        lower = chance.randint(1, 3)
        bounds = (lower, lower + chance.randint(0, 5))
        restarts = {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"}
        starts_s, priority = chance.choice([0, 0, chance.uniform(0, 60)]), chance.randint(1, 3)
        options = {"starts_s": starts_s, "priority": priority, "restart_strategy": restarts}
        fleet.add(f"job-{number}", bounds, number % triggerers, **options)
    for second in range(40, 200, 20):
        join = partial(fleet.add_workers, chance.randint(1, 4))
        fleet.kernel.at(second, join if chance.random() < 0.55 else partial(lose_host, fleet, chance))
    fleet.run(400)
    fleet.check_stable()
    assert any(job.runs_on for job in fleet.jobs.values())


def lose_host(fleet: Competition, chance: Random) -> None:
    """One of the hosts fails, unless it is the last one."""
    workers = fleet.cluster.workers
    if len(workers) > 1:
        fleet.drivers.lose_host(chance.choice(workers).worker_id)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_triggerers_that_plan_on_the_same_slots_find_out_and_plan_again(seed: int) -> None:
    fleet = Competition(4, 4, triggerers=2, seed=seed)
    jobs = [fleet.add(name, (1, 8), number) for number, name in enumerate(("first", "second"))]
    fleet.run(120)
    fleet.check_stable()
    assert all(job.loop is not None and job.loop.state.restarts.attempts == 0 for job in jobs)


@pytest.mark.parametrize("seed", range(examples(10)))
def test_two_drivers_leave_no_slot_for_each_other_only_for_a_while(seed: int) -> None:
    fleet = Competition(2, triggerers=2, seed=seed)
    for number, name in enumerate(("first", "second")):
        fleet.add(name, (1, 1), number)
    fleet.run_until(lambda: sorted(job.runs_on for job in fleet.jobs.values()) == [0, 1])


def test_driver_of_another_triggerer_that_waits_for_a_place_is_counted() -> None:
    fleet = Competition(1, triggerers=2)
    fleet.add("first", (1, 1))
    fleet.add("second", (1, 8), 1, starts_s=20)
    fleet.kernel.at(10, lambda: fleet.cluster.add_foreign_load(2, 512))
    fleet.kernel.at(30, lambda: fleet.add_workers(2))
    assert fleet.slots_after(60) == {"first": 0, "second": 0}
