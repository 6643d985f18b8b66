"""Counts departures as flight_departures does, on Kubernetes: the pods mount a directory that each node has at the same path."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_adaptive.operators import AdaptiveSparkOperator
from airflow_adaptive.sensors import SparkResourcesSensor

PARALLELISM = (1, 4)  # from one slot to four slots

DIRECTORY = "{{ params.directory }}"

CONF = {
    f"spark.kubernetes.{role}.volumes.hostPath.flights.{name}": DIRECTORY
    for role in ("driver", "executor")
    for name in ("mount.path", "options.path")
}

with DAG(
    dag_id="flight_departures_kubernetes",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param("/tmp/flight_departures", type="string", description="directory of input, output and job"),
        "image": Param("apache/spark:4.3.0", type="string", description="image with PySpark 4.0 or later"),
        "service_account": Param("spark-driver", type="string", description="service account of the driver"),
        "pod_template": Param(None, type=["null", "string"], description="pod template of driver and executors"),
    },
    tags=["airflow-adaptive", "example"],
    render_template_as_native_obj=True,  # A parameter without a value stays None.
):
    resources = SparkResourcesSensor(
        task_id="resources",
        parallelism=PARALLELISM,
        driver_memory="512m",
        executor_memory="512m",
        conf=CONF,
    )

    departures = AdaptiveSparkOperator(
        task_id="departures",
        job="flight_departures_kubernetes",
        application=f"{Path(__file__).parent}/jobs/flight_departures.py",
        application_args=[
            f"--input={DIRECTORY}/input",
            f"--output={DIRECTORY}/output",
            "--files-per-batch=20",
        ],
        job_directory=f"file://{DIRECTORY}/jobs",
        parallelism=PARALLELISM,
        driver_memory="512m",
        executor_memory="512m",
        image="{{ params.image }}",
        service_account_name="{{ params.service_account }}",
        driver_pod_template="{{ params.pod_template }}",
        executor_pod_template="{{ params.pod_template }}",
        conf=CONF,
        resource_stabilization_timeout="2 s",
        scaling_interval_min="5 s",
        executing_stabilization_timeout="5 s",
    )

    resources >> departures
