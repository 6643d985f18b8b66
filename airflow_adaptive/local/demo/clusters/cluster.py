"""The part of the demo that depends on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self


class DemoEnvironmentError(Exception):
    """The environment cannot be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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
        ...

    @property
    def description(self) -> str:
        """One line about the cluster that the user can open."""
        ...

    @property
    def airflow_environment(self) -> Mapping[str, str]:
        """Environment variables of Airflow with its connections to the cluster."""
        ...

    def parameters(self, flights: Path) -> Mapping[str, str]:
        """Return the parameters of the DAG run, for a directory of input, output and job."""
        ...

    def generator_target(self, flights: Path) -> Sequence[str]:
        """Return the arguments that tell the generator where to publish the flights; see `parameters`."""
        ...

    def changes(self) -> Sequence[Change]:
        """Return the changes in their order: the job waits, starts, grows, shrinks, and loses its driver."""
        ...

    def add_two_slots(self) -> None:
        """Add two slots and, if the cluster has none for it, the resources of a driver."""
        ...
