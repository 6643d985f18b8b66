"""A job under a real Airflow for tests that break Airflow: its DAG, its runs, its rows, and who ran queries when."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import psutil

from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive.local.airflow import Component
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness.deployment import CONF, OPTIONS, SINK
from tests.lab.faults.harness.job_under_fault import JobUnderFault
from tests.lab.faults.harness.outcome import Outcome
from tests.support.airflow.airflow_under_test import AirflowUnderTest

TASK = "job"

LIFETIME_S = 12
"""Of a trigger that is to be recycled soon; more than the shortest deferral."""

DAG = dedent(
    """
    import datetime
    import pathlib
    import time

    from airflow.sdk import DAG
    from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator

    while pathlib.Path("{hold}").exists():
        time.sleep(0.1)

    with DAG("{dag}", **{dag_options}):
        AdaptiveSparkOperator(task_id="job", job="{job}", **{options})
    """
)

SHAPE: dict[str, Any] = {
    "parallelism": (1, 1),
    "max_parallelism": 2,
    "driver_memory": "512m",
    "executor_memory": "512m",
    "conf": CONF,
}

STATEMENT_TIMEOUT_S = 30.0

LAST_WORDS_S = 30.0
"""For a job whose test has failed."""


class AirflowJob(JobUnderFault):
    """One job, one or more DAGs that run it, and the Airflow that is broken."""

    def __init__(self, airflow: AirflowUnderTest, cluster: LocalCluster, dags: Path, root: Path, job: str) -> None:
        self.airflow = airflow
        self.job = job
        self.dag = job
        self.run_id = ""
        self.dags = dags
        super().__init__(cluster, root, root / "jobs", job)

    def __post_init__(self) -> None:
        for folder in ("in", "jobs"):
            (self.root / folder).mkdir()
        self.hold = self.root / "hold"
        self.script = self.root / "script.py"
        self.script.write_bytes(self.program.read_bytes())

    # ---- what people do ----

    def deploy(self, dag: str = "", dag_options: dict[str, Any] | None = None, **options: Any) -> None:
        """Write a DAG file that runs the job; who parses it waits while `hold` exists."""
        placed = {
            "application": str(self.script),
            "application_args": [str(self.root)],
            "py_files": [str(SINK)],
            "job_directory": f"file://{self.base}",
        }
        declared = OPTIONS | SHAPE | placed | options
        schedule = {"schedule": None} | (dag_options or {})
        names = {"dag": dag or self.dag, "job": self.job, "hold": self.hold}
        file = self.dags / f"{names['dag']}.py"
        hidden = file.with_suffix(".new")
        hidden.write_text(DAG.format(**names, dag_options=schedule, options=declared))
        hidden.rename(file)

    def start(self, dag: str = "") -> str:
        """Start a run of a DAG as soon as Airflow knows it.

        Airflow's scheduler and DAG processor end if a DAG or a run is deleted while they read it (`ObjectDeletedError`,
        `StaleDataError`), so they may end after a test that deletes one.
        """
        self.dag = dag or self.dag
        self.wait_for(f"DAG {self.dag}", self._knows_dag)
        self.run_id = self.airflow.api.trigger(self.dag)
        return self.run_id

    def _knows_dag(self) -> bool:
        for component in (Component.SCHEDULER, Component.DAG_PROCESSOR):
            self.airflow.restart_if_ended(component)
        return self.airflow.api.has_dag(self.dag)

    def begin(self, **options: Any) -> None:
        """Deploy the job, run it, and wait until it has taken in what there is."""
        self.deploy(**options)
        self.start()
        self.run_well()

    def set_state(self, state: str) -> None:
        """Set the task's state, as a person does."""
        self._task("PATCH", {"new_state": state})

    def clear(self) -> None:
        self.airflow.api.clear_task(self.dag, self.run_id, TASK)

    def mark_run(self, state: str) -> None:
        self.request("PATCH", f"/dagRuns/{self.run_id}", {"state": state})

    def delete_run(self) -> None:
        self.request("DELETE", f"/dagRuns/{self.run_id}")

    def pause(self, paused: bool) -> None:
        self.request("PATCH", "", {"is_paused": paused})

    def desired_state(self, desired_state: str) -> None:
        document = {"value": desired_state, "at": datetime.now(UTC).isoformat()}  # two equal documents are one request
        self.airflow.api.set_asset_state(f"{JOBS}{self.job}", "desired_state", document)

    def require(self, lower: int, upper: int) -> None:
        bounds = {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}
        self.airflow.api.set_asset_state(f"{JOBS}{self.job}", "requirements", {"value": bounds})

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A request to Airflow's REST API about the DAG."""
        return self.airflow.api._request(method, f"/api/v2/dags/{self.dag}{path}", body)

    def _task(self, method: str, body: dict[str, Any]) -> Any:
        return self.request(method, f"/dagRuns/{self.run_id}/taskInstances/{TASK}", body)

    # ---- observations ----

    def task_state(self) -> str | None:
        return self.airflow.api.task_state(self.dag, self.run_id, TASK)

    def try_number(self) -> int:
        return self.airflow.api.try_number(self.dag, self.run_id, TASK)

    def xcom(self, key: str) -> Any:
        return self.airflow.api.xcom(self.dag, self.run_id, TASK, key)

    def task_log(self) -> str:
        """Of all tries."""
        tries = range(1, self.try_number() + 1)
        return "\n".join(self.airflow.api.task_log(self.dag, self.run_id, TASK, number) for number in tries)

    def trigger_logs(self) -> str:
        """Of all triggers of the DAG, as files: they outlive the task that they belong to."""
        files = (self.airflow.home / "logs" / f"dag_id={self.dag}").rglob("*.trigger.*.log")
        return "".join(file.read_text() for file in files)

    def owner(self) -> str:
        """The loop that wrote the newest document of the log."""
        newest = self.newest()
        return "" if newest is None else newest.owner

    def wait_loop(self, other_than: str) -> str:
        """Another loop has taken over."""
        return self.wait_for("another loop", lambda: self.owner() if self.owner() != other_than else "")

    def wait_task(self, *states: str | None) -> None:
        self.wait_for(f"the task in {states}", lambda: self.task_state() in states)

    def wait_for_log(self, text: str) -> None:
        """The task's log, or that of one of its triggers, has that text."""
        self.wait_for(f"{text!r} in the task's log", lambda: text in self.task_log())

    def story(self) -> str:
        newest = self.newest()
        stands = None if newest is None else (newest.number, newest.directive.epoch, newest.scheduler["current"])
        log = self.task_log() if self.run_id else ""
        return f"{log}\n--- {stands}, {self.status()}, {len(self.rows())} of {self.files * 10} rows"

    # ---- Airflow's own ----

    def database(self, statement: str) -> list[Any]:
        """Ask Airflow's database."""
        with closing(sqlite3.connect(self.airflow.home / "airflow.db", timeout=STATEMENT_TIMEOUT_S)) as database:
            return database.execute(statement).fetchall()

    def _runs_have_ended(self) -> bool:
        return not self.database("SELECT 1 FROM dag_run WHERE state IN ('queued', 'running')")

    def command(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run an Airflow command beside its components."""
        return self.airflow._run(arguments[0], *arguments[1:])

    def kill_workers(self) -> None:
        """Those that run a task now, with what runs it (-9)."""
        scheduler = psutil.Process(self.airflow._process(Component.SCHEDULER).pid)
        workers = [process for process in scheduler.children(recursive=True) if _runs_a_task(process)]
        assert workers
        for process in [child for worker in workers for child in worker.children(recursive=True)] + workers:
            process.kill()

    # ---- the end ----

    def suspend(self) -> Outcome:
        """Suspend the job and see what has come out; no driver must be left."""
        self.desired_state("suspended")
        self.wait_task("success")
        assert self.is_in("Finished")
        return self.outcome()

    def remove(self) -> None:
        """Remove the DAGs, and with them what a failed test has left."""
        with suppress(TimeoutError):
            wait_until(self._runs_have_ended, LAST_WORDS_S, "the end of all runs")
        for file in self.dags.glob(f"{self.job}*.py"):
            self.dag = file.stem
            file.unlink()
            with suppress(httpx.HTTPStatusError):
                self.request("DELETE", "")
        with suppress(TimeoutError):
            wait_until(lambda: not self.cluster.state()["activedrivers"], LAST_WORDS_S, "the end of all drivers")
            return
        self.cluster.reset()


def _runs_a_task(process: psutil.Process) -> bool:
    title = " ".join(process.cmdline())
    return title.startswith("airflow worker -- LocalExecutor") and "<idle>" not in title


@contextmanager
def still(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A component of Airflow and all its children stand still meanwhile."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        os.kill(member.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for member in family:
            if member.is_running():
                os.kill(member.pid, signal.SIGCONT)
