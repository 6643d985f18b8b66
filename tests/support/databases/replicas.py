"""An Airflow as teams run it: a database server, and several processes of each component, which tests kill."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from airflow_adaptive.local.airflow import Component, Config
from tests.support.airflow.airflow_under_test import RESTART_GRACE_S, AirflowUnderTest
from tests.support.databases.postgresql import PostgresqlServer
from tests.support.databases.redis_server import RedisServer
from tests.support.repository import ROOT

API_SERVER: Final = "api-server-1"

REPLICA_NAMES: Final = (API_SERVER, "scheduler-1", "scheduler-2", "triggerer-1", "triggerer-2", "dag-processor-1")

CELERY_WORKER: Final = "celery-worker"

WORKER_ARGUMENTS: Final = ("worker", "--concurrency", "2", "--skip-serve-logs", "--without-gossip", "--without-mingle")

API_WORKERS: Final = 2
"""Processes of the API server."""

REPLICA_VARIABLE: Final = "AIRFLOW_ADAPTIVE_TEST_REPLICA"

RESTART_DELAY_S: Final = 2.0
"""Time after which a replica that has ended is started again."""

OWNER: Final = (
    "SELECT job.hostname FROM trigger JOIN job ON job.id = trigger.triggerer_id "
    "WHERE trigger.classpath LIKE '%.AdaptiveJobTrigger'"
)


def hostname() -> str:
    """Return the name of a replica, which Airflow stores as the host name of the process."""
    return os.environ.get(REPLICA_VARIABLE, "localhost")


class ReplicatedAirflow(AirflowUnderTest):
    """An Airflow with several processes of each component, on a database of a PostgreSQL server.

    Tasks run in the LocalExecutor, or in a Celery worker with Redis as broker.
    """

    def __init__(
        self, home: Path, dags_folder: Path, server: PostgresqlServer, broker: RedisServer, *, env: Mapping[str, str]
    ) -> None:
        """Describe an Airflow, and create its empty database. `start` starts the Airflow."""
        self.server = server
        self.database = f"airflow_{uuid4().hex}"
        database = server.create_database(self.database)
        config: Config = {
            # The first request of a server on a busy machine takes longer than the default of 5 s.
            "workers": {"execution_api_timeout": "60"},
            "database": {"sql_alchemy_conn": database},
            "core": {"hostname_callable": f"{__name__}.hostname", "executor": "CeleryExecutor,LocalExecutor"},
            "celery": {"broker_url": broker.url, "result_backend": f"db+{database}", "sync_parallelism": "1"},
            "triggerer": {"triggerer_health_check_threshold": "10"},
        }
        super().__init__(home, dags_folder, config=config, env={"PYTHONPATH": str(ROOT), **env})
        self._replica = ""
        self._versions: dict[str, Mapping[str, str]] = {}
        self._replicas: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all components and the Celery worker, and wait until each component is healthy."""
        super().start()
        self._spawn_replica(CELERY_WORKER)

    def restore(self) -> None:
        """Start the replicas that tests have killed, or that have ended, and wait until they are healthy."""
        missing = [name for name in REPLICA_NAMES if not self._is_alive(name)]
        for name in missing:
            self._spawn_replica(name)
        self._wait_until_healthy(*{_component(name) for name in missing})

    def _is_alive(self, name: str) -> bool:
        """Return whether a replica runs. A replica that an outage has ended may not have been started again."""
        return name in self._replicas and self._replicas[name].poll() is None

    def trigger_owner(self) -> str | None:
        """Return the triggerer that runs the loop of the only job, None if no triggerer runs it."""
        return next(iter(self.trigger_owners()), None)

    def trigger_owners(self) -> Counter[str]:
        """Return the number of loops of each triggerer."""
        return Counter(str(row.hostname) for row in self.rows(OWNER))

    def rows(self, query: str) -> Sequence[Any]:
        """Return the rows of a query of Airflow's database."""
        return self.server.execute(query, self.database)

    def kill_replica(self, name: str) -> None:
        """Kill one process and its child processes (SIGKILL), as if its container died."""
        process = self._replicas.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def upgrade_replica(self, name: str, version: Mapping[str, str]) -> None:
        """Stop one process gracefully, and start it with other environment variables, which select another version of the package."""
        process = self._replicas[name]
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(RESTART_GRACE_S)
        self.kill_replica(name)
        self._versions[name] = version
        self._spawn_replica(name)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No component of Airflow runs during the block, except for the Celery worker, which waits for tasks.

        The API server starts first: Airflow fails a task if the API server does not answer its first requests.
        """
        for name in REPLICA_NAMES:
            self.kill_replica(name)
        yield
        self._spawn_replica(API_SERVER)
        self._wait_until_healthy(Component.API_SERVER)
        self.restore()

    @contextmanager
    def supervised(self) -> Iterator[Counter[str]]:
        """Start a replica again when it ends, as systemd and Kubernetes do, also one that ends at the end of the block.

        Yields:
            the number of restarts of each replica.
        """
        restarts: Counter[str] = Counter()
        is_over = threading.Event()

        def supervise() -> None:
            while not is_over.wait(RESTART_DELAY_S):
                for name in [name for name, process in self._replicas.items() if process.poll() is not None]:
                    restarts[name] += 1
                    self._spawn_replica(name)

        thread = threading.Thread(target=supervise)
        thread.start()
        try:
            yield restarts
        finally:
            is_over.set()
            thread.join()
        self.restore()

    def stop(self) -> None:
        """End all processes, including running tasks."""
        super().stop()
        for process in self._replicas.values():
            process.wait()
        self._replicas.clear()

    @property
    def _environment(self) -> dict[str, str]:
        return {**super()._environment, REPLICA_VARIABLE: self._replica, **self._versions.get(self._replica, {})}

    def _spawn(self, component: Component) -> None:
        for name in REPLICA_NAMES:
            if _component(name) is component:
                self._spawn_replica(name)

    def _spawn_replica(self, name: str) -> None:
        self._replica = name
        if name == CELERY_WORKER:
            self._replicas[name] = self._run("celery", *WORKER_ARGUMENTS)
        else:
            super()._spawn(_component(name))
            self._replicas[name] = self._processes[_component(name)]

    def _run(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        given = ("--workers", str(API_WORKERS)) if command == Component.API_SERVER else arguments
        return super()._run(command, *given)


def _component(replica: str) -> Component:
    return Component(replica.rpartition("-")[0])
