"""The environment of the demo: the cluster, Airflow, the generator and the working directory."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Self

import airflow_adaptive
from airflow_adaptive.local.airflow import USERNAME, LocalAirflow
from airflow_adaptive.local.demo.clusters.cluster import DemoCluster, DemoEnvironmentError
from airflow_adaptive.local.demo.example_dags import example_dags
from airflow_adaptive.local.demo.job import Job
from airflow_adaptive.local.demo.replay import Replay
from airflow_adaptive.local.demo.report import Reporter
from airflow_adaptive.local.demo.sink import Sink
from airflow_adaptive.local.waiting import wait_until

PARSE_TIMEOUT_S = 60.0
"""Maximum time until Airflow has parsed the DAG."""


class DemoEnvironment:
    """A context manager that starts all processes and stops them again. The working directory stays.

    Attributes:
        cluster: cluster, without a slot at first.
        airflow: Airflow, whose default connections point at the cluster.
        generator: generator, which has published nothing at first.
        sink: output of the job.
    """

    def __init__(self, cluster: DemoCluster, directory: Path, days_per_second: float, reporter: Reporter) -> None:
        """Describe the environment.

        Args:
            cluster: cluster, which was not started.
            directory: working directory. Its content is deleted first.
            days_per_second: days of flights that the generator publishes per second.
            reporter: prints the addresses of the started processes.
        """
        self._directory = directory.resolve()
        self._flights = self._directory / "flights"
        self._days_per_second = days_per_second
        self._reporter = reporter
        self._dags = example_dags(Path(airflow_adaptive.__file__).parent)
        self._closing = ExitStack()
        self.cluster = cluster
        self.sink = Sink(self._flights / "output")

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._start(closing)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def job_url(self) -> str:
        """Address of the job's page."""
        return f"{self.airflow.url}/adaptive/ui/jobs/{self.cluster.dag}"

    def trigger_job(self) -> Job:
        """Start a DAG run, which runs the job on the data of this environment."""
        dag, parameters = self.cluster.dag, self.cluster.parameters(self._flights)
        return Job(self.airflow.api, dag, self.airflow.api.trigger(dag, parameters))

    def publish_flights(self, until: date) -> None:
        """Have the generator publish the flights before a day."""
        self.generator.release(until, self._days_per_second)

    def _start(self, closing: ExitStack) -> None:
        empty(self._directory)
        (self._flights / "input").mkdir(parents=True)
        closing.enter_context(self.cluster)
        self._reporter.report(f"the cluster runs without a slot: {self.cluster.description}")
        env = self.cluster.airflow_environment
        self.airflow = closing.enter_context(LocalAirflow(self._directory / "airflow", self._dags, env=env))
        wait_until(self._dag_is_parsed, PARSE_TIMEOUT_S, f"DAG {self.cluster.dag!r} in {self._dags}")
        self._reporter.report(
            f"Airflow runs: {self.airflow.url} (user {USERNAME}, password in {self.airflow.password_file})"
        )
        self.generator = Replay(self.cluster.generator_target(self._flights))
        closing.callback(self.generator.stop)

    def _dag_is_parsed(self) -> bool:
        errors = self.airflow.api.import_errors()
        if errors:
            raise DemoEnvironmentError("\n".join(errors))
        return self.airflow.api.has_dag(self.cluster.dag)


def empty(directory: Path) -> None:
    """Create a directory, or delete its content. The directory itself stays, because the nodes of a Kubernetes cluster may mount it."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
