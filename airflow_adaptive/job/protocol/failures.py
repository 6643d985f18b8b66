"""From an exception, Python's or the JVM's, to the report by which the scheduler judges whether to try again."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

from airflow_adaptive.job.protocol.documents import FailureReport

MAX_MESSAGE_CHARACTERS: Final = 2000

MAX_CAUSES: Final = 20
"""Chains of causes are short; one longer than this goes round in circles."""

WRAPPERS: Final = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"})
"""Spark's error conditions that say no more than that there is a cause."""

CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""How Spark begins the message of each of its conditions (`SparkThrowableHelper.getMessage`)."""

PYTHON_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
"""The first line after a Python traceback that is not indented."""

BUILD_FUNCTION_ERROR: Final = "BUILD_FUNCTION_ERROR"
"""First cause of what the author's function raised; the scheduler judges it by whether the function has ever worked."""

TRACEBACK: Final = "Traceback (most recent call last):"

FRAME: Final = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)
"""Of a Python traceback."""

MAX_MESSAGE_LINES: Final = 5
"""Of the message at the end of a traceback; the plan of a query may follow it."""

LIBRARY_PATHS: Final = ("pyspark", "py4j", "airflow_adaptive")
"""Parts of the paths of code that is not the author's."""

SECRETS: Final = (
    re.compile(
        r"((?:password|passwd|passphrase|pwd|secret|token|credential|(?:access|account|api|private)[._-]?key)[\w.-]*[\"']?\s*[=:]\s*[\"']?)[^\s\"',;)&]+",
        re.IGNORECASE,
    ),
    re.compile(r"(://)[^/\s:@]+:[^/\s@]+(?=@)"),
)
"""What follows the first group is a secret."""

SHORTEST_SECRET: Final = 6
"""Shorter values are found in innocent words, or are flags."""

_secrets: set[str] = set()
"""Values that this process was given as secrets; see `register_secrets`."""


@dataclass(frozen=True, slots=True)
class ChainedError:
    """One exception of a chain: the name of its class, and its message."""

    name: str
    message: str

    @property
    def condition(self) -> str | None:
        """Spark's error condition, None if it has none or one that only wraps a cause."""
        found = CONDITION.match(self.message)
        return found[1] if found and found[1] not in WRAPPERS else None


def report_exception(error: BaseException) -> FailureReport:
    """Report of an exception of the script or of starting its query, with the author's line that it came from."""
    report = report_chain([link for exception in _python_chain(error) for link in _links(exception)])
    place = _script_location(error)
    return replace(report, message=f"{report.message} ({place})") if place else report


def report_build_failure(error: Exception) -> FailureReport:
    """Report of an exception of the author's function, while it made the query."""
    report = report_exception(error)
    return replace(report, causes=(BUILD_FUNCTION_ERROR, *report.causes))


def report_throwable(throwable: Any, query: str) -> FailureReport:
    """Report of the JVM's exception that ended a query."""
    return report_chain(list(_java_chain(throwable)), query)


def report_chain(links: list[ChainedError], query: str | None = None) -> FailureReport:
    """Report of a chain of exceptions, outermost first; Python exceptions inside the JVM's are made links of their own.

    The failure gets its name from the first condition of Spark in the chain, else from the innermost exception.
    """
    chain = [part for link in links for part in (link, *_nested_python_error(link))]
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
    """Keep these values out of all reports of this process; those that are too short to be told from words stay."""
    _secrets.update(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)


def redact(message: str) -> str:
    """The message without secrets, and without its middle if it is long: its first and its last lines tell most."""
    for known in sorted(_secrets, key=len, reverse=True):  # one may be a part of another
        message = message.replace(known, "***")
    for secret in SECRETS:
        message = secret.sub(r"\1***", message)
    message = message.strip()
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2 - 3
    return f"{message[:half]}\n...\n{message[-half:]}"


def _script_location(error: BaseException) -> str:
    """File and line of the innermost frame that belongs to neither Spark nor this package, "" without one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(library in frame.filename for library in LIBRARY_PATHS)]
    return f"{PurePath(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def _links(error: BaseException) -> Iterator[ChainedError]:
    """An exception, and those of the JVM that it stands for (`_origin` of pyspark's, `java_exception` of Py4J's)."""
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


def last_python_error(text: str) -> ChainedError | None:
    """The Python exception whose traceback is the last in a text, with the author's line; None without one.

    Spark has it in messages (`PythonException`, an error in `foreachBatch`), and a driver's output may end with it.
    """
    _, begins, after = text.rpartition(TRACEBACK)
    found = PYTHON_ERROR.search(after.lstrip("\n")) if begins else None
    if found is None:
        return None
    said = after.lstrip("\n")[found.end() :].strip().splitlines()[:MAX_MESSAGE_LINES]
    own = [frame for frame in FRAME.findall(after) if not any(library in frame[0] for library in LIBRARY_PATHS)]
    place = [f"({PurePath(own[-1][0]).name}:{own[-1][1]})"] if own else []
    return ChainedError(found[1], " ".join([*(line.strip() for line in said), *place]))


def _nested_python_error(link: ChainedError) -> Iterator[ChainedError]:
    inside = last_python_error(link.message)
    if inside is not None:
        yield inside


def _class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
