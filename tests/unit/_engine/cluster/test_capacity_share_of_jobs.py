"""Several jobs on one cluster: the real loops, under one triggerer, and under two triggerers that do not communicate."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from tests.lab.simulation.several_jobs import Competition
from tests.support.examples import examples, is_nightly
from tests.support.runtime.quick_jobs import QUICK, quiet  # noqa: F401  an autouse fixture

SEEDS = range(5 if is_nightly() else 1)


def competition(*workers: int, triggerers: int = 1, seed: int = 0, storage_s: float = 0.1) -> Competition:
    """A cluster with workers of so many cores."""
    simulation = Competition(triggerers, seed, storage_s)
    for cores in workers:
        simulation.add_worker(cores)
    return simulation


def only_what_is_there(simulation: Competition) -> None:
    """No plan is made on cores that are not there, or are another's."""

    def check() -> None:
        capacity = sum(worker.total.cpu_millicores // 1000 for worker in simulation.cluster.workers)
        claimed = {name: job.claims for name, job in simulation.jobs.items()}
        assert sum(claimed.values()) <= capacity, f"{claimed} on {capacity} cores"

    simulation.checks.append(check)


# ---- one triggerer --------------------------------------------------------------------------------------------------


def test_two_jobs_share_a_cluster_that_either_could_fill() -> None:
    simulation = competition(4, 4)
    for name in ("first", "second"):
        simulation.add_job(name, (1, 8), **QUICK)
    only_what_is_there(simulation)
    assert simulation.run(60) == {"first": 5, "second": 1}
    assert [job.path for job in simulation.jobs.values()] == [["WaitingForResources", "Deploying", "Executing"]] * 2


def test_cores_of_the_drivers_are_counted() -> None:
    simulation = competition(2, 2)
    for name in ("first", "second"):
        simulation.add_job(name, (1, 2), **QUICK)
    only_what_is_there(simulation)
    assert simulation.run(60) == {"first": 1, "second": 1}


def test_second_job_leaves_to_the_first_what_its_driver_has_not_requested_yet() -> None:
    simulation = competition(8)
    simulation.add_job("first", (4, 4), **QUICK)
    simulation.add_job("second", (1, 8), starts_s=4, **QUICK)
    only_what_is_there(simulation)
    assert simulation.run(60) == {"first": 4, "second": 2}


def test_ten_jobs_start_in_the_order_of_their_priorities() -> None:
    simulation = competition(4, 4, 4)
    for number in range(10):
        simulation.add_job(f"job-{number}", (1, 4), priority=number % 5, **QUICK)
    only_what_is_there(simulation)
    ran = [name for name, slots in simulation.run(60).items() if slots]
    assert ran == [f"job-{number}" for number in (2, 3, 4, 7, 8, 9)]


def test_ten_jobs_all_run_where_there_is_room_for_all() -> None:
    simulation = competition(8, 8, 8)
    for number in range(10):
        simulation.add_job(f"job-{number}", (1, 4), priority=number, **QUICK)
    only_what_is_there(simulation)
    assert simulation.run(60) == {**{f"job-{number}": 1 for number in range(8)}, "job-8": 2, "job-9": 4}


def test_job_that_waits_gets_the_slots_that_come_one_by_one() -> None:
    simulation = competition(4)
    simulation.add_job("greedy", (1, 12), priority=9, **QUICK)
    simulation.add_job("large", (3, 3), starts_s=30, **QUICK)
    for second in range(60, 180, 30):
        simulation.at(second, lambda: simulation.add_worker(1))
    only_what_is_there(simulation)
    assert simulation.run(240) == {"greedy": 3, "large": 3}


def test_wait_for_a_job_that_can_not_start_has_a_timeout() -> None:
    simulation = competition(4)
    simulation.add_job("running", (1, 12), **QUICK)
    simulation.add_job("too large", (20, 20), starts_s=30, **QUICK | {"resource_wait_timeout": "2 min"})
    simulation.at(60, lambda: simulation.add_worker(2))
    grown: list[float] = []
    simulation.checks.append(
        lambda: grown.append(simulation.clock.elapsed) if simulation.jobs["running"].runs_on == 5 else None
    )
    assert simulation.run(240)["running"] == 5
    assert 150 <= grown[0] <= 180


def test_what_a_job_gives_back_goes_to_the_one_that_waits() -> None:
    simulation = competition(5)
    simulation.add_job("first", (1, 8), **QUICK)
    simulation.add_job("second", (2, 2), starts_s=30, **QUICK)
    simulation.at(60, lambda: simulation.set_upper_bound("first", 1))
    only_what_is_there(simulation)
    assert simulation.run(120) == {"first": 1, "second": 2}


# ---- always ---------------------------------------------------------------------------------------------------------


def restless(triggerers: int, seed: int) -> Competition:
    """Ten jobs of all sizes that begin within a minute, on a cluster whose workers come and go for three."""
    chance = Random(seed)
    simulation = competition(4, 4, triggerers=triggerers, seed=seed)
    for number in range(10):
        lower = chance.randint(1, 3)
        simulation.add_job(
            f"job-{number}",
            (lower, lower + chance.randint(0, 5)),
            priority=chance.randint(1, 3),
            triggerer=number % triggerers,
            starts_s=chance.choice([0, 0, chance.uniform(0, 60)]),
            **QUICK | {"restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"}},
        )
    for second in range(40, 200, 20):
        join = chance.random() < 0.55
        simulation.at(
            second,
            partial(simulation.add_worker, chance.randint(1, 4)) if join else partial(simulation.kill_worker, chance),
        )
    return simulation


def check_stable(simulation: Competition) -> None:
    """Each job that can run uses its plan, and no job can get more slots."""
    jobs = simulation.jobs.values()
    assert {job.state.name for job in jobs} <= {"Executing", "WaitingForResources"}
    waiting = [job.minimum for job in jobs if job.state.name == "WaitingForResources"]
    assert all(simulation.free < 1 + minimum for minimum in waiting), (
        f"{simulation.free} cores are free, {waiting} wait"
    )
    assert sum(job.claims for job in jobs) + simulation.free == sum(
        worker.total.cpu_millicores // 1000 for worker in simulation.cluster.workers
    )


@pytest.mark.parametrize("triggerers", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_settle_when_workers_have_come_and_gone(triggerers: int, seed: int) -> None:
    simulation = restless(triggerers, seed)
    simulation.run(400)
    check_stable(simulation)
    assert any(job.runs_on for job in simulation.jobs.values())


@pytest.mark.parametrize("storage_s", [0.1, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_capacity_share_gives_no_slot_twice_while_workers_come(seed: int, storage_s: float) -> None:
    chance = Random(seed)
    simulation = competition(4, 4, seed=seed, storage_s=storage_s)
    for number in range(10):
        lower = chance.randint(1, 3)
        priority, starts_s = chance.randint(1, 9), chance.uniform(0, 60)
        simulation.add_job(f"job-{number}", (lower, lower + 5), priority=priority, starts_s=starts_s, **QUICK)
    for second in range(20, 120, 20):
        simulation.at(second, lambda: simulation.add_worker(chance.randint(1, 4)))
    only_what_is_there(simulation)
    simulation.run(240)
    check_stable(simulation)
    assert [job.state.num_restarts - job.state.num_rescales for job in simulation.jobs.values()] == [0] * 10


# ---- two triggerers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_two_triggerers_that_plan_on_the_same_slots_find_out_and_plan_again(seed: int) -> None:
    simulation = competition(4, 4, triggerers=2, seed=seed)
    for number, name in enumerate(("first", "second")):
        simulation.add_job(name, (1, 8), triggerer=number, **QUICK)
    simulation.run(120)
    check_stable(simulation)
    assert all(job.state.restarts.attempts == 0 for job in simulation.jobs.values())


@pytest.mark.parametrize("seed", range(examples(10)))
def test_two_drivers_that_leave_no_slot_for_each_other_do_not_do_so_for_ever(seed: int) -> None:
    simulation = competition(2, triggerers=2, seed=seed)
    for number, name in enumerate(("first", "second")):
        simulation.add_job(name, (1, 1), triggerer=number, **QUICK)
    assert sorted(simulation.run(300).values()) == [0, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_ten_jobs_under_two_triggerers_fill_the_cluster_within_minutes(seed: int) -> None:
    simulation = competition(8, 8, 4, triggerers=2, seed=seed)
    for number in range(10):
        simulation.add_job(f"job-{number}", (1, 4), triggerer=number % 2, **QUICK)
    simulation.run(180)
    check_stable(simulation)


def test_driver_of_another_triggerer_that_waits_for_a_place_is_counted() -> None:
    simulation = competition(1, triggerers=2)
    simulation.add_job("first", (1, 1), **QUICK)
    simulation.add_job("second", (1, 8), triggerer=1, starts_s=20, **QUICK)
    simulation.at(10, lambda: simulation.submit_foreign_driver(cores=2))
    simulation.at(30, lambda: simulation.add_worker(2))
    assert simulation.run(60) == {"first": 0, "second": 0}
