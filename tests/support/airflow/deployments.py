"""Deployments of a job: DAGs as Airflow stores them, and what the loop of the job has published of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from airflow.sdk import DAG

from airflow_adaptive._core.codec import encode_plain
from airflow_adaptive._core.deployment import Declaration
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from tests.support.airflow.airflow_app import AirflowApp


def store_dag(airflow_app: AirflowApp, folder: Path, code: str = "1", **changes: Any) -> Declaration:
    """Airflow stores the DAG `flights` with these parameters of its task; returns what the task declares when it runs."""
    file = folder / "flights.py"
    file.write_text(f"# {changes}")
    with DAG("flights", schedule=None) as dag:
        arguments: dict[str, Any] = {
            "application": "/dags/departures.py",
            "job_directory": "file:///jobs",
            "parallelism": (1, 4),
            **changes,
        }
        task = AdaptiveSparkOperator(task_id="stream", job="departures", **arguments)
    dag.fileloc = str(file)
    airflow_app.store_dag(dag)
    staged = SimpleNamespace(script=f"file:///jobs/departures/code/{code * 64}/run_departures.py")
    return task._declaration(cast(JobSpec, staged))


def deployed(running: Declaration, newest: Declaration | None = None) -> dict[str, Any]:
    """The published deployments of a scenario, whose running driver has no name of a deployment, and of one that was redeployed as `new`."""
    declarations = {"": running} if newest is None else {"": running, "new": newest}
    return {"deployment": {"declarations": encode_plain(declarations)}}
