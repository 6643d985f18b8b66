"""Scenarios: the jobs, the environment and everything that will happen to them, derived from a seed.

A scenario is data. The simulation of a scenario draws no decision that changes when one planned event is left out, so a failing scenario
can be shortened event by event (`shrink`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FAULTS_END_S: Final = 300.0
"""Faults begin and end before this time."""

RECOVERY_S: Final = 120.0
"""Least time without faults at the end. The simulation ends later if a job needs more time to recover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job.

    Attributes:
        name: id of the job.
        starts_at: start of its task, seconds.
        bounds: lower and upper bound of its parallelism.
        connection: number of the Airflow connection.
        storage: number of the storage of its job directory.
        records: number of records of a bounded job, None for a job that never ends.
        retries: number of retries of its task.
        documents: number of journal documents from the time before the simulation.
        batch_s: least duration of a batch, and of the pause of a query without new records, seconds.
        has_policy: whether a rescale policy advises the bounds of the job.
        standby: the option `standby`.
    """

    name: str
    starts_at: float
    bounds: tuple[int, int]
    connection: int
    storage: int
    records: int | None = None
    retries: int = 0
    documents: int = 0
    batch_s: float = 1.0
    has_policy: bool = False
    standby: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """A fault or a request that happens at a planned time.

    Attributes:
        at: time, seconds.
        kind: name of the fault or the request, see `faults`.
        duration: duration of a fault, seconds; 0 for a request and for a fault without an end.
        target: number that selects a job, a process, a storage or a driver; the simulation takes it modulo their number.
        size: number in [0, 1) that selects the size of the fault.
    """

    at: float
    kind: str
    duration: float
    target: int
    size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that one simulation needs.

    Attributes:
        seed: seed of the random values that the simulation draws, for example latencies.
        jobs: the jobs.
        triggerers: number of triggerers.
        workers: cores of each worker of the cluster.
        storages: kind of each storage.
        connections: number of connections to the cluster.
        events: what happens, in the order of the times.
        poll_interval_s: interval between two polls of a loop and of a driver.
        faults_end_s: time after which no fault is active.
        recovery_s: time after the faults.
    """

    seed: int
    jobs: tuple[PlannedJob, ...]
    triggerers: int
    workers: tuple[int, ...]
    storages: tuple[str, ...]
    connections: int
    events: tuple[PlannedEvent, ...] = field(repr=False)
    poll_interval_s: float = 1.0
    faults_end_s: float = FAULTS_END_S
    recovery_s: float = RECOVERY_S

    @property
    def duration_s(self) -> float:
        """Virtual duration of the simulation, seconds."""
        return self.faults_end_s + self.recovery_s
