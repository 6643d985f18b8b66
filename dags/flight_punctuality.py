"""Runs two queries in one job, which share its slots two to one: mean delays per carrier and hour, and canceled flights."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_adaptive.graph import JobGraph, JobVertex, ParallelismRange
from airflow_adaptive.operators import AdaptiveSparkOperator

# Each slot sharing group is a query of the script with the same name.
GRAPH = JobGraph(
    job="flight_punctuality",
    vertices=(
        JobVertex(name="delays", slot_sharing_group="delays", parallelism=ParallelismRange(1, 4)),
        JobVertex(
            name="cancellations",
            slot_sharing_group="cancellations",
            parallelism=ParallelismRange(1, 2),
            stateful=False,
        ),
    ),
)

with DAG(
    dag_id="flight_punctuality",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param("/tmp/flight_punctuality", type="string", description="directory of input, output and job")
    },
    tags=["airflow-adaptive", "example"],
):
    AdaptiveSparkOperator(
        task_id="punctuality",
        job="flight_punctuality",
        job_graph=GRAPH,
        application=f"{Path(__file__).parent}/jobs/flight_punctuality.py",
        application_args=["--input={{ params.directory }}/input", "--output={{ params.directory }}/output"],
        job_directory="file://{{ params.directory }}/jobs",
        driver_memory="512m",
        executor_memory="512m",
    )
