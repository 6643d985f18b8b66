"""Assembles and runs the driver loop of a driver.

A worker appends the output of a driver to `stdout` and `stderr` in the driver's directory without a limit: it rotates
the files of executors only (`spark.executor.logs.rolling.*`;
`org.apache.spark.deploy.worker.CommandUtils.redirectStream`). Because the worker appends, the driver may truncate its
own files, as `logrotate` does with `copytruncate`. A worker's log page presents files with the same prefix as one log
(`org.apache.spark.util.logging.RollingFileAppender.getSortedRolledOverFiles`).
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import FORMATS, SUBMISSION_ID_VARIABLE, DriverState, DriverStatus
from airflow_adaptive.job.control.driver_loop import EXIT_FENCED, run_driver
from airflow_adaptive.job.control.driver_status import FileStatusReporter
from airflow_adaptive.job.control.fence import WATCHDOG_GRACE_S, LeaseWatchdog, boot_time
from airflow_adaptive.job.control.interfaces import (
    DirectiveSource,
    DriverInterfaces,
    ExecutorPool,
    Termination,
    Workload,
)
from airflow_adaptive.job.control.scheduler_link import JournalReader
from airflow_adaptive.job.control.standby import StandbyLoop
from airflow_adaptive.job.executors import LocalityBalancer, SparkExecutorPool, SparkPlacement
from airflow_adaptive.job.hadoop_directory import HadoopJobDirectory
from airflow_adaptive.job.spark_internals import (
    catch_sigterm,
    java_class,
    report_spark,
    require_supported,
    separate_task_ids,
    unused_archive,
)

log = logging.getLogger(__name__)
"""Unless the script configures logging, warnings go to the driver's output, which the worker keeps."""

STANDALONE_ID: Final = re.compile(r"driver-\d{14}-\d+")
"""Format of the ids that a standalone master assigns to drivers (`spark.deploy.driverIdPattern`), and a worker to their directories."""


class DriverRuntime:
    """A driver: a session, a job directory, and the driver loop between them."""

    def __init__(self, spark: SparkSession, settings: DriverSettings) -> None:
        """Create a driver with the settings from the submission. Raises `UnsupportedVersionError` if its Spark is too old."""
        require_supported(spark.version)
        separate_task_ids(spark, settings.epoch)
        if (archive := unused_archive(spark)) is not None:
            log.warning(
                "this driver starts without its archive of classes, %s: it is missing, or was made with another Java, garbage collector, heap above "
                "32 GiB, class path or jars. Make it again in the image",
                archive,
            )
        self.spark = spark
        self.settings = settings
        self.process = DriverProcess(spark)
        self.termination = Sigterm(spark)
        self.directory = HadoopJobDirectory(spark, settings.directory)
        self.executors: ExecutorPool = SparkExecutorPool(spark, clock=time.monotonic, warn=log.warning)
        self.journal: DirectiveSource = JournalReader(
            self.directory,
            job=settings.job,
            clock=boot_time,
            report=log.warning,
            orphan_timeout_s=settings.orphan_timeout_s,
        )

    def run(self, workload: Workload, notice: str | None = None) -> DriverState:
        """Execute the scheduler's directives until the driver ends; see `run_driver`. `notice` informs the user (`DriverStatus.notice`)."""
        settings, clock = self.settings, boot_time
        identity = _identity(self.spark, settings, notice)
        own, of_standby = (
            FileStatusReporter(
                directory, heartbeat_interval_s=settings.heartbeat_interval_s, clock=clock, warn=log.warning
            )
            for directory in (self.directory, self.directory.of_standby())
        )
        interfaces = DriverInterfaces(
            journal=self.journal,
            workload=workload,
            executors=self.executors,
            termination=self.termination,
            balancer=LocalityBalancer(SparkPlacement(self.spark, warn=log.warning), clock=clock),
            start_operation=OperationThread,
            reporter=own,
            clock=clock,
            sleep=_pause(identity, settings.directory),
            warn=log.warning,
        )
        if (end := StandbyLoop(identity, interfaces, settings, of_standby).wait()) is not None:
            self.process.exit(EXIT_FENCED, "this driver is not to take over")
            return end
        self.termination.catch()
        watchdog = LeaseWatchdog(self.process.jvm, grace_s=WATCHDOG_GRACE_S)
        try:
            return run_driver(identity, interfaces, settings, watchdog=watchdog, exit_process=self.process.exit)
        finally:  # what the script does afterwards must not delay the end of the process
            self.termination.let_pass()


def _pause(identity: DriverStatus, directory: str) -> Callable[[float], None]:
    """Return a function that truncates the driver's output if due, and waits for a time, or until the journal changes.

    Only the worker of a standalone cluster keeps the output in the folder of the driver, without a limit.
    """
    journal = JournalFolder(directory, clock=time.monotonic)
    has_output = identity.submission_id is not None and identity.submission_id == _standalone_id()
    output = OutputFiles(Path.cwd(), clock=time.monotonic, warn=log.warning) if has_output else None

    def pause(seconds: float) -> None:
        if output is not None:
            output.truncate_if_due()
        journal.wait(seconds, time.sleep)

    return pause


LOCAL: Final = "file://"

CHANGE_INTERVAL_S: Final = 0.05
"""Interval in seconds at which a local journal is checked for a change, which takes some microseconds."""

EARLY_INTERVAL_S: Final = 0.2
EARLY_TIME_S: Final = 5.0
"""Longest wait after a change, and how long it applies, in seconds: the loop acts, and may wait for the status with the next commit."""


class JournalFolder:
    """The folder of a journal on a file system of this machine. A change of it is a hint to read the journal earlier; object stores give none."""

    def __init__(self, directory: str, *, clock: Callable[[], float]) -> None:
        self._path = f"{directory.removeprefix(LOCAL)}/journal" if directory.startswith(LOCAL) else None
        self._clock = clock
        self._early_until = -math.inf
        self._known = self._changed_ns()

    def wait(self, seconds: float, sleep: Callable[[float], object]) -> None:
        """Wait for a time, or until the folder changes; less if it has changed a short time ago."""
        if self._path is None:
            sleep(seconds)
            return
        now = self._clock()
        end = now + (min(seconds, EARLY_INTERVAL_S) if now < self._early_until else seconds)
        while (left := end - self._clock()) > 0:
            sleep(min(left, CHANGE_INTERVAL_S))
            if (changed := self._changed_ns()) != self._known:
                self._known, self._early_until = changed, self._clock() + EARLY_TIME_S
                return

    def _changed_ns(self) -> int:
        with suppress(OSError):
            return os.stat(self._path).st_mtime_ns if self._path else 0
        return 0


def _identity(spark: SparkSession, settings: DriverSettings, notice: str | None) -> DriverStatus:
    """Return the fields that all statuses of this driver share."""
    ignored = IGNORES_SIGTERM if os.environ.get("KUBERNETES_SERVICE_HOST") and ignores_sigterm() else ""
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
        notice="; ".join(filter(None, (notice, ignored))) or None,
        formats=FORMATS,
        spark=report_spark(spark.version),
        is_managed=notice is None,
    )


IGNORES_SIGTERM: Final = (
    "process 1 of the container ignores SIGTERM, as a shell without a trap does, so a drain kills the driver in the middle of a batch: "
    "let the entry point of the image start its command by `exec`"
)


def ignores_sigterm(status: Path = Path("/proc/1/status")) -> bool:
    """Return whether the kernel discards SIGTERM to process 1 of a container, because the process neither handles nor blocks it; False if unknown."""
    with suppress(OSError, ValueError, KeyError):
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return not (int(fields["SigCgt"], 16) | int(fields["SigBlk"], 16)) >> (signal.SIGTERM - 1) & 1
    return False


def _standalone_id() -> str | None:
    """Return the submission id that a standalone worker gave the folder of the driver as its name, None on other clusters."""
    directory = Path.cwd().name
    return directory if STANDALONE_ID.fullmatch(directory) else None


NAMES: Final = ("stdout", "stderr")

ROTATED_SUFFIX: Final = ".old"
"""Suffix of the file that contains the output before the last truncation."""

MAX_BYTES: Final = 16 << 20
"""Maximum size of each file. A driver leaves at most four times this size on its worker."""

CHECK_INTERVAL_S: Final = 10.0
"""Interval between checks of the sizes, in seconds."""


class OutputFiles:
    """The output files of one driver in its directory on the worker. `warn` is called once if a truncation fails."""

    def __init__(
        self, directory: Path, *, clock: Callable[[], float], warn: Callable[[str], None], max_bytes: int = MAX_BYTES
    ) -> None:
        self._files = [directory / name for name in NAMES]
        self._clock = clock
        self._warn = warn
        self._max_bytes = max_bytes
        self._checked_at: float | None = None
        self._warned = False

    def truncate_if_due(self) -> None:
        """Truncate files that are too large, if a check is due. Output that is written during the truncation may be lost."""
        if self._checked_at is not None and self._clock() - self._checked_at < CHECK_INTERVAL_S:
            return
        self._checked_at = self._clock()
        try:
            for file in self._files:
                if file.is_file() and file.stat().st_size > self._max_bytes:
                    _rotate(file)
        except OSError as error:
            if not self._warned:
                self._warn(f"cannot truncate the driver's output, or cannot keep a copy: {error}")
            self._warned = True


def _rotate(file: Path) -> None:
    """Truncate the file after copying it; on a full disk only truncate it."""
    try:
        shutil.copyfile(file, file.with_name(file.name + ROTATED_SUFFIX))
    finally:
        os.truncate(file, 0)


OUTPUT_TIMEOUT_S: Final = 1.0
"""Time in seconds for which an exit waits for the output of the process, which a JVM that is frozen does not write to the files of the worker."""

OUTPUT_TIME_S: Final = 0.2
"""Time in seconds in which the JVM writes the last output to the files of the worker."""


class DriverProcess:
    """The Python process and the JVM, which end together.

    Attributes:
        jvm: process id of the JVM.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        end: Callable[[int], object] = os._exit,
        kill: Callable[[int, int], object] = os.kill,
    ) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._child = getattr(gateway, "proc", None)  # of Python, without spark-submit
        self.jvm = int(java_class(spark, "java.lang.ProcessHandle").current().pid())
        self._end = end
        self._kill = kill

    def exit(self, code: int, message: str) -> None:
        """End both processes immediately, regardless of their threads, so that no operation of the driver continues.

        An orderly end of the JVM may take long, and would let the Spark jobs of other threads continue meanwhile. The message is the reason.
        """
        output = threading.Thread(target=_write, args=(message,), daemon=True)
        output.start()
        output.join(OUTPUT_TIMEOUT_S)
        if self.jvm in {os.getppid(), getattr(self._child, "pid", None)}:  # the number of a dead JVM may be used again
            with suppress(ProcessLookupError):
                self._kill(self.jvm, signal.SIGKILL)
        self._end(code)


def _write(message: str) -> None:
    log.warning("%s: exiting", message)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    time.sleep(OUTPUT_TIME_S)


class Sigterm(Termination):
    """SIGTERM to the JVM, which is the child of the worker or of the container's first process, or to Python, which is the child of the JVM.

    A service manager sends it to all processes of a service. Until `catch`, for example in a standby, it ends the processes.
    """

    def __init__(self, spark: SparkSession) -> None:
        """Handle the signal in Python, if the script does not. Python allows that in its main thread only."""
        self._spark = spark
        self._latch: Any = None
        self._restore: Callable[[], object] | None = None
        self._is_requested = False
        self._pid = os.getpid()
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)

    def catch(self) -> None:
        """From now on, let a signal be a request."""
        try:
            self._latch, self._restore = catch_sigterm(self._spark)
        except Py4JError as error:
            log.warning(
                "SIGTERM ends this driver in the middle of a batch: the JVM does not let its signals be handled: %s",
                error,
            )

    def is_requested(self) -> bool:
        with suppress(Py4JError, OSError):  # the JVM has ended
            self._is_requested = self._is_requested or (self._restore is not None and not self._latch.getCount())
        return self._is_requested

    def let_pass(self) -> None:
        """Let the next signal end the processes at once, because no query runs any more."""
        restore, self._restore = self._restore, None
        with suppress(Py4JError, OSError):
            if restore is not None:
                restore()

    def _on_signal(self, number: int, _: object) -> None:
        # A process that the script forks inherits the handler.
        if self._restore is None or os.getpid() != self._pid:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._is_requested = True


Result = TypeVar("Result")


class OperationThread(Future[Result]):
    """An operation in a thread with the Spark properties of the thread that starts it; see `interfaces.Operation`."""

    def __init__(self, act: Callable[[], Result]) -> None:
        super().__init__()
        InheritableThread(target=self._run, args=(act,), name="long-operation", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        return not wait([self], timeout_s).not_done

    def _run(self, act: Callable[[], Result]) -> None:
        try:
            self.set_result(act())
        except BaseException as error:  # noqa: BLE001  (raised by the waiting thread)
            self.set_exception(error)
