"""What one triggerer needs for 10, 100 and 1,000 jobs.

Real loops over the real composition root (`_airflow.process.job_ports`): the HTTP client, job directories on this machine's disk, asset state
store and XComs. The cluster is the fake of the contract suite behind HTTP in a process of its own, with drivers that read the
log and report; every few seconds a worker dies and another one joins. Airflow's supervisor is a stub that answers one question at a
time, each in 15 ms.

Options inject outages when all jobs run: a slow master, a slow storage, a store that answers no request, and a restart of all loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEMORY_MB = 512
"""Of a driver, and of an executor."""

HEARTBEAT_S = 2.0
"""Interval at which each driver reads its journal, commits a batch and writes its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """Faults that begin when all jobs run.

    Attributes:
        master_delay_s: time that each response of the master takes, in seconds.
        storage_delay_s: time that each access to a job directory takes, in seconds.
        store_hangs: whether Airflow's store answers no request during the measurement.
        restart: whether all loops end and start again before the measurement.
    """

    master_delay_s: float = 0.0
    storage_delay_s: float = 0.0
    store_hangs: bool = False
    restart: bool = False


Measurements = Mapping[str, float]
"""What was measured, by its name with the unit."""


def name_of(number: int) -> str:
    """Id of a job."""
    return f"job-{number:04}"
