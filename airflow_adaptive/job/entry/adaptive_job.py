"""The interface for the author's script: `AdaptiveJob(build).run()`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.conf import read_settings
from airflow_adaptive._core.protocol.documents import DriverState
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED
from airflow_adaptive.job.entry import unmanaged_script
from airflow_adaptive.job.entry.driver import DriverRuntime
from airflow_adaptive.job.queries.batch_query import BatchQuery, JobWorkload
from airflow_adaptive.job.queries.job_queries import JobQueries
from airflow_adaptive.job.queries.writers import Build
from airflow_adaptive.job.state.repartition import CheckpointRepartitioner


class AdaptiveJob:
    """A job whose parallelism the scheduler decides: streaming queries, or a batch that runs once.

    Example::

        def departures(spark, parallelism):
            flights = spark.readStream.schema(SCHEMA).parquet(INPUT).repartition(parallelism["read"])
            return flights.groupBy(...).count().writeStream.format("parquet").option("path", OUTPUT)


        AdaptiveJob(departures).run()
    """

    def __init__(self, build: Build) -> None:
        """Describe the job; nothing runs before `run`.

        Args:
            build: function that builds the query of the job, `(spark, parallelism) -> df.writeStream...`, not started,
                or a list of queries, each with its own `queryName`. The driver calls the function again when a plan
                changes a parallelism that the function has read, while the previous queries still run. Therefore the
                function must return the same queries every time, except for the parallelism. A single query has the
                job's id as its name unless the function sets one. The runtime sets the checkpoints and ignores a
                checkpoint that the function sets. Instead of queries, the function may build a batch, `->
                df.write.mode("overwrite").option("path", ...)`, not saved. The job finishes with the batch; a restart
                runs it again from the beginning.
        """
        self._build = build

    def run(self) -> None:
        """Run the queries as the scheduler directs; return when the job has finished or was stopped.

        Raises:
            MissingSettingsError: the adaptive scheduler did not submit the script.
            AdaptiveJobError: the script has started a query before.
            SystemExit: this driver cannot run queries any more. The process of a fenced driver ends without an exception.
        """
        unmanaged_script.disable_hooks()
        spark = SparkSession.builder.getOrCreate()
        conf = spark.sparkContext.getConf()
        driver = DriverRuntime(spark, read_settings(lambda name: conf.get(name, None)))
        job = driver.settings.job
        queries = JobQueries(
            spark,
            self._build,
            job=job,
            checkpoint=driver.directory.checkpoint,
            repartition=CheckpointRepartitioner(spark),
        )
        end = driver.run(JobWorkload(queries, BatchQuery(spark, job=job)))
        if end is DriverState.FAILED:
            sys.exit(EXIT_FAILED)
        spark.stop()
