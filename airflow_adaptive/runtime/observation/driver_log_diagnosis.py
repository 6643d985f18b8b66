"""What a driver wrote last: the cause of its end for the failure, and the lines around it for the task's log.

A driver that lives reports its failures itself. One that ends before it can (a script that does not import, a missing
Python, no memory left) leaves only what its worker keeps of its output.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import replace

from airflow_adaptive.job.protocol.documents import DriverState, FailureReport
from airflow_adaptive.job.protocol.failures import (
    BUILD_FUNCTION_ERROR,
    ChainedError,
    last_python_error,
    redact,
    report_chain,
)
from airflow_adaptive.ports import ClusterClient, DriverLog
from airflow_adaptive.runtime.observation.events import DRIVER_LOST, DRIVER_SILENT, LEASE_OVER, JobObservation
from airflow_adaptive.scheduler.events import DriverEnded, DriverHeartbeatTimedOut, Event, QueryFailed
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.state import (
    Deploying,
    Executing,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
)

log = logging.getLogger(__name__)

Failed = DriverEnded | DriverHeartbeatTimedOut | QueryFailed
"""Events that tell of a failure which the driver's output may explain."""

TIMEOUT_S = 5.0
"""Longest that a loop waits for a driver's log: a restart must not wait for what only explains it."""

STDOUT_LINES = 20
STDERR_LINES = 30
"""In the task's log; Airflow may lose long records, so each line is one of its own."""

LINE_CHARACTERS = 300

MESSAGE_LINES = 5
MESSAGE_CHARACTERS = 1000
"""Of a failure, which goes into the job's log and into XComs."""

UNEXPLAINED = (DRIVER_LOST, DRIVER_SILENT, LEASE_OVER)
"""Failures that say no more than that a driver is gone."""

UNCAUGHT = re.compile(r'^Exception in thread "main" (.*(?:\n(?:\t|Caused by: ).*)*)', re.MULTILINE)
"""How a JVM ends; what follows are frames and causes."""

JVM_ERROR = re.compile(r"^(?:Caused by: )?([\w.$]+)(?:: (.*))?$", re.MULTILINE)

OUT_OF_MEMORY = re.compile(r"\b(java\.lang\.OutOfMemoryError)(?:: (.*))?")

APPLICATION_REMOVED = "APPLICATION_REMOVED"

REMOVED = "Master removed our application: FAILED"
"""What an application hears of whose executors ended ten times in a row (`spark.deploy.maxExecutorRetries`)."""

EXECUTOR_ENDED = re.compile(r"Executor updated: (\S+) is now (?:FAILED|EXITED) \((.*)\)$", re.MULTILINE)

EXECUTOR_ADVICE = (
    "see the workers' logs: is Java 17 or later there, is JAVA_HOME right, is there memory for an executor? With "
    "spark.log.level=INFO in `conf` the worker is named here"
)

EXECUTOR_ADDED = re.compile(r"Executor added: (\S+) on \S+ \((.*?)\)")

BOILERPLATE = re.compile(
    r"\s|$|[~+}]|=+$|Launch Command:|NOTE: |WARNING: |SLF4J|Using Spark's default log4j|"
    r"\S+ \S+ (?:WARN|INFO|DEBUG|TRACE) |Caused by: "
)
"""Lines of a driver's stderr that never tell why it ended; some are parts of plans, and of progress as JSON."""

HINTS = (
    (
        re.compile(r'Cannot run program "[^"]*\bjava"'),
        "Java is missing on {worker}: install it there, or correct JAVA_HOME",
    ),
    (
        re.compile(r'Cannot run program "'),
        "Python is missing on {worker}: install it there, or name another in PYSPARK_PYTHON of `env`",
    ),
    (re.compile("UnsupportedClassVersionError"), "Java on {worker} is too old for its Spark: give it 17 or later"),
    (re.compile("No module named "), "install it on the workers, or give it in `py_files`"),
)
"""What to do about a message, for those whose words alone don't tell."""


class DriverLogDiagnosis:
    """Asks for the log of a driver that failed. Nothing that goes wrong here fails a loop."""

    def __init__(self, cluster: ClusterClient) -> None:
        """Take note; nothing is asked yet."""
        self._cluster = cluster
        self._heard: tuple[str, str] | None = None
        self._log = DriverLog()

    async def explain(self, event: Event, state: SchedulerState, world: JobObservation) -> Event:
        """The event, with the cause in its failure if the driver's log has one; the end of that goes to our log."""
        driver = None if state.driver is None else state.driver.submission_id
        if driver is None or not isinstance(event, Failed) or not _is_failure(state, world):
            return event
        return await self._explain(event, driver, world)

    async def _explain(self, event: Failed, driver: str, world: JobObservation) -> Event:
        # The same failure is seen again with every look until it is dealt with.
        failure, heard = event.failure, (driver, event.failure.error_class)
        news, self._heard = heard != self._heard, heard
        if news:
            self._log = await self._fetch(driver)
        worker = "" if world.submission is None else world.submission.worker_address
        explained = explain(failure, self._log, worker, reported=world.status is not None)
        if news:
            _tell(driver, explained, self._log)
        return replace(event, failure=explained)

    async def _fetch(self, driver: str) -> DriverLog:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._cluster.driver_log(driver)
        except Exception as error:  # noqa: BLE001  (help must not do harm, whatever a worker answers)
            log.info("The log of %s can't be read now: %s", driver, str(error) or type(error).__name__)
            return DriverLog()


def explain(failure: Failure, written: DriverLog, worker: str, *, reported: bool) -> Failure:
    """The failure with the cause that the driver's log tells, and with what to do about it.

    Args:
        failure: as observed; one that the driver itself has reported is only given advice.
        written: the end of the driver's output.
        worker: that ran the driver, "" if unknown.
        reported: whether this driver has ever reported. Only one that has not is judged by its last words: the script
            ended it. Later an exception in the output may have been caught, and no reason to give up.
    """
    if REMOVED in written.stderr:
        return _without_executors(failure, written.stderr)
    if failure.error_class in UNEXPLAINED:
        failure = _with_cause(failure, written, reported=reported)
    return replace(failure, message=_advised(failure.message[:MESSAGE_CHARACTERS], worker))


def _without_executors(failure: Failure, stderr: str) -> Failure:
    """What the end of the application came from: whatever its driver says of it is a consequence.

    Which executors ended where, a driver writes down with `spark.log.level=INFO` only.
    """
    name, reason = (EXECUTOR_ENDED.findall(stderr) or [("", "")])[-1]
    worker = dict(EXECUTOR_ADDED.findall(stderr)).get(name, "")
    last = f"the last one, on worker {worker}: {redact(reason)}" if worker else EXECUTOR_ADVICE
    message = f"the master gave the application up since no executor stayed alive; {last}"
    causes = (failure.error_class, *failure.causes)
    return Failure(
        error_class=APPLICATION_REMOVED, message=_advised(message[:MESSAGE_CHARACTERS], worker), causes=causes
    )


def _is_failure(state: SchedulerState, world: JobObservation) -> bool:
    """Whether the end of the driver is one: it also ends when it was told to."""
    ended_in_order = world.status is not None and world.status.state in (DriverState.STOPPED, DriverState.FINISHED)
    return not ended_in_order and isinstance(
        state.current, Deploying | Executing | RestartingLocally | StopWithSavepoint
    )


def _with_cause(failure: Failure, written: DriverLog, *, reported: bool) -> Failure:
    by_python = _python_error(written.stdout)
    found = by_python or _jvm_error(written.stderr)
    if found is None:
        words = _last_lines(written.stderr)
        return replace(failure, message=f"{failure.message}; it wrote last: {words}") if words else failure
    if reported:
        return replace(failure, message=f"{failure.message}; {found.error_class}: {found.message}")
    marks = (BUILD_FUNCTION_ERROR,) if by_python else ()
    return Failure(
        error_class=found.error_class, message=found.message, causes=(*marks, *found.causes, failure.error_class)
    )


def _python_error(stdout: str) -> FailureReport | None:
    """The exception with whose traceback the output of Python ends."""
    raised = last_python_error(stdout)
    return None if raised is None else report_chain([raised])


def _jvm_error(stderr: str) -> FailureReport | None:
    """The exception that ended the JVM, or left it without memory."""
    uncaught = [found[1] for found in UNCAUGHT.finditer(stderr)]
    chain = [
        ChainedError(name, message or "")
        for block in uncaught[-1:]
        for name, message in JVM_ERROR.findall(block)
        if message
    ]
    chain = chain[:1] or [ChainedError(name, message or "") for name, message in OUT_OF_MEMORY.findall(stderr)][-1:]
    return report_chain(chain) if chain else None


def _last_lines(stderr: str) -> str:
    lines = [redact(line)[:LINE_CHARACTERS] for line in stderr.splitlines() if not BOILERPLATE.match(line)]
    return " | ".join(lines[-MESSAGE_LINES:])


def _advised(message: str, worker: str) -> str:
    where = f"worker {worker}" if worker else "a worker"
    advice = next((hint.format(worker=where) for pattern, hint in HINTS if pattern.search(message)), None)
    return message if advice is None or advice in message else f"{message}: {advice}"


def _tell(driver: str, failure: Failure, written: DriverLog) -> None:
    log.warning("%s failed: %s", driver, failure.summary)
    for name, text, lines in (("stdout", written.stdout, STDOUT_LINES), ("stderr", written.stderr, STDERR_LINES)):
        for line in list(_readable(text))[-lines:]:
            log.warning("%s %s | %s", driver, name, line)


def _readable(text: str) -> Iterator[str]:
    """Lines without secrets and without the frames of Java's stack traces."""
    for line in text.splitlines():
        if line.strip() and not line.startswith(("\tat ", "Launch Command:")):
            indent = line[: len(line) - len(line.lstrip())]
            yield f"{indent}{redact(line)}"[:LINE_CHARACTERS]
