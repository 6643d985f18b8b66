"""An Airflow as teams run it: a database server, and several processes of each component, which tests kill."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_adaptive.local.airflow import Component, Config, merged
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.databases.postgresql import PostgresqlServer
from tests.support.repository import ROOT

REPLICAS: Final[Mapping[Component, int]] = {
    Component.API_SERVER: 1,
    Component.SCHEDULER: 2,
    Component.TRIGGERER: 2,
    Component.DAG_PROCESSOR: 1,
}

API_WORKERS: Final = 2
"""Processes of the API server."""

REPLICA_VARIABLE: Final = "AIRFLOW_ADAPTIVE_TEST_REPLICA"

OWNER: Final = (
    "SELECT job.hostname FROM trigger JOIN job ON job.id = trigger.triggerer_id "
    "WHERE trigger.classpath LIKE '%.AdaptiveJobTrigger'"
)


def hostname() -> str:
    """Return the name of a replica, which Airflow stores as the host name of the process."""
    return os.environ.get(REPLICA_VARIABLE, "localhost")


class ReplicatedAirflow(AirflowUnderTest):
    """An Airflow with several processes of each component, on a database of a PostgreSQL server."""

    def __init__(
        self, home: Path, dags_folder: Path, server: PostgresqlServer, *, config: Config, env: Mapping[str, str]
    ) -> None:
        """Describe an Airflow, and create its empty database. `start` starts the Airflow."""
        self.server = server
        self._database = home.name
        own: Config = {
            "database": {"sql_alchemy_conn": server.create_database(home.name)},
            "core": {"hostname_callable": f"{__name__}.hostname"},
            "triggerer": {"triggerer_health_check_threshold": "10"},
        }
        super().__init__(home, dags_folder, config=merged(own, config), env={"PYTHONPATH": str(ROOT), **env})
        self._replica = ""
        self._replicas: dict[str, subprocess.Popen[bytes]] = {}

    def trigger_owner(self) -> str | None:
        """Return the triggerer that runs the loop of the only job, None if no triggerer runs it."""
        owners = self.server.execute(OWNER, self._database)
        return str(owners[0].hostname) if owners else None

    def kill_replica(self, name: str) -> None:
        """Kill one process and its child processes (SIGKILL), as if its container died."""
        process = self._replicas.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all processes, including running tasks."""
        super().stop()
        for process in self._replicas.values():
            process.wait()
        self._replicas.clear()

    @property
    def _environment(self) -> dict[str, str]:
        return {**super()._environment, REPLICA_VARIABLE: self._replica}

    def _spawn(self, component: Component) -> None:
        for number in range(1, REPLICAS[component] + 1):
            self._replica = f"{component}-{number}"
            super()._spawn(component)
            self._replicas[self._replica] = self._processes[component]

    def _run(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        given = ("--workers", str(API_WORKERS)) if command == Component.API_SERVER else arguments
        return super()._run(command, *given)
