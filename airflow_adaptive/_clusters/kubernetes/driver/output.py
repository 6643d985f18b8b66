"""Separates the output of Python from the log of the JVM. Pure.

The log of a container contains both, interleaved by line. The readers of a driver's output need them apart: the last exception of Python
explains the end of a script, and the lines of Spark's log that follow are no part of its message.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_adaptive._core.ports import DriverLog

JVM_LINE: Final = re.compile(
    r"\S+ \S+ (?:FATAL|ERROR|WARN|INFO|DEBUG|TRACE) |"
    r"NOTE: |WARNING: |SLF4J|Using Spark's default log4j|Setting (?:default|Spark) log level|To adjust logging level|"
    r'Files \S+ from |Exception in thread |log4j:|\{"ts":'
)
"""First line of a message of the JVM, of Spark's log, or of spark-submit."""

CONTINUED: Final = re.compile(r"\t|Caused by: |\s+\.\.\. \d+ ")
"""Line of a stack trace of Java, which belongs to the line before it."""

JAVA_EXCEPTION: Final = re.compile(r"[a-z][\w$]*(\.[\w$]+)+(: |$)")
"""First line of a stack trace of Java, below the message of the JVM that it explains."""


def separated(text: str) -> DriverLog:
    """Return the output of a driver's container, with the log of the JVM as the standard error."""
    python: list[str] = []
    jvm: list[str] = []
    current = python
    for line in text.splitlines(keepends=True):
        is_explained = current is jvm and JAVA_EXCEPTION.match(line)
        if not is_explained and not CONTINUED.match(line):
            current = jvm if JVM_LINE.match(line) else python
        current.append(line)
    return DriverLog(stdout="".join(python), stderr="".join(jvm))


def newest_exception(text: str) -> str:
    """Return the last exception of Java in the output of a container, or its cause; "" without one."""
    lines = [line.removeprefix("Caused by: ") for line in text.splitlines()]
    return next((line for line in reversed(lines) if JAVA_EXCEPTION.match(line)), "")
