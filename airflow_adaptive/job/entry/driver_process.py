"""The processes of a driver: the Python process of the script, and the JVM of its session."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.spark_internals import java_class

log = logging.getLogger(__name__)

OUTPUT_TIMEOUT_S: Final = 1.0
"""Time in seconds for which an exit waits for the output of the process. The JVM writes that output to the files of the
worker; a JVM that is frozen does not."""

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
        """Find the JVM of a session.

        Args:
            spark: session of the driver.
            end: ends this process regardless of its threads.
            kill: sends a signal to a process.
        """
        gateway: Any = spark.sparkContext._gateway
        self._child = getattr(gateway, "proc", None)  # of Python, without spark-submit
        self.jvm = int(java_class(spark, "java.lang.ProcessHandle").current().pid())
        self._end = end
        self._kill = kill

    def exit(self, code: int, message: str) -> None:
        """End both processes immediately, regardless of their threads, so that no operation of the driver continues.

        An orderly end of the JVM may take long, and would let the Spark jobs of other threads continue meanwhile.

        Args:
            code: exit code of this process.
            message: reason, for the driver's output.
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
