"""Assembles and runs the driver loop of a driver."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import FORMATS, SUBMISSION_ID_VARIABLE, DriverState, DriverStatus
from airflow_adaptive.job.control.driver_run import run_driver
from airflow_adaptive.job.control.fence import boot_time
from airflow_adaptive.job.control.interfaces import DriverInterfaces, ExecutorPool, Journal, Workload
from airflow_adaptive.job.control.journal_reader import JournalReader
from airflow_adaptive.job.control.status_reporter import FileStatusReporter
from airflow_adaptive.job.control.watchdog import WATCHDOG_GRACE_S, LeaseWatchdog
from airflow_adaptive.job.entry.driver_output import DriverOutput
from airflow_adaptive.job.entry.driver_process import DriverProcess
from airflow_adaptive.job.entry.operation_thread import OperationThread
from airflow_adaptive.job.executors.executor_pool import SparkExecutorPool
from airflow_adaptive.job.executors.task_balancer import LocalityBalancer, SparkPlacement
from airflow_adaptive.job.hadoop_directory import HadoopJobDirectory
from airflow_adaptive.job.spark_internals import report_spark, require_supported, separate_task_ids

log = logging.getLogger(__name__)
"""Unless the script configures logging, warnings go to the driver's output, which the worker keeps."""

STANDALONE_ID: Final = re.compile(r"driver-\d{14}-\d+")
"""Format of the ids that a standalone master assigns to drivers (`spark.deploy.driverIdPattern`), and a worker to their
directories."""


class Driver:
    """A driver: a session, a job directory, and the driver loop between them."""

    def __init__(self, spark: SparkSession, settings: DriverSettings) -> None:
        """Create a driver; nothing is read or written yet.

        Args:
            spark: session of the driver.
            settings: settings from the submission.

        Raises:
            UnsupportedVersionError: the Spark of the driver is too old.
        """
        require_supported(spark.version)
        separate_task_ids(spark, settings.epoch)
        self.spark = spark
        self.settings = settings
        self.process = DriverProcess(spark)
        self.directory = HadoopJobDirectory(spark, settings.directory)
        self.executors: ExecutorPool = SparkExecutorPool(spark, clock=time.monotonic, warn=log.warning)
        self.journal: Journal = JournalReader(
            self.directory,
            job=settings.job,
            clock=boot_time,
            report=log.warning,
            orphan_timeout_s=settings.orphan_timeout_s,
        )

    def run(self, workload: Workload, notice: str | None = None) -> DriverState:
        """Execute the scheduler's directives until the driver ends.

        Args:
            workload: queries or batch of the job.
            notice: information about this driver for the user (`DriverStatus.notice`).

        Returns:
            See `run_driver`.

        Raises:
            Exception: see `run_driver`.
        """
        settings, clock = self.settings, boot_time
        watchdog = LeaseWatchdog(self.process.jvm, grace_s=WATCHDOG_GRACE_S)
        identity = _identity(self.spark, settings, notice)
        interfaces = DriverInterfaces(
            journal=self.journal,
            workload=workload,
            executors=self.executors,
            balancer=LocalityBalancer(SparkPlacement(self.spark, warn=log.warning), clock=clock),
            start_operation=OperationThread,
            reporter=FileStatusReporter(
                self.directory, heartbeat_interval_s=settings.heartbeat_interval_s, clock=clock, warn=log.warning
            ),
            clock=clock,
            sleep=_pause(identity),
            warn=log.warning,
        )
        return run_driver(identity, interfaces, settings, watchdog=watchdog, exit_process=self.process.exit)


def _pause(identity: DriverStatus) -> Callable[[float], None]:
    """Return a function that truncates the driver's output if due, and sleeps.

    Only the worker of a standalone cluster keeps the output in the folder of the driver, without a limit.
    """
    if identity.submission_id is None or identity.submission_id != _standalone_id():
        return time.sleep
    output = DriverOutput(Path.cwd(), clock=time.monotonic, warn=log.warning)

    def pause(seconds: float) -> None:
        output.truncate_if_due()
        time.sleep(seconds)

    return pause


def _identity(spark: SparkSession, settings: DriverSettings, notice: str | None) -> DriverStatus:
    """Return the fields that all statuses of this driver share."""
    return DriverStatus(
        job=settings.job,
        epoch=settings.epoch,
        nonce=settings.nonce,
        sequence=0,
        at="",
        state=DriverState.STARTING,
        submission_id=os.environ.get(SUBMISSION_ID_VARIABLE) or _standalone_id(),
        application_id=spark.sparkContext.applicationId,
        ui_url=spark.sparkContext.uiWebUrl,
        notice=notice,
        formats=FORMATS,
        spark=report_spark(spark.version),
    )


def _standalone_id() -> str | None:
    """Return the submission id that a standalone worker gave the folder of the driver as its name, None on other clusters."""
    directory = Path.cwd().name
    return directory if STANDALONE_ID.fullmatch(directory) else None
