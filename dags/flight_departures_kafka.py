"""Counts departures as flight_departures does, from a topic of Kafka. Without a driver, the triggerer measures the lag of the topic."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_adaptive.operators import AdaptiveSparkOperator
from airflow_adaptive.sensors import SparkResourcesSensor

PARALLELISM = (1, 4)  # from one slot to four slots

with DAG(
    dag_id="flight_departures_kafka",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param("/tmp/flight_departures", type="string", description="directory of output and job"),
        "bootstrap_servers": Param("localhost:9092", type="string", description="addresses of brokers"),
        "topic": Param("flights", type="string", description="topic of the flights"),
        "connector": Param(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            type="string",
            description="Spark's connector for Kafka; 4.2.0 is the newest published version, and works with Spark 4.3",
        ),
    },
    tags=["airflow-adaptive", "example"],
):
    resources = SparkResourcesSensor(
        task_id="resources",
        parallelism=PARALLELISM,
        driver_memory="512m",
        executor_memory="512m",
    )

    departures = AdaptiveSparkOperator(
        task_id="departures",
        job="flight_departures_kafka",
        application=f"{Path(__file__).parent}/jobs/flight_departures.py",
        application_args=[
            "--bootstrap-servers={{ params.bootstrap_servers }}",
            "--topic={{ params.topic }}",
            "--output={{ params.directory }}/output",
        ],
        packages="{{ params.connector }}",
        kafka_conn_id="kafka_default",
        job_directory="file://{{ params.directory }}/jobs",
        parallelism=PARALLELISM,
        driver_memory="512m",
        executor_memory="512m",
        resource_stabilization_timeout="2 s",
        scaling_interval_min="5 s",
        executing_stabilization_timeout="5 s",
    )

    resources >> departures
