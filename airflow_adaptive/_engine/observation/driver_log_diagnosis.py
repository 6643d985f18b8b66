"""Diagnosis of a failed driver from the end of its log: the cause for the failure, and lines of the log for the task log.

A running driver reports failures in its status. A driver that ends before its first status (a script with an import error, a
missing Python, not enough memory) leaves only the output that its worker keeps.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import ClusterClient, DriverLog, SubmissionState
from airflow_adaptive._core.protocol.documents import DriverState, FailureReport
from airflow_adaptive._core.protocol.failures import (
    ChainedError,
    jvm_errors,
    python_errors,
    redact,
    report_chain,
    shortened,
)
from airflow_adaptive._core.scheduler.events import DriverEnded, DriverHeartbeatTimedOut, Event, QueryFailed
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Executing,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._engine.observation.observer import JobObservation

log = logging.getLogger(__name__)

Failed = DriverEnded | DriverHeartbeatTimedOut | QueryFailed
"""Events with a failure that the driver's output may explain."""

TIMEOUT_S = 5.0
"""Longest wait for a driver's log: a restart must not wait for its explanation."""

STDOUT_LINES = 20
STDERR_LINES = 30
"""Lines in the task log. Airflow may lose long records, so each line is a record."""

LINE_CHARACTERS = 300

MESSAGE_LINES = 5
MESSAGE_CHARACTERS = 1000
"""Size of a failure's message, which goes into the journal and into XComs."""

UNEXPLAINED = (FailureCode.DRIVER_LOST, FailureCode.DRIVER_HEARTBEAT_TIMEOUT, FailureCode.DRIVER_LEASE_OVER)
"""Error classes without a cause: the driver does not exist any more."""

UNCAUGHT = re.compile(r'^Exception in thread "main" (.*(?:\n(?:\t|Caused by: ).*)*)', re.MULTILINE)
"""The line with which a JVM ends, with the frames and causes that follow."""

OUT_OF_MEMORY = re.compile(r"\b(java\.lang\.OutOfMemoryError)(?:: (.*))?")


REMOVED = "Master removed our application: FAILED"
"""Message of the master for an application whose executors ended ten times in a row (`spark.deploy.maxExecutorRetries`)."""


NOT_REGISTERED = "All masters are unresponsive! Giving up."
"""Message of a driver that could not register its application. A master of another version of Spark does not answer, either."""

RUNNING_VERSION = re.compile(r"Running Spark version (\S+)")

EXECUTOR_ENDED = re.compile(r"Executor updated: (\S+) is now (?:FAILED|EXITED) \((.*)\)$", re.MULTILINE)

EXECUTOR_ADVICE = (
    "see the workers' logs, and check Java (17 or later), JAVA_HOME and the memory for an executor. With "
    "spark.log.level=INFO in `conf` the worker is named here"
)

EXECUTOR_ADDED = re.compile(r"Executor added: (\S+) on \S+ \((.*?)\)")

BOILERPLATE = re.compile(
    r"\s|$|[~+}]|=+$|Launch Command:|NOTE: |WARNING: |SLF4J|Using Spark's default log4j|Files \S+ from |Setting Spark log level |"
    r"\S+ \S+ (?:WARN|INFO|DEBUG|TRACE) |Caused by: |"
    r"::|Ivy Default Cache set to: |The jars for the packages stored in: |\S+ added as a (?:dependency|remote repository)|downloading \S+ \.\.\."
)
"""Lines of a driver's stderr that never contain the cause; some are parts of plans, of progress as JSON, and of what Ivy reports about packages."""

LOG_ENTRY = re.compile(r"^(?=\S+ \S+ (?:FATAL|ERROR|WARN|INFO|DEBUG|TRACE) )", re.MULTILINE)
"""Beginning of an entry of Spark's log; a stack trace may follow the first line of an entry."""

LOGGED_PROBLEM = re.compile(r"\S+ \S+ (?:FATAL|ERROR|WARN) ")

LOGGED_ERROR = re.compile(r"^\S+ \S+ (?:FATAL|ERROR) |has not accepted any resources")
"""Entries that may explain why a driver has no executors, or runs no plan. Most warnings are harmless."""

DISK_FULL = r"No space left on device|Disk quota exceeded"
READ_ONLY = "Read-only file system"
NO_PERMISSION = (
    r"FileSystemException: /\S*: Permission denied|\(Permission denied\)|\[Errno 13\]|AccessDeniedException: /"
)

DISK_ERROR = re.compile(
    rf"[\w.$]+(?:Exception|Error): .*(?:{DISK_FULL}|{READ_ONLY}|Permission denied|AccessDeniedException: /).*"
)
"""What the system answered about a disk. Exceptions of Spark may give only the consequence, such as a folder that was not created."""

HINTS = (
    (
        re.compile(DISK_FULL),
        "the disk of this file is full, on {worker} or of the job directory: free space there, or enlarge the disk",
    ),
    (
        re.compile(READ_ONLY),
        "nothing can be written there, on {worker} or in the job directory: mount a writable volume there, or repair the disk",
    ),
    (re.compile(NO_PERMISSION), "let the user of the process on {worker} access this file"),
    (
        re.compile(r'Cannot run program "[^"]*\bjava"'),
        "Java is missing on {worker}: install Java there, or correct JAVA_HOME",
    ),
    (
        re.compile(r'Cannot run program "'),
        "Python is missing on {worker}: install Python there, or set PYSPARK_PYTHON in `env_vars` to another interpreter",
    ),
    (re.compile("UnsupportedClassVersionError"), "Java on {worker} is too old for its Spark: install Java 17 or later"),
    (
        re.compile(r"\[PATH_NOT_FOUND\]|No such file or directory: '|java\.io\.FileNotFoundException"),
        "the script runs from a copy, in the working folder of its driver on a worker, so relative paths and __file__ do not lead to the "
        "folder of the script: use an absolute path that all workers can access, or the parameter `files`",
    ),
)
"""Fixes for messages that do not contain a fix."""

MISSING_MODULE = re.compile(r"No module named '?([\w.]+)")

ARCHIVES = (".zip", ".egg", ".whl", ".jar")
"""Suffixes of files that contain Python modules."""

ONLY_IN_AIRFLOW = ("airflow", "airflow_adaptive")
"""Packages of which drivers have only `airflow_adaptive.job`."""

READERS = "the process in which Spark runs streaming readers of Python data sources does not get `py_files`"


class DriverLogDiagnosis:
    """Explains failures of a driver with the driver's log. A failed diagnosis never fails the loop."""

    def __init__(self, cluster: ClusterClient, py_files: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._py_files = py_files
        self._diagnosed: tuple[str, str] | None = None
        """Driver and error class of the newest failure whose log was read."""
        self._log = DriverLog()

    async def explain(self, event: Event, state: SchedulerState, observation: JobObservation) -> Event:
        """Return the event with the cause that the driver's log contains, and write the end of that log to the task log.

        An event that is not a failure of a driver is returned unchanged.
        """
        driver = None if state.driver is None else state.driver.submission_id
        if driver is None or not isinstance(event, Failed) or not _is_failure(state, observation):
            return event
        return await self._explain(event, driver, observation)

    async def explain_wait(self, state: SchedulerState, observation: JobObservation) -> str:
        """Return why a driver has not activated its plan, or gets no executors, with the newest problem in its log; "" if unknown."""
        driver, submission = state.driver, observation.submission
        known = [observation.cluster_error or "", "" if submission is None else submission.message]
        if submission is not None and submission.state is SubmissionState.SUBMITTED:
            known.append("the driver still waits for its start")
        elif driver is not None and driver.submission_id is not None:
            written = await self._fetch(driver.submission_id)
            problem = logged_problem(written.stderr)
            known += [written.waits, f"the driver's log: {problem}" if problem else ""]
            _log_lines(driver.submission_id, written)
        causes = [
            text for text in dict.fromkeys(known) if text and not any(text in other for other in known if other != text)
        ]
        return shortened("; ".join(redact(text) for text in causes), MESSAGE_CHARACTERS)

    async def _explain(self, event: Failed, driver: str, observation: JobObservation) -> Event:
        # Each observation derives the same failure again until a step has handled the failure: read the log once.
        failure, diagnosed = event.failure, (driver, event.failure.error_class)
        is_new, self._diagnosed = diagnosed != self._diagnosed, diagnosed
        if is_new:
            self._log = await self._fetch(driver)
        worker = "" if observation.submission is None else observation.submission.worker_address
        explained = explain(failure, self._log, worker, self._py_files, reported=observation.status is not None)
        if is_new:
            _log_output(driver, explained, self._log)
        return replace(event, failure=explained)

    async def _fetch(self, driver: str) -> DriverLog:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._cluster.driver_log(driver)
        except Exception as error:  # noqa: BLE001  a diagnosis must not fail the loop, whatever a worker answers
            log.info("The log of %s cannot be read now: %s", driver, str(error) or type(error).__name__)
            return DriverLog()


def explain(
    failure: Failure, written: DriverLog, worker: str, py_files: Sequence[str] = (), *, reported: bool
) -> Failure:
    """Return the failure with the cause from the driver's log, and with a fix.

    Args:
        failure: observed failure; a failure that the driver itself has reported gets only a fix.
        written: the end of the driver's output.
        worker: the worker that ran the driver, "" if unknown.
        py_files: the author's Python modules and zip files.
        reported: whether the driver has ever written a status. If it has not, the last exception of the output is the cause
            of the end. Otherwise the script may have caught that exception.
    """
    if REMOVED in written.stderr:
        return _without_executors(failure, written.stderr)
    if NOT_REGISTERED in written.stderr and not reported:
        return _without_master(failure, written.stderr)
    if failure.error_class in UNEXPLAINED:
        failure = _with_disk_error(_with_cause(failure, written, reported=reported), written.stderr)
    return replace(failure, message=_advised(shortened(failure.message, MESSAGE_CHARACTERS), worker, py_files))


def _without_executors(failure: Failure, stderr: str) -> Failure:
    """Return the failure of an application that the master removed; the exceptions of its driver are consequences.

    A driver logs the ends of its executors only with `spark.log.level=INFO`.
    """
    name, reason = (EXECUTOR_ENDED.findall(stderr) or [("", "")])[-1]
    worker = dict(EXECUTOR_ADDED.findall(stderr)).get(name, "")
    last = f"the last one, on worker {worker}: {redact(reason)}" if worker else EXECUTOR_ADVICE
    message = f"the master removed the application because no executor stayed alive; {last}"
    causes = (failure.error_class, *failure.causes)
    return Failure(
        error_class=FailureCode.APPLICATION_REMOVED,
        message=_advised(shortened(message, MESSAGE_CHARACTERS), worker),
        causes=causes,
    )


def _without_master(failure: Failure, stderr: str) -> Failure:
    """Return the failure of a driver that could not register its application; the exceptions of the driver are consequences."""
    version = f", with Spark {found[1]}," if (found := RUNNING_VERSION.search(stderr)) else ""
    message = (
        f"the master did not answer the driver{version} which requested executors: install the same version of Spark on the master and all workers, "
        "and let the workers reach the port of the master"
    )
    return Failure(
        error_class=FailureCode.MASTER_UNRESPONSIVE, message=message, causes=(failure.error_class, *failure.causes)
    )


def _is_failure(state: SchedulerState, observation: JobObservation) -> bool:
    """Return whether the end of the driver is a failure. A driver also ends if its directive requires the end."""
    ended_in_order = observation.status is not None and observation.status.state in (
        DriverState.STOPPED,
        DriverState.FINISHED,
    )
    return not ended_in_order and isinstance(
        state.current, Deploying | Executing | RestartingLocally | StopWithSavepoint
    )


def _with_cause(failure: Failure, written: DriverLog, *, reported: bool) -> Failure:
    by_python = _python_error(written.stdout)
    found = by_python or _jvm_error(written.stderr)
    if found is None:
        words = _last_lines(written.stderr)
        return replace(failure, message=f"{failure.message}; its last output: {words}") if words else failure
    text = f"{found.error_class}: {found.message}"
    if reported:
        return failure if text in failure.message else replace(failure, message=f"{failure.message}; {text}")
    marks = (FailureCode.BUILD_FUNCTION_ERROR,) if by_python else ()
    return Failure(
        error_class=found.error_class, message=found.message, causes=(*marks, *found.causes, failure.error_class)
    )


def _with_disk_error(failure: Failure, stderr: str) -> Failure:
    found = DISK_ERROR.findall(stderr)
    is_named = not found or DISK_ERROR.search(f"{failure.error_class}: {failure.message}")
    return failure if is_named else replace(failure, message=f"{failure.message}; {redact(found[-1])}")


def _python_error(stdout: str) -> FailureReport | None:
    """Return the exception of the traceback at the end of the Python output."""
    raised = python_errors(stdout)
    return report_chain(raised) if raised else None


def _jvm_error(stderr: str) -> FailureReport | None:
    """Return the exception that ended the JVM, or its out-of-memory error."""
    blocks = [found[1] for found in UNCAUGHT.finditer(stderr)]
    uncaught = jvm_errors(blocks[-1])[1] if blocks else []
    memory = [ChainedError(name, message or "") for name, message in OUT_OF_MEMORY.findall(stderr)][-1:]
    return report_chain(uncaught or memory) if uncaught or memory else None


def logged_problem(stderr: str) -> str:
    """Return the newest exception that a running driver has logged, or else its newest error; "" without one."""
    entries = [entry for entry in reversed(LOG_ENTRY.split(stderr)) if LOGGED_PROBLEM.match(entry)]
    raised = next((errors for entry in entries if (errors := jvm_errors(entry)[1])), None)
    if raised is not None:
        report = report_chain(raised)
        return f"{report.error_class}: {report.message}"
    problems = [entry for entry in entries if LOGGED_ERROR.search(entry)]
    return shortened(redact(" ".join(problems[0].split())), LINE_CHARACTERS) if problems else ""


def _last_lines(stderr: str) -> str:
    lines = [redact(line)[:LINE_CHARACTERS] for line in stderr.splitlines() if not BOILERPLATE.match(line)]
    return " | ".join(lines[-MESSAGE_LINES:])


def _advised(message: str, worker: str, py_files: Sequence[str] = ()) -> str:
    where = f"worker {worker}" if worker else "a worker"
    advice = next((hint.format(worker=where) for pattern, hint in HINTS if pattern.search(message)), None)
    if missing := MISSING_MODULE.search(message):
        advice = _module_advice(missing[1], [PurePosixPath(file).name for file in py_files])
    return message if advice is None or advice in message else f"{message}: {advice}"


def _module_advice(module: str, py_files: Sequence[str]) -> str:
    """Return what to do about a module that a process of Spark cannot import."""
    if module.partition(".")[0] in ONLY_IN_AIRFLOW:
        return "Airflow is not on the workers: do not import it there, and pass what the script needs from it as an argument"
    if f"{module}.py" in py_files:
        return f"`py_files` contains {module}.py, but {READERS}: install the module on the workers, or in their image"
    archives = [name for name in py_files if name.endswith(ARCHIVES)]
    if archives:
        return f"install the module on the workers, or in their image, or add it to {', '.join(archives)} in `py_files`; {READERS}"
    return "install the module on the workers, or add it to `py_files`"


def _log_output(driver: str, failure: Failure, written: DriverLog) -> None:
    log.warning("%s failed: %s", driver, failure.summary)
    _log_lines(driver, written)


def _log_lines(driver: str, written: DriverLog) -> None:
    for name, text, lines in (("stdout", written.stdout, STDOUT_LINES), ("stderr", written.stderr, STDERR_LINES)):
        for line in list(_readable(text))[-lines:]:
            log.warning("%s %s | %s", driver, name, line)


def _readable(text: str) -> Iterator[str]:
    """Yield lines without secrets, and without the frames of Java stack traces."""
    for line in text.splitlines():
        if line.strip() and not line.startswith(("\tat ", "Launch Command:")):
            indent = line[: len(line) - len(line.lstrip())]
            yield f"{indent}{redact(line)}"[:LINE_CHARACTERS]
