"""Derives a scenario from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from airflow_adaptive._core.scheduler.config.options import StandbyMode
from tests.lab.fleet.scenario import FAULTS_END_S, PlannedEvent, PlannedJob, Scenario


class Kind(NamedTuple):
    """How often a kind of event occurs, and for how long.

    Attributes:
        weight: relative frequency.
        shortest: shortest duration, seconds; 0 for events without a duration.
        longest: longest duration, seconds.
    """

    weight: float
    shortest: float = 0.0
    longest: float = 0.0


KINDS: Final[dict[str, Kind]] = {
    "master_is_slow": Kind(3, 20, 90),
    "master_hangs": Kind(2, 5, 60),
    "master_refuses": Kind(2, 5, 60),
    "master_answers_nonsense": Kind(1, 5, 40),
    "master_loses_responses": Kind(2, 5, 40),
    "master_is_stale": Kind(1, 5, 30),
    "token_rotates": Kind(1),
    "worker_is_lost": Kind(2, 10, 120),
    "worker_joins": Kind(2, 30, 200),
    "executors_are_late": Kind(2, 30, 200),
    "storage_is_slow": Kind(2, 20, 150),
    "storage_hangs": Kind(2, 5, 80),
    "storage_fails": Kind(2, 5, 40),
    "storage_loses_responses": Kind(2, 5, 40),
    "listing_lags": Kind(2, 20, 100),
    "directory_hangs": Kind(1, 20, 120),
    "airflow_hangs": Kind(2, 10, 90),
    "airflow_is_slow": Kind(2, 20, 90),
    "airflow_fails": Kind(2, 5, 60),
    "airflow_empties_stores": Kind(1),
    "triggerer_is_killed": Kind(2, 5, 60),
    "triggerer_is_stopped": Kind(2, 5, 60),
    "triggerer_is_frozen": Kind(2, 3, 90),
    "clock_steps": Kind(3),
    "trigger_is_moved": Kind(2),
    "driver_is_killed": Kind(3),
    "driver_is_frozen": Kind(3, 3, 60),
    "driver_python_is_frozen": Kind(1, 3, 60),
    "driver_loses_storage": Kind(2, 5, 60),
    "query_fails": Kind(2),
    "user_sets_requirements": Kind(4),
    "calendar_sets_requirements": Kind(2),
    "user_and_calendar_set_requirements": Kind(2),
    "user_requests_too_much": Kind(1),
    "user_suspends": Kind(1, 20, 60),
    "user_cancels": Kind(0.5),
    "task_is_marked_failed": Kind(0.5),
    "task_is_cleared": Kind(0.5),
    "controller_fails": Kind(1, 10, 60),
}
"""What can happen, by the name of the function in `faults`."""

STORAGE_KINDS: Final = (("s3", "s3-compatible"), ("gs",), ("hdfs", "disk"))
"""Kinds of storages. A scenario has at most one storage of each protocol."""

OVERSIZED_SHARE: Final = 0.25
"""Part of the scenarios in which one job requires more slots than the cluster can have."""

GROWING_SHARE: Final = 0.05
"""Part of the scenarios in which a job may use all slots, and a worker joins while the job's scale-up controller fails."""

POLICY_SHARE: Final = 0.25
"""Part of the scenarios in which about half of the jobs have a rescale policy."""

STANDBY_SHARE: Final = 0.2
"""Part of the scenarios in which about two thirds of the jobs have a standby, and the cluster has one more worker."""

EVENTS: Final = (4, 18)
"""Smallest and largest number of events in a scenario of a few jobs."""


def scenario_of(seed: int, jobs: int | None = None) -> Scenario:
    """Return the scenario of a seed; `jobs` is the number of jobs instead of 3 to 10."""
    random, pace = Random(seed), Random(f"{seed} pace")
    count = random.randint(3, 10) if jobs is None else jobs
    storages = tuple(map(random.choice, random.sample(STORAGE_KINDS, k=random.randint(1, 3))))
    connections = random.randint(1, 2)
    planned = tuple(_job(random, pace, number, len(storages), connections) for number in range(count))
    needed = sum(job.bounds[0] + 1 for job in planned)
    scenario = Scenario(
        seed=seed,
        jobs=planned,
        triggerers=random.randint(1, 3),
        workers=_workers(random, needed),
        storages=storages,
        connections=connections,
        events=_events(random, count),
        poll_interval_s=pace.choice((1.0, 2.0)),
    )
    scenario = _with_oversized_job(scenario, Random(f"{seed} oversized job"))
    scenario = _with_growing_job(scenario, Random(f"{seed} growth"))
    scenario = _with_policies(scenario, Random(f"{seed} policy"))
    return _with_standbys(scenario, Random(f"{seed} successors"))


def _with_oversized_job(scenario: Scenario, random: Random) -> Scenario:
    """Let the last job of some scenarios require more slots than the cluster can have, often after a step of a clock."""
    if random.random() >= OVERSIZED_SHARE:
        return scenario
    *others, last = scenario.jobs
    slots = 2 * sum(scenario.workers)
    oversized = replace(last, bounds=(slots, slots), starts_at=round(random.uniform(20, 150), 1))
    step = PlannedEvent(
        at=round(oversized.starts_at - random.uniform(1, 15), 1),
        kind="clock_steps",
        duration=0.0,
        target=random.randrange(1 << 16),
        size=round(random.random(), 3),
    )
    events = tuple(sorted((*scenario.events, step), key=lambda event: event.at))
    return replace(scenario, jobs=(*others, oversized), events=events)


def _with_growing_job(scenario: Scenario, random: Random) -> Scenario:
    """Let the first job of some scenarios use all slots: its controller decides about each growth, because no growth reaches the upper bound."""
    if random.random() >= GROWING_SHARE:
        return scenario
    first, *others = scenario.jobs
    growing = replace(first, bounds=(first.bounds[0], 2 * sum(scenario.workers)))
    fails, joins = (_event(random, name) for name in ("controller_fails", "worker_joins"))
    at = round(fails.at + random.uniform(0, fails.duration / 2), 1)
    joins = replace(joins, at=at, duration=min(joins.duration, round(FAULTS_END_S - at, 1)))
    events = tuple(sorted((*scenario.events, fails, joins), key=lambda event: event.at))
    return replace(scenario, jobs=(growing, *others), events=events)


def _with_policies(scenario: Scenario, random: Random) -> Scenario:
    """Let some jobs of some scenarios have a rescale policy."""
    if random.random() >= POLICY_SHARE:
        return scenario
    jobs = tuple(replace(job, has_policy=random.choice((False, True))) for job in scenario.jobs)
    return replace(scenario, jobs=jobs)


def _with_standbys(scenario: Scenario, random: Random) -> Scenario:
    """Let some jobs of some scenarios have a standby."""
    if random.random() >= STANDBY_SHARE:
        return scenario
    jobs = tuple(replace(job, standby=random.choice([*StandbyMode])) for job in scenario.jobs)
    return replace(scenario, jobs=jobs, workers=(*scenario.workers, scenario.workers[0]))


def _job(random: Random, pace: Random, number: int, storages: int, connections: int) -> PlannedJob:
    lower = random.choice((1, 1, 2))
    return PlannedJob(
        name=f"job-{number}",
        starts_at=round(random.uniform(0, 20), 1),
        bounds=(lower, lower + random.randint(0, 4)),
        connection=random.randrange(connections),
        storage=random.randrange(storages),
        records=random.choice((None, None, random.randrange(200, 4000))),
        retries=random.choice((0, 0, 2)),
        documents=random.choice((0, 0, 150)),
        batch_s=pace.choice((1.0, 2.0, 4.0)),
    )


def _workers(random: Random, needed: int) -> tuple[int, ...]:
    """Return workers that have the cores for all lower bounds, and often some more."""
    cores = random.choice((4, 6, 8))
    return (cores,) * -(-(needed + random.randint(0, 8)) // cores)


def _events(random: Random, jobs: int) -> tuple[PlannedEvent, ...]:
    names, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
    count = round(random.randint(*EVENTS) * max(1.0, jobs / 10))
    events = [_event(random, name) for name in random.choices(names, weights, k=count)]
    return tuple(sorted(events, key=lambda event: event.at))


def _event(random: Random, name: str) -> PlannedEvent:
    kind = KINDS[name]
    duration = round(random.uniform(kind.shortest, kind.longest), 1)
    return PlannedEvent(
        at=round(random.uniform(5, FAULTS_END_S - duration), 1),
        kind=name,
        duration=duration,
        target=random.randrange(1 << 16),
        size=round(random.random(), 3),
    )
