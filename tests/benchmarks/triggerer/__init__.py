"""What one triggerer needs for 10, 100 and 1,000 jobs.

Real loops over the real composition root (`launch.job_ports`): the HTTP client, job directories on this machine's disk, asset state
store and XComs. The cluster is the fake of the contract suite behind HTTP in a process of its own, with drivers that read the
log and report; every few seconds a worker dies and another one joins. Airflow's supervisor is a stub that answers one question at a
time, each in 15 ms.
"""

from __future__ import annotations

from collections.abc import Mapping

MEMORY_MB = 512
"""Of a driver, and of an executor."""

HEARTBEAT_S = 2.0
"""Of the drivers: each looks at its log, commits a batch and reports so often."""

Measurements = Mapping[str, float]
"""What was measured, by its name with the unit."""


def name_of(number: int) -> str:
    """Id of a job."""
    return f"job-{number:04}"
