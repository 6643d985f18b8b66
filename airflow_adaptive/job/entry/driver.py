"""Puts the control loop of a driver together, and lets it run; what it directs is given to it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.control.control_loop import ControlLoop
from airflow_adaptive.job.control.fence import Fence
from airflow_adaptive.job.control.interfaces import ExecutorPool, Journal, Workload
from airflow_adaptive.job.control.journal_reader import JournalReader
from airflow_adaptive.job.control.status_reporter import FileStatusReporter
from airflow_adaptive.job.control.watchdog import LeaseWatchdog
from airflow_adaptive.job.entry.driver_output import DriverOutput
from airflow_adaptive.job.executors.executor_pool import SparkExecutorPool
from airflow_adaptive.job.executors.task_balancer import LocalityBalancer, SparkPlacement
from airflow_adaptive.job.hadoop_directory import HadoopJobDirectory
from airflow_adaptive.job.protocol.conf import DriverSettings
from airflow_adaptive.job.protocol.documents import DriverState, DriverStatus

log = logging.getLogger(__name__)
"""Unless the script configures logging, warnings go to the driver's output, which its worker keeps."""

EXIT_FAILED: Final = 1
"""Exit code of a driver in which nothing can run any more."""

WATCHDOG_GRACE_S: Final = 5.0
"""How long after the end of the lease the control loop may take to stop the queries by itself."""

SUBMISSION_ID: Final = re.compile(r"driver-\d{14}-\d+")
"""How a standalone master names drivers (`spark.deploy.driverIdPattern`), and a worker their directories."""


class Driver:
    """One driver: a session, a job directory, and the loop between them."""

    def __init__(self, spark: SparkSession, settings: DriverSettings) -> None:
        """Nothing is read or written yet.

        Args:
            spark: the session.
            settings: what the driver was submitted with.
        """
        self.spark = spark
        self.settings = settings
        self.directory = HadoopJobDirectory(spark, settings.directory)
        self.executors: ExecutorPool = SparkExecutorPool(spark, clock=time.monotonic, warn=log.warning)
        self.journal: Journal = JournalReader(
            self.directory,
            job=settings.job,
            clock=time.monotonic,
            report=log.warning,
            orphan_timeout_s=settings.orphan_timeout_s,
        )

    def run(self, workload: Workload, notice: str | None = None) -> DriverState:
        """Obey the scheduler until the end.

        Args:
            workload: what the driver runs.
            notice: what people should know of this driver (`DriverStatus.notice`).

        Returns:
            See `ControlLoop.run`.

        Raises:
            Exception: the control loop itself failed; the query was stopped and the failure reported.
        """
        settings, clock = self.settings, time.monotonic
        fence = Fence(epoch=settings.epoch, nonce=settings.nonce, lease_timeout_s=settings.lease_timeout_s, clock=clock)
        watchdog = LeaseWatchdog(fence.overdue_s, grace_s=WATCHDOG_GRACE_S)
        identity = _identity(self.spark, settings, notice)
        loop = ControlLoop(
            identity,
            journal=self.journal,
            fence=fence,
            workload=workload,
            executors=self.executors,
            balancer=LocalityBalancer(SparkPlacement(self.spark, warn=log.warning), clock=clock),
            reporter=FileStatusReporter(
                self.directory, heartbeat_interval_s=settings.heartbeat_interval_s, clock=clock, warn=log.warning
            ),
            guard=watchdog.guard,
            settings=settings,
            clock=clock,
            sleep=_pause(identity),
            warn=log.warning,
        )
        watchdog.start()
        try:
            return loop.run()
        finally:
            watchdog.close()


def _pause(identity: DriverStatus) -> Callable[[float], None]:
    """Sleeps, and sees to the driver's output before; where a worker keeps none there is nothing to see to."""
    if identity.submission_id is None:
        return time.sleep
    output = DriverOutput(Path.cwd(), clock=time.monotonic, warn=log.warning)

    def pause(seconds: float) -> None:
        output.truncate_if_due()
        time.sleep(seconds)

    return pause


def _identity(spark: SparkSession, settings: DriverSettings, notice: str | None) -> DriverStatus:
    """What all reports of this driver have in common."""
    directory = Path.cwd().name
    return DriverStatus(
        job=settings.job,
        epoch=settings.epoch,
        nonce=settings.nonce,
        sequence=0,
        at="",
        state=DriverState.STARTING,
        submission_id=directory if SUBMISSION_ID.fullmatch(directory) else None,
        application_id=spark.sparkContext.applicationId,
        ui_url=spark.sparkContext.uiWebUrl,
        notice=notice,
    )
