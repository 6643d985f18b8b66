"""Counts departures and computes mean delays per carrier and hour, with a range of parallelism, exactly once."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_adaptive.operators import AdaptiveSparkOperator
from airflow_adaptive.sensors import SparkResourcesSensor

PARALLELISM = (1, 4)  # from one slot to four slots

with DAG(
    dag_id="flight_departures",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param("/tmp/flight_departures", type="string", description="directory of input, output and job")
    },
    tags=["airflow-adaptive", "example"],
):
    # The sensor makes the wait for slots visible in the DAG. The sensor reserves no slots, and the job waits for its slots, too.
    resources = SparkResourcesSensor(
        task_id="resources",
        parallelism=PARALLELISM,
        driver_memory="512m",
        executor_memory="512m",
    )

    departures = AdaptiveSparkOperator(
        task_id="departures",
        job="flight_departures",
        application=f"{Path(__file__).parent}/jobs/flight_departures.py",
        application_args=[
            "--input={{ params.directory }}/input",
            "--output={{ params.directory }}/output",
            "--files-per-batch=20",
        ],
        job_directory="file://{{ params.directory }}/jobs",
        parallelism=PARALLELISM,
        driver_memory="512m",
        executor_memory="512m",
        resource_stabilization_timeout="2 s",
        scaling_interval_min="5 s",
        executing_stabilization_timeout="5 s",
    )

    resources >> departures
