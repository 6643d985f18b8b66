"""Runs a fleet: the job of `flight_departures` once for each airport of New York, as one mapped task."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_adaptive.operators import AdaptiveSparkOperator

with DAG(
    dag_id="flight_airports",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param("/tmp/flight_airports", type="string", description="directory of inputs, outputs and jobs")
    },
    tags=["airflow-adaptive", "example"],
):
    airports = AdaptiveSparkOperator.partial(
        task_id="airports",
        application=f"{Path(__file__).parent}/jobs/flight_departures.py",
        application_args=[
            "--input={{ params.directory }}/{{ task.job }}/input",
            "--output={{ params.directory }}/{{ task.job }}/output",
        ],
        job_directory="file://{{ params.directory }}/jobs",
        map_index_template="{{ task.job }}",
        driver_memory="512m",
        executor_memory="512m",
    ).expand_kwargs(
        [
            {"job": "newark", "parallelism": (1, 4)},
            {"job": "kennedy", "parallelism": (1, 4)},
            {"job": "la_guardia", "parallelism": (1, 2)},
        ]
    )
