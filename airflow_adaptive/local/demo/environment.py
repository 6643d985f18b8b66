"""The environment of the demo: Spark, Airflow, the generator and the working directory."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Self

import airflow_adaptive
from airflow_adaptive.local.airflow import USERNAME, LocalAirflow
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.example_dags import example_dags
from airflow_adaptive.local.demo.job import DAG, JOB, Job
from airflow_adaptive.local.demo.replay import Replay
from airflow_adaptive.local.demo.report import Reporter
from airflow_adaptive.local.demo.sink import Sink
from airflow_adaptive.local.waiting import wait_until

PARSE_TIMEOUT_S = 60.0
"""Maximum time until Airflow has parsed the DAG."""


class DemoEnvironmentError(Exception):
    """The environment cannot be started."""


class DemoEnvironment:
    """A context manager that starts all processes and stops them again. The working directory stays.

    Attributes:
        cluster: Spark cluster, without a worker at first.
        airflow: Airflow, whose default Spark connection points at the cluster.
        generator: generator, which has published nothing at first.
        sink: output of the job.
    """

    def __init__(self, directory: Path, days_per_second: float, reporter: Reporter) -> None:
        """Describe the environment.

        Args:
            directory: working directory. An existing directory is deleted first.
            days_per_second: days of flights that the generator publishes per second.
            reporter: prints the addresses of the started processes.
        """
        self._directory = directory.resolve()
        self._flights = self._directory / "flights"
        self._days_per_second = days_per_second
        self._reporter = reporter
        self._dags = example_dags(Path(airflow_adaptive.__file__).parent)
        self._closing = ExitStack()
        self.cluster = LocalCluster(self._directory / "spark")
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
        return f"{self.airflow.url}/adaptive/ui/jobs/{JOB}"

    def trigger_job(self) -> Job:
        """Start a DAG run, which runs the job on the data of this environment."""
        return Job(self.airflow.api, self.airflow.api.trigger(DAG, {"directory": str(self._flights)}))

    def publish_flights(self, until: date) -> None:
        """Have the generator publish the flights before a day."""
        self.generator.release(until, self._days_per_second)

    def kill_driver(self) -> None:
        """Kill the job's driver (SIGKILL)."""
        for driver in self.cluster.state()["activedrivers"]:
            self.cluster.kill_driver(driver["id"])

    def _start(self, closing: ExitStack) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        (self._flights / "input").mkdir(parents=True)
        closing.enter_context(self.cluster)
        self._reporter.report(f"the Spark master runs without a worker: {self.cluster.ui_url}")
        env = {"AIRFLOW_CONN_SPARK_DEFAULT": self.cluster.airflow_connection}
        self.airflow = closing.enter_context(LocalAirflow(self._directory / "airflow", self._dags, env=env))
        wait_until(self._dag_is_parsed, PARSE_TIMEOUT_S, f"DAG {DAG!r} in {self._dags}")
        self._reporter.report(
            f"Airflow runs: {self.airflow.url} (user {USERNAME}, password in {self.airflow.password_file})"
        )
        self.generator = Replay(self._flights / "input")
        closing.callback(self.generator.stop)

    def _dag_is_parsed(self) -> bool:
        errors = self.airflow.api.import_errors()
        if errors:
            raise DemoEnvironmentError("\n".join(errors))
        return self.airflow.api.has_dag(DAG)
