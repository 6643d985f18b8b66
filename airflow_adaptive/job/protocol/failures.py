"""Converts exceptions of Python and of the JVM to failure reports, by which the scheduler decides whether to retry."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import PurePath
from typing import Any, Final

from airflow_adaptive.job.protocol.documents import FailureReport
from airflow_adaptive.job.protocol.kafka_errors import name_conditions
from airflow_adaptive.job.protocol.secret_names import TERMS, URL_PASSWORD

MAX_MESSAGE_CHARACTERS: Final = 2000

MAX_CAUSES: Final = 20
"""Maximum length of a chain of exceptions. A longer chain is a cycle."""

WRAPPERS: Final = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"})
"""Spark's error conditions that only wrap a cause."""

CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""Start of a message that belongs to one of Spark's error conditions (`SparkThrowableHelper.getMessage`)."""

JVM_ERROR: Final = re.compile(r"(?:^|: )((?:\w+\.)+[\w$]+): (\[[A-Z].*)", re.MULTILINE)
"""A JVM exception with one of Spark's error conditions in the text of a Python exception (`Py4JJavaError`): its class and message."""

PYTHON_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
"""The first line after a Python traceback that is not indented."""

BUILD_FUNCTION_ERROR: Final = "BUILD_FUNCTION_ERROR"
"""First cause of a failure that the build function raised. The scheduler retries it only if the function has worked
before."""

SPARK_CONTEXT_STOPPED: Final = "SPARK_CONTEXT_STOPPED"
"""Failure of a driver whose session ended under its queries. The driver does not know who stopped the session."""

TRACEBACK: Final = "Traceback (most recent call last):"

FRAME: Final = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)
"""A frame of a Python traceback."""

MAX_MESSAGE_LINES: Final = 5
"""Maximum number of lines of the message at the end of a traceback, because the plan of a query may follow the message."""

LIBRARY_PATHS: Final = ("pyspark", "py4j", "airflow_adaptive")
"""Parts of the paths of code that does not belong to the author of the script."""

SECRETS: Final = (
    re.compile(rf"((?:{TERMS})[\w.-]*[\"']?\s*[=:]\s*[\"']?)[^\s\"',;)&]+"),
    re.compile(rf"(://)[^/\s:@\[]+:{URL_PASSWORD}"),
    re.compile(r"(https?://)[^/\s:@]+(?=@)"),
)
"""Patterns of secrets: the text after the first group is a secret."""

SHORTEST_SECRET: Final = 6
"""Minimum length of a registered secret. A shorter value also occurs in ordinary words, or is a flag."""

_secrets: set[str] = set()
"""Secret values that this process has received; see `register_secrets`."""


@dataclass(frozen=True, slots=True)
class ChainedError:
    """One exception of a chain: the name of its class, and its message."""

    name: str
    message: str

    @property
    def condition(self) -> str | None:
        """Spark's error condition of the exception, or None if it has none or one that only wraps a cause."""
        found = CONDITION.match(self.message)
        return found[1] if found and found[1] not in WRAPPERS else None


def report_exception(error: BaseException) -> FailureReport:
    """Return the report of an exception that the script or the start of a query raised, with the line of the script."""
    report = report_chain([link for exception in _python_chain(error) for link in _links(exception)])
    place = _script_location((frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__))
    return replace(report, message=f"{report.message} ({place})") if place else report


def report_build_failure(error: Exception) -> FailureReport:
    """Return the report of an exception that the build function raised while it built the queries."""
    report = report_exception(error)
    return replace(report, causes=(BUILD_FUNCTION_ERROR, *report.causes))


def report_throwable(throwable: Any, query: str) -> FailureReport:
    """Return the report of the JVM exception that ended a query."""
    return report_chain(list(_java_chain(throwable)), query)


def report_chain(links: list[ChainedError], query: str | None = None) -> FailureReport:
    """Return the report of a chain of exceptions, outermost first.

    A Python exception in a JVM message becomes a member of the chain, and the JVM exceptions in its text, too: if a function of
    `foreachBatch` raises an exception of Spark, the JVM gets only its text.

    The error class is the first of Spark's error conditions in the chain, or else the class of the innermost exception.
    """
    named_links = [replace(link, message=name_conditions(link.message)) for link in links]
    chain = [part for link in named_links for part in (link, *_errors_in(link.message))]
    named = next((link for link in chain if link.condition), chain[-1])
    inside = last_python_error(named.message)
    message = named.message if inside is None else f"[{named.condition}] {inside.name}: {inside.message}"
    return FailureReport(
        error_class=named.condition or named.name,
        message=redact(message),
        causes=tuple(dict.fromkeys(link.name for link in chain)),
        query=query,
    )


def register_secrets(secrets: Iterable[str]) -> None:
    """Remove these values from all reports of this process.

    Values that are too short to distinguish from words remain.
    """
    _secrets.update(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)


def redact(message: str) -> str:
    """Return the message without secrets.

    A long message loses its middle, because its first and last lines contain the most information.
    """
    for known in sorted(_secrets, key=len, reverse=True):  # a secret may be part of another secret
        message = message.replace(known, "***")
    for secret in SECRETS:
        message = secret.sub(r"\1***", message)
    message = message.strip()
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2 - 3
    return f"{message[:half]}\n...\n{message[-half:]}"


def _script_location(frames: Iterable[tuple[str, object]]) -> str:
    """Return the innermost of the frames (file, line) outside Spark and this package, or "" if there is none."""
    own = [(file, line) for file, line in frames if not any(library in file for library in LIBRARY_PATHS)]
    return f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else ""


def _links(error: BaseException) -> Iterator[ChainedError]:
    """Yield an exception, and the JVM exceptions that it wraps (`_origin` in pyspark, `java_exception` in Py4J)."""
    throwable = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    java = list(_java_chain(throwable))
    yield ChainedError(_class_name(type(error)), java[0].message if java else str(error))
    yield from java


def _python_chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(MAX_CAUSES):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _java_chain(throwable: Any) -> Iterator[ChainedError]:
    for _ in range(MAX_CAUSES):
        if throwable is None:
            return
        yield ChainedError(throwable.getClass().getName(), str(throwable.getMessage() or ""))
        throwable = throwable.getCause()


def _errors_in(message: str) -> Iterator[ChainedError]:
    """Yield the Python exception of the last traceback in a message, and the JVM exceptions in its text."""
    found = last_python_error(message)
    if found is not None:
        yield found
        yield from starmap(ChainedError, JVM_ERROR.findall(message.rpartition(TRACEBACK)[2]))


def last_python_error(text: str) -> ChainedError | None:
    """Return the Python exception of the last traceback in a text, with the line of the script.

    Returns None for a text without a traceback. Spark puts tracebacks into messages (`PythonException`, an error in
    `foreachBatch`), and the output of a driver may end with one.
    """
    _, begins, after = text.rpartition(TRACEBACK)
    found = PYTHON_ERROR.search(after.lstrip("\n")) if begins else None
    if found is None:
        return None
    message = after.lstrip("\n")[found.end() :].strip().splitlines()[:MAX_MESSAGE_LINES]
    place = _script_location(FRAME.findall(after))
    lines = [*(line.strip() for line in message), *([f"({place})"] if place else [])]
    return ChainedError(found[1], " ".join(lines))


def _class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
