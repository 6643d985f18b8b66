"""Counts canceled flights per carrier and day. The function that builds the query is in the DAG file, so the job needs no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param, task

with DAG(
    dag_id="flight_cancellations",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param("/tmp/flight_cancellations", type="string", description="directory of input, output and job")
    },
    tags=["airflow-adaptive", "example"],
) as dag:

    @task.adaptive_spark(
        job="flight_cancellations",
        job_directory="file://{{ params.directory }}/jobs",
        parallelism=(1, 4),
        driver_memory="512m",
        executor_memory="512m",
    )
    def cancellations(spark: Any, parallelism: Mapping[str, int], directory: str) -> Any:
        """The driver calls this function, with `spark` and `parallelism`. Everything that the function uses is in it, imported, or an argument."""
        from pyspark.sql import functions as F  # noqa: PLC0415  Airflow needs no pyspark to parse the DAG.

        schema = "carrier string, scheduled timestamp, departed boolean, delay_minutes int"
        flights = spark.readStream.schema(schema).json(f"{directory}/input")
        days = flights.withWatermark("scheduled", "1 hour").groupBy("carrier", F.window("scheduled", "1 day"))
        counts = days.agg(F.count_if(~F.col("departed")).alias("cancellations"))
        return counts.writeStream.format("parquet").outputMode("append").option("path", f"{directory}/output")

    cancellations(directory="{{ params.directory }}")  # type: ignore[call-arg]  # The driver passes the others.
