"""Everything that the story needs, started and stopped together: Spark, Airflow, the generator, and a directory."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from airflow_adaptive.local.airflow import LocalAirflow
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.job import DAG, JOB, Job
from airflow_adaptive.local.demo.replay import Replay
from airflow_adaptive.local.demo.report import Reporter
from airflow_adaptive.local.waiting import wait_until

DAGS = Path(__file__).parents[3] / "dags"

PARSE_TIMEOUT_S = 60.0
"""For Airflow to find the DAG."""


class StageError(Exception):
    """The stage can't be set up."""


class Stage:
    """A context manager; its directory is made anew when it is entered, and stays for a look afterwards.

    Attributes:
        cluster: Spark, without a worker at first.
        airflow: knows the cluster as its default Spark connection.
        generator: has published nothing yet.
        output: what the job writes.
    """

    def __init__(self, directory: Path, days_per_second: float, reporter: Reporter) -> None:
        """Describe it; entering it starts it.

        Args:
            directory: for everything; removed first if it is there.
            days_per_second: speed of the generator.
            reporter: hears of what starts.
        """
        self._directory = directory.resolve()
        self._flights = self._directory / "flights"
        self._days_per_second = days_per_second
        self._reporter = reporter
        self._closing = ExitStack()
        self.cluster = LocalCluster(self._directory / "spark")
        self.output = self._flights / "output"

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._start(closing)
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()

    def trigger(self) -> Job:
        """Start a run of the DAG on this stage's directory."""
        run_id = self.airflow.api.trigger(DAG, {"directory": str(self._flights)})
        return Job(self.airflow.api, run_id, self._flights / "jobs" / JOB)

    def _start(self, closing: ExitStack) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        (self._flights / "input").mkdir(parents=True)
        closing.enter_context(self.cluster)
        self._reporter.say(f"Spark's master is up, without a worker: {self.cluster.ui_url}")
        self.airflow = closing.enter_context(self._describe_airflow())
        wait_until(self._dag_is_parsed, PARSE_TIMEOUT_S, f"DAG {DAG!r} in {DAGS}")
        passwords = "simple_auth_manager_passwords.json.generated"
        self._reporter.say(
            f"Airflow is up: {self.airflow.url} (user admin, password in {self.airflow.home / passwords})"
        )
        self.generator = Replay(self._flights / "input", self._days_per_second)
        closing.callback(self.generator.stop)

    def _describe_airflow(self) -> LocalAirflow:
        connection = {
            "conn_type": "spark",
            "host": self.cluster.master_url,
            "extra": {"ui-port": urlsplit(self.cluster.ui_url).port, "rest-port": urlsplit(self.cluster.rest_url).port},
        }
        env = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}
        return LocalAirflow(self._directory / "airflow", DAGS, env=env)

    def _dag_is_parsed(self) -> bool:
        errors = self.airflow.api.import_errors()
        if errors:
            raise StageError("\n".join(errors))
        return self.airflow.api.has_dag(DAG)
