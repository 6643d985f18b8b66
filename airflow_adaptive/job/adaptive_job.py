"""What a DAG author's script calls: `AdaptiveJob(build).run()`."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.balance import Balancer, SparkPlacement
from airflow_adaptive.job.batch import BatchQuery
from airflow_adaptive.job.conf import DriverSettings, read_settings
from airflow_adaptive.job.control import ControlLoop
from airflow_adaptive.job.directory import JobDirectory
from airflow_adaptive.job.documents import SECRET_CONF_VARIABLE, DriverState, Status
from airflow_adaptive.job.executors import Executors
from airflow_adaptive.job.failures import hide
from airflow_adaptive.job.fence import Fence
from airflow_adaptive.job.log import LogReader
from airflow_adaptive.job.output import Output
from airflow_adaptive.job.queries import JobQueries
from airflow_adaptive.job.repartition import StateRepartition
from airflow_adaptive.job.reporter import Reporter
from airflow_adaptive.job.watchdog import EXIT_FENCED, LeaseWatchdog
from airflow_adaptive.job.work import JobWork
from airflow_adaptive.job.writers import Build

log = logging.getLogger(__name__)
"""Unless the script configures logging, warnings go to the driver's output, which its worker keeps."""

EXIT_FAILED: Final = 1
"""Exit code of a driver in which nothing can run any more."""

WATCHDOG_GRACE_S: Final = 5.0
"""How long after the end of the lease the control loop may take to stop the queries by itself."""

SUBMISSION_ID: Final = re.compile(r"driver-\d{14}-\d+")
"""How a standalone master names drivers (`spark.deploy.driverIdPattern`), and a worker their directories."""


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
            SystemExit: this driver must not, or can't, run a query any more.
        """
        spark = _session()
        conf = spark.sparkContext.getConf()
        end = _run(spark, read_settings(lambda name: conf.get(name, None)), self._build)
        if end is DriverState.FENCED:
            sys.exit(EXIT_FENCED)
        if end is DriverState.FAILED:
            sys.exit(EXIT_FAILED)
        spark.stop()


def _session() -> SparkSession:
    """The session; with the secret properties, which came in the environment since arguments can be seen by others."""
    builder = SparkSession.builder
    secrets: dict[str, str] = json.loads(os.environ.pop(SECRET_CONF_VARIABLE, "{}"))
    hide(secrets.values())
    for name, value in secrets.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _run(spark: SparkSession, settings: DriverSettings, build: Build) -> DriverState:
    """Put the driver together and let it run."""
    clock = time.monotonic
    directory = JobDirectory(spark, settings.directory)
    fence = Fence(epoch=settings.epoch, nonce=settings.nonce, lease_timeout_s=settings.lease_timeout_s, clock=clock)
    watchdog = LeaseWatchdog(fence.overdue_s, grace_s=WATCHDOG_GRACE_S)
    identity = _identity(spark, settings)
    loop = ControlLoop(
        identity,
        log=LogReader(
            directory,
            job=settings.job,
            clock=clock,
            report=log.warning,
            orphan_timeout_s=settings.orphan_timeout_s,
        ),
        fence=fence,
        query=JobWork(
            JobQueries(
                spark, build, job=settings.job, checkpoint=directory.checkpoint, repartition=StateRepartition(spark)
            ),
            BatchQuery(spark, job=settings.job),
        ),
        executors=Executors(spark, clock=clock, complain=log.warning),
        balancer=Balancer(SparkPlacement(spark, complain=log.warning), clock=clock),
        reporter=Reporter(
            directory, heartbeat_interval_s=settings.heartbeat_interval_s, clock=clock, complain=log.warning
        ),
        guard=watchdog.guard,
        settings=settings,
        clock=clock,
        sleep=_pause(identity),
        complain=log.warning,
    )
    watchdog.start()
    try:
        return loop.run()
    finally:
        watchdog.close()


def _pause(identity: Status) -> Callable[[float], None]:
    """Sleeps, and sees to the driver's output before; where a worker keeps none there is nothing to see to."""
    if identity.submission_id is None:
        return time.sleep
    output = Output(Path.cwd(), clock=time.monotonic, complain=log.warning)

    def pause(seconds: float) -> None:
        output.bound()
        time.sleep(seconds)

    return pause


def _identity(spark: SparkSession, settings: DriverSettings) -> Status:
    """What all reports of this driver have in common."""
    directory = Path.cwd().name
    return Status(
        job=settings.job,
        epoch=settings.epoch,
        nonce=settings.nonce,
        sequence=0,
        at="",
        state=DriverState.STARTING,
        submission_id=directory if SUBMISSION_ID.fullmatch(directory) else None,
        application_id=spark.sparkContext.applicationId,
        ui_url=spark.sparkContext.uiWebUrl,
    )
