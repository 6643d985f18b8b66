"""What a DAG author's script calls: `AdaptiveJob(build).run()`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from airflow_adaptive.job.control.watchdog import EXIT_FENCED
from airflow_adaptive.job.entry import unmanaged_script
from airflow_adaptive.job.entry.driver import EXIT_FAILED, Driver
from airflow_adaptive.job.protocol.conf import read_settings
from airflow_adaptive.job.protocol.documents import DriverState
from airflow_adaptive.job.queries.batch_query import BatchQuery
from airflow_adaptive.job.queries.job_queries import JobQueries
from airflow_adaptive.job.queries.workload import JobWorkload
from airflow_adaptive.job.queries.writers import Build
from airflow_adaptive.job.state.repartition import CheckpointRepartitioner


class AdaptiveJob:
    """A job whose parallelism is decided elsewhere: streaming, or a batch that runs once.

    Example:
        ```python
        def departures(spark, parallelism):
            flights = spark.readStream.schema(SCHEMA).parquet(INPUT).repartition(parallelism["read"])
            return flights.groupBy(...).count().writeStream.format("parquet").option("path", OUTPUT)


        AdaptiveJob(departures).run()
        ```
    """

    def __init__(self, build: Build) -> None:
        """Describe the job; nothing runs before `run`.

        Args:
            build: makes the job's query, `(spark, parallelism) -> df.writeStream...`, not started, or a list of
                queries, each with a `queryName` of its own. It is called again when a plan changes what it has asked
                `parallelism` for, while the queries of the call before still run; so it must give the same queries each
                time but for the parallelism. The name of a single query is the job's id unless the function sets one;
                checkpoints are the runtime's, one that it sets is not used. Or it makes a batch,
                `-> df.write.mode("overwrite").option("path", ...)`, not saved: the job finishes with it; a restart runs
                it again from the beginning.
        """
        self._build = build

    def run(self) -> None:
        """Run the queries as the scheduler directs; return when it has finished or was stopped.

        Raises:
            NotSubmittedError: nobody directs: the script was not submitted by the adaptive scheduler.
            AdaptiveJobError: the script has started a query before.
            SystemExit: this driver must not, or can't, run a query any more.
        """
        unmanaged_script.disable_hooks()
        spark = SparkSession.builder.getOrCreate()
        conf = spark.sparkContext.getConf()
        end = _run(Driver(spark, read_settings(lambda name: conf.get(name, None))), self._build)
        if end is DriverState.FENCED:
            sys.exit(EXIT_FENCED)
        if end is DriverState.FAILED:
            sys.exit(EXIT_FAILED)
        spark.stop()


def _run(driver: Driver, build: Build) -> DriverState:
    """Direct what the author's function makes."""
    spark, job = driver.spark, driver.settings.job
    queries = JobQueries(
        spark, build, job=job, checkpoint=driver.directory.checkpoint, repartition=CheckpointRepartitioner(spark)
    )
    return driver.run(JobWorkload(queries, BatchQuery(spark, job=job)))
