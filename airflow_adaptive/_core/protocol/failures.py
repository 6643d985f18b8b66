"""Converts exceptions of Python and of the JVM to failure reports, by which the scheduler decides whether to retry.

Theory: a failure arrives as a chain of exceptions, and the text of each may contain others: a Python traceback, a Java stack trace, or the
message of a failed task. `_expanded` makes one chain of them. Some links name a cause, and others only wrap one, introduce a stack trace,
or report that something was aborted. The first of Spark's error conditions is the error class, or else the class of the innermost link that
names a cause. The message joins that link with the cause below it, or with the link above it that names what failed.

Spark's Kafka connector omits the error conditions from its messages; `name_conditions` adds them. Source: `error/kafka-error-conditions.json` and `org.apache.spark.sql.kafka010.KafkaIllegalStateException` of the connector 4.2.0. In Real-Time Mode,
the connector does not check its offsets, so that the exception of Kafka's consumer reports lost records
(`org.apache.kafka.clients.consumer.OffsetOutOfRangeException`).
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.protocol.secret_names import TERMS, URL_PASSWORD, secret_parts

MAX_MESSAGE_CHARACTERS: Final = 2000

MAX_PART_CHARACTERS: Final = 450
"""Maximum length of each part of a message with several parts, so that a long first part does not displace the cause after it."""

MAX_DEPTH: Final = 3
"""Maximum depth of exceptions in the text of exceptions."""

MAX_TEXT_CHARACTERS: Final = 50_000
"""Maximum length of the text of an exception that is searched for other exceptions."""

MAX_REDACTED_CHARACTERS: Final = 20_000
"""Characters of a message that are searched for secrets; the plan of a query in a message can have megabytes. The rest is cut."""

MAX_CAUSES: Final = 20
"""Maximum length of a chain of exceptions. A longer chain is a cycle."""

WRAPPERS: Final = frozenset(
    {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR", "WRITING_JOB_ABORTED"}
)
"""Spark's error conditions that only wrap a cause."""

CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""Start of a message that belongs to one of Spark's error conditions (`SparkThrowableHelper.getMessage`)."""

UNSPECIFIC: Final = re.compile(r"INTERNAL_ERROR.*|.*\.UNCATEGORIZED")
"""Spark's error conditions that say less than any other condition in their chain."""

JVM_ERROR: Final = re.compile(
    r'(?:Caused by: |Exception in thread "[^"]*" |: )?((?:\w+\.)+[A-Z][\w$]*(?:Exception|Error)|(?<=Caused by: )[\w.$]+)(?:: (.*))?$'
)
"""A line of a text with which a JVM exception begins: its class and message."""

CONDITION_IN_TEXT: Final = re.compile(r"(?:^|: )((?:\w+\.)+[\w$]+): (\[[A-Z].*)")
"""A JVM exception with one of Spark's error conditions within a line: its class and message."""

DESCRIPTION: Final = re.compile(r"(?:\s+SQLSTATE: \w{5})*\s+=== Streaming Query ===\n")
"""Begin of what Spark appends to the error of a query: the codes of its wrappers, and the query with its run, offsets and plan."""

JVM_FRAME: Final = re.compile(r"\s+at [^\s(]+\(|\s*\.\.\. \d+ (?:more|common)|Driver stacktrace:")
"""A line of a Java stack trace."""

FAILED_STAGE: Final = re.compile(
    r"(?:Job aborted due to stage failure: )?Task \S+ in stage \S+ failed \d+ times?"
    r"(?:, most recent failure: Lost task \S+ in stage \S+(?: \(.*?\))*: )?|Job aborted due to stage failure: "
)
"""Text before the cause in the message of a failed stage."""

GENERIC: Final = re.compile(
    r".*:|(?:(?:Job|Stage|Task|Writing job)\b.{0,40} aborted|Task failed while writing rows|Exception thrown in awaitResult|"
    r"Boxed (?:Exception|Error)|An error occurred while calling \S+|An exception was raised by the Python Proxy. Return Message)\.?",
    re.DOTALL,
)
"""Messages that name no cause. A colon at the end introduces what the message does not contain, such as a stack trace."""

NO_TEXT: Final = ("null", "None")
"""Texts of exceptions without a message."""

GENERIC_CLASS: Final = re.compile(
    r"Exception|Error|Throwable|RuntimeException|(?:Spark|Execution|Completion|InvocationTarget|UndeclaredThrowable|PrivilegedAction|"
    r"StreamingQuery|Python)Exception|Py4J\w+"
)
"""Simple names of classes that name no cause themselves."""

UNFIT_CLASS: Final = re.compile(
    r"java\.lang\.(?:NoSuch(?:Method|Field)|NoClassDefFound|AbstractMethod|IncompatibleClassChange)Error"
)
"""Errors of a class that was compiled with other classes. The message names what is missing, and only the stack trace who needs it."""

PYTHON_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
"""The first line after a Python traceback that is not indented."""


TRACEBACK: Final = "Traceback (most recent call last):"

FRAME: Final = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)
"""A frame of a Python traceback."""

MAX_MESSAGE_LINES: Final = 5
"""Maximum number of lines of the message at the end of a traceback, because the plan of a query may follow the message."""

LIBRARY_PATHS: Final = ("pyspark", "py4j", "airflow_adaptive")
"""Parts of the paths of code that does not belong to the author of the script."""

ASSIGNMENT: Final = re.compile(r"""(?<![\w.-])(?:[\w.-]+ )?([\w.-]+)["']?\s*[=:]\s*["']?""")
"""Begin of an assignment in a text, up to its value. A name begins at its first character only, so that the time is linear."""

SECRET_TERM: Final = re.compile(TERMS)

VALUE: Final = re.compile(r"""[^\s"',;)&]+""")

SECRETS: Final = (
    re.compile(rf"(://)[^/\s:@\[]+:{URL_PASSWORD}"),
    re.compile(r"(https?://)[^/\s:@]+(?=@)"),
)
"""Patterns of secrets: the text after the first group is a secret."""

CUT: Final = " ..."
"""End of a text that was shortened."""

SHORTEST_SECRET: Final = 6
"""Minimum length of a registered secret. A shorter value also occurs in ordinary words, or is a flag."""

_secrets: set[str] = set()
"""Secret values that this process has received; see `register_secrets`."""


@dataclass(frozen=True, slots=True)
class ChainedError:
    """One exception of a chain: the name of its class, its message, and the line of the script that raised it, "" if unknown."""

    name: str
    message: str
    place: str = ""

    @property
    def condition(self) -> str | None:
        """Spark's error condition of the exception, or None if it has none or one that only wraps a cause."""
        found = CONDITION.match(self.message)
        return found[1] if found and found[1] not in WRAPPERS else None

    @property
    def names_cause(self) -> bool:
        """Whether the message names a cause, and does not only wrap another exception."""
        is_wrapper = CONDITION.match(self.message) is not None and self.condition is None
        return not (self.message in ("", self.name) or is_wrapper or GENERIC.fullmatch(self.message))

    @property
    def is_named_by_class(self) -> bool:
        """Whether the class names a cause without a message, such as `java.nio.channels.ClosedChannelException`."""
        return not self.message and GENERIC_CLASS.fullmatch(self.name.rpartition(".")[2]) is None

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


def report_exception(error: BaseException) -> FailureReport:
    """Return the report of an exception that the script or the start of a query raised, with the line of the script."""
    report = report_chain([link for exception in _python_chain(error) for link in _links(exception)])
    place = _script_location((frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__))
    is_new = place and not report.message.endswith(f" ({place})")
    return replace(report, message=f"{report.message} ({place})") if is_new else report


def report_build_failure(error: Exception) -> FailureReport:
    """Return the report of an exception that the build function raised while it built the queries."""
    report = report_exception(error)
    return replace(report, causes=(FailureCode.BUILD_FUNCTION_ERROR, *report.causes))


def report_throwable(throwable: Any, query: str) -> FailureReport:
    """Return the report of the JVM exception that ended a query."""
    return report_chain(list(_java_chain(throwable)), query)


def report_chain(links: Sequence[ChainedError], query: str | None = None) -> FailureReport:
    """Return the report of a chain of exceptions, outermost first.

    Exceptions of Python and of the JVM in a message become members of the chain: if a function of `foreachBatch` raises an exception of
    Spark, the JVM gets only its text.
    """
    chain = [part for link in links for part in _expanded(link)]
    at = _place_of_cause(chain)
    error = chain[at]
    conditions = [link.condition for link in chain if link.condition is not None]
    error_class = error.condition or error.name
    return FailureReport(
        error_class=error_class,
        message=_joined(_below(chain, at) if error.condition else _above(chain, at), chain),
        causes=tuple(dict.fromkeys([*(link.name for link in chain), *(it for it in conditions if it != error_class)])),
        query=query,
    )


def _place_of_cause(chain: Sequence[ChainedError]) -> int:
    """Return the index of the link that is the error class."""
    named = [at for at, link in enumerate(chain) if link.condition]
    specific = [at for at in named if not UNSPECIFIC.fullmatch(chain[at].condition or "")]
    causes = [at for at, link in enumerate(chain) if link.names_cause]
    return next(iter(specific or named or reversed(causes)), len(chain) - 1)


def _below(chain: Sequence[ChainedError], at: int) -> list[str]:
    """Return the message of an error condition and of its cause."""
    error, causes = chain[at], [link for link in chain[at + 1 :] if link.names_cause]
    cause = _quoted(causes) if causes else _class_of_cause(chain, at)
    if cause is None or (causes and causes[-1].message in error.message):
        return [error.message]
    return (
        [f"[{error.condition}] {cause}"] if GENERIC.fullmatch(error.message) else [error.message, f"caused by {cause}"]
    )


def _above(chain: Sequence[ChainedError], at: int) -> list[str]:
    """Return the message of the innermost link that names a cause, and of the nearest link above that adds to it."""
    causes = [link for link in chain[: at + 1] if link.names_cause]
    if not causes:  # only wrappers: the longest text says most
        return [max((link.message for link in chain), key=len)]
    text = _quoted(causes).removeprefix(f"{chain[at].name}: ")
    above = [str(link) for link in causes[:-1] if link.message not in text and causes[-1].message not in link.message]
    below = _class_of_cause(chain, at)
    return [text, *([f"caused by {below}"] if below else []), *(f"reported as {link}" for link in above[-1:])]


def _quoted(causes: Sequence[ChainedError]) -> str:
    """Return the class of the innermost cause, and its message in the words of the outermost link that quotes the message."""
    innermost = causes[-1]
    quoting = next(link for link in causes if innermost.message in link.message)
    return str(replace(innermost, message=quoting.message))


def _class_of_cause(chain: Sequence[ChainedError], at: int) -> str | None:
    """Return the class of the innermost exception without a message below a link, None without such a cause."""
    return next((link.name for link in reversed(chain[at + 1 :]) if link.is_named_by_class), None)


def _joined(parts: Sequence[str], chain: Sequence[ChainedError]) -> str:
    """Return the parts without secrets, with the line of the script."""
    places = [f" ({link.place})" for link in chain if link.place][-1:]
    limit = MAX_MESSAGE_CHARACTERS if len(parts) == 1 else MAX_PART_CHARACTERS
    return "; ".join(shortened(redact(part), limit) for part in parts) + "".join(places)


def register_secrets(secrets: Iterable[str]) -> None:
    """Remove these values from all reports of this process.

    Values that are too short to distinguish from words remain.
    """
    parts = (part for secret in secrets for part in secret_parts(secret))
    _secrets.update(part for part in parts if len(part) >= SHORTEST_SECRET)


def redact(message: str) -> str:
    """Return the message without secrets; a long message is shortened."""
    for known in sorted(_secrets, key=len, reverse=True):  # a secret may be part of another secret
        message = message.replace(known, "***")
    message = message[:MAX_REDACTED_CHARACTERS]
    for secret in SECRETS:
        message = secret.sub(r"\1***", message)
    message = _without_assigned_secrets(message)
    return shortened(message.strip(), MAX_MESSAGE_CHARACTERS)


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters: the beginning of a longer text, up to the end of a word."""
    if len(text) <= limit:
        return text
    beginning = text[: limit - len(CUT)]
    words = re.sub(r"\s+\S*$", "", beginning)
    return f"{words if len(words) > limit / 2 else beginning}{CUT}"


def _without_assigned_secrets(message: str) -> str:
    """Return the message without the values of names that contain the term of a secret, such as `password=...`."""
    kept, end = [], 0
    for begin in ASSIGNMENT.finditer(message):
        name = begin.start(1) - begin.start()
        is_secret = begin.start() >= end and any(term.end() > name for term in SECRET_TERM.finditer(begin[0]))
        if is_secret and (value := VALUE.match(message, begin.end())):
            kept += [message[end : begin.end()], "***"]
            end = value.end()
    return "".join([*kept, message[end:]])


def _script_location(frames: Iterable[tuple[str, object]]) -> str:
    """Return the innermost of the frames (file, line) outside Spark and this package, or "" if there is none."""
    own = [(file, line) for file, line in frames if not any(part in LIBRARY_PATHS for part in PurePath(file).parts)]
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
        name, message = throwable.getClass().getName(), str(throwable.getMessage() or "")
        if message and UNFIT_CLASS.fullmatch(name):
            message += "".join(f", called by {frame.getClassName()}" for frame in list(throwable.getStackTrace())[:1])
        yield ChainedError(name, message)
        throwable = throwable.getCause()


def _expanded(link: ChainedError, depth: int = 0) -> list[ChainedError]:
    """Return an exception with its own text as its message, and the exceptions in its text, outermost first."""
    message, *_ = DESCRIPTION.split(link.message[:MAX_TEXT_CHARACTERS], maxsplit=1)
    text = name_conditions(message.strip())
    own, inside = jvm_errors(FAILED_STAGE.sub("", text.rpartition(TRACEBACK)[0] or text, count=1))
    own = "" if own in NO_TEXT else own.removesuffix(":") if inside else own
    inside = [*inside, *python_errors(text)]
    if depth < MAX_DEPTH:
        inside = [part for error in inside for part in _expanded(error, depth + 1)]
    return [replace(link, message=own), *inside]


def jvm_errors(text: str) -> tuple[str, list[ChainedError]]:
    """Return what precedes the first JVM exception and the first stack trace in a text, and the JVM exceptions, outermost first."""
    own: list[str] = []
    errors: list[tuple[str, list[str]]] = []
    message: list[str] | None = own
    for line in text.splitlines():
        within = CONDITION_IN_TEXT.search(line)
        found = JVM_ERROR.match(line) or within
        if JVM_FRAME.match(line):
            message = None  # until the next exception
        elif found is not None:
            if found is within and message is not None:
                message.append(line[: within.start()])
            message = [found[2] or ""]
            errors.append((found[1], message))
        elif message is not None:
            message.append(line)
    return "\n".join(own).strip(), [ChainedError(name, "\n".join(lines).strip()) for name, lines in errors]


def python_errors(text: str) -> list[ChainedError]:
    """Return the Python exception of the last traceback in a text, with the line of the script, and the JVM exceptions in its message (`Py4JJavaError`).

    Spark puts tracebacks into messages (`PythonException`, an error in `foreachBatch`), and the output of a driver may end with one.
    """
    _, begins, after = text.rpartition(TRACEBACK)
    found = PYTHON_ERROR.search(after.lstrip("\n")) if begins else None
    if found is None:
        return []
    own, inside = jvm_errors(after.lstrip("\n")[found.end() :].strip())
    message = " ".join(line.strip() for line in own.splitlines()[:MAX_MESSAGE_LINES])
    return [ChainedError(found[1], message, _script_location(FRAME.findall(after))), *inside]


def _class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


DATA_LOSS: Final = "KAFKA_DATA_LOSS"

DATA_LOSS_REASONS: Final = {
    "Starting offset for ": "START_OFFSET_RESET",
    "Could not read records ": "COULD_NOT_READ_OFFSET_RANGE",
    "Added partition ": "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
    "Partition ": "PARTITION_OFFSET_CHANGED",
    "Partitions ": "PARTITIONS_DELETED",
    "Cannot find initial offsets ": "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
}
"""Beginning of the reason in a message, and the second part of the error condition."""

DATA_LOSS_MESSAGE: Final = re.compile(
    rf"Some data may have been lost because .*?Reason:\s+({'|'.join(DATA_LOSS_REASONS)})([^\n]*)", re.DOTALL
)

OUT_OF_RANGE: Final = re.compile(
    r"((?:Fetch position [^\n]*? is|Offsets) out of range (?:for partition|with no configured)[^\n]*)"
)

DATA_LOSS_REMEDY: Final = (
    " To continue without these records, set the option failOnDataLoss of the source to false until the next batch is committed. To begin again, "
    "delete the checkpoint of the query"
)

REAL_TIME_REMEDY: Final = (
    " To begin again, delete the checkpoint of the query; Real-Time Mode does not read the option failOnDataLoss"
)


def name_conditions(text: str) -> str:
    """Return the text with `[condition] reason` and the remedy in place of each message about lost data."""
    text = DATA_LOSS_MESSAGE.sub(
        lambda found: f"[{DATA_LOSS}.{DATA_LOSS_REASONS[found[1]]}] {found[1]}{_sentence(found[2])}{DATA_LOSS_REMEDY}",
        text,
    )
    return OUT_OF_RANGE.sub(
        lambda found: f"[{DATA_LOSS}.COULD_NOT_READ_OFFSET_RANGE] {_sentence(found[1])}{REAL_TIME_REMEDY}", text
    )


def _sentence(text: str) -> str:
    return f"{text.rstrip(' .')}."
