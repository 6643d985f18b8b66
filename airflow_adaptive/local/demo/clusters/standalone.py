"""The demo on a Spark standalone cluster on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from airflow_adaptive.local.demo.clusters.cluster import Change

WORKER_MB: Final = 1024


class StandaloneDemo:
    """Starts and kills the processes of a standalone cluster."""

    dag = "flight_departures"

    def __init__(self, directory: Path) -> None:
        self._cluster = LocalCluster(directory)
        self._workers: list[LocalWorker] = []

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.stop()

    @property
    def description(self) -> str:
        """One line about the cluster that the user can open."""
        return f"Spark master: {self._cluster.ui_url}"

    @property
    def airflow_environment(self) -> Mapping[str, str]:
        """Environment variables of Airflow with its connection to the cluster."""
        return {"AIRFLOW_CONN_SPARK_DEFAULT": self._cluster.airflow_connection}

    def parameters(self, flights: Path) -> Mapping[str, str]:
        """Return the parameters of the DAG run."""
        return {"directory": str(flights)}

    def generator_target(self, flights: Path) -> Sequence[str]:
        """Return the directory that the job reads."""
        return ("--directory", str(flights / "input"))

    def changes(self) -> Sequence[Change]:
        """Return the changes in their order."""
        return (
            Change(
                title="The job waits for resources; a worker joins, with room for the driver and one slot",
                apply=lambda: self._add_worker(2),
                slots=1,
            ),
            Change(
                title="A second worker joins, with one slot: the job scales up",
                apply=lambda: self._add_worker(1),
                slots=2,
            ),
            Change(
                title="The second worker is killed with SIGKILL: the job continues with the remaining slot",
                apply=lambda: self._cluster.kill_worker(self._workers.pop()),
                slots=1,
            ),
            Change(
                title="The driver is killed with SIGKILL: the job restarts after a backoff",
                apply=self._kill_driver,
                slots=1,
            ),
        )

    def add_two_slots(self) -> None:
        """Add a worker."""
        self._add_worker(2)

    def _add_worker(self, cores: int) -> None:
        self._workers.append(self._cluster.add_worker(cores=cores, memory_mb=cores * WORKER_MB))

    def _kill_driver(self) -> None:
        for driver in self._cluster.state()["activedrivers"]:
            self._cluster.kill_driver(driver["id"])
