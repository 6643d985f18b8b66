"""The part of the demo that depends on the cluster, and the Spark standalone cluster on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self

from airflow_adaptive.local.cluster import LocalCluster, LocalWorker


class DemoEnvironmentError(Exception):
    """The environment cannot be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """A change of the cluster while the job runs.

    Attributes:
        title: description of the change.
        apply: changes the cluster.
        slots: slots that the job uses after the change.
    """

    title: str
    apply: Callable[[], None]
    slots: int


class DemoCluster(AbstractContextManager[Any], Protocol):
    """A cluster without a slot at first, and the source of the job. The end of the context removes everything of the demo from the cluster."""

    dag: str
    """The example DAG that runs the job on the cluster. The job has the same name."""

    def __enter__(self) -> Self:
        """Start the cluster, or create the namespace."""

    @property
    def description(self) -> str:
        """One line about the cluster that the user can open."""

    @property
    def airflow_environment(self) -> Mapping[str, str]:
        """Environment variables of Airflow with its connections to the cluster."""

    def parameters(self, flights: Path) -> Mapping[str, str]:
        """Return the parameters of the DAG run, for a directory of input, output and job."""

    def generator_target(self, flights: Path) -> Sequence[str]:
        """Return the arguments that tell the generator where to publish the flights; see `parameters`."""

    def changes(self) -> Sequence[ClusterChange]:
        """Return the changes in their order: the job waits, starts, grows, shrinks, and loses its driver."""

    def add_two_slots(self) -> None:
        """Add two slots and, if the cluster has none for it, the resources of a driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """What the user chooses.

    Attributes:
        kubeconfigs: files of which one contains the context.
        context: context of the cluster, whose user may create namespaces, accounts and roles.
        image: image with Spark.
        conf: Spark properties of the driver.
    """

    kubeconfigs: Sequence[Path]
    context: str
    image: str
    conf: Mapping[str, str] = field(default_factory=dict)


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

    def changes(self) -> Sequence[ClusterChange]:
        """Return the changes in their order."""
        return (
            ClusterChange(
                title="The job waits for resources; a worker joins, with room for the driver and one slot",
                apply=lambda: self._add_worker(2),
                slots=1,
            ),
            ClusterChange(
                title="A second worker joins, with one slot: the job scales up",
                apply=lambda: self._add_worker(1),
                slots=2,
            ),
            ClusterChange(
                title="The second worker is killed with SIGKILL: the job continues with the remaining slot",
                apply=lambda: self._cluster.kill_worker(self._workers.pop()),
                slots=1,
            ),
            ClusterChange(
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
