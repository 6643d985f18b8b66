"""Whether a failure can be recovered from at all.

Theory: a restart helps against the world (lost processes, time-outs, a full disk, missing permissions) and never against
the job itself (code that can't be loaded, a query that can't be analysed, a checkpoint of another query). The class names
of the failure and of all its causes decide, and Spark's error conditions where they say more. What else the author's
function raises is judged by whether it has ever worked: before the first plan was in force a `TypeError` is a mistake in
it, afterwards it may come from the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

BUILD_FUNCTION_ERROR = "BUILD_FUNCTION_ERROR"
"""First cause of what the author's function raised while it made the query (`job.protocol.failures` reports it)."""

NON_RECOVERABLE = (
    # Python that can't be loaded, or names what is not there.
    "SyntaxError",
    "IndentationError",
    "TabError",
    "ImportError",
    "ModuleNotFoundError",
    "PySparkImportError",
    "NameError",
    "UnboundLocalError",
    # The script does not give what a job needs.
    "AdaptiveJobError",
    "SCRIPT_WITHOUT_JOB",
    # Spark understands the query and refuses it.
    "AnalysisException",
    "ExtendedAnalysisException",
    "ParseException",
    "org.apache.spark.sql.catalyst.analysis.*",
    "org.apache.spark.sql.catalyst.parser.*",
    "SparkUnsupportedOperationException",
    "DATA_SOURCE_NOT_FOUND",
    "STATEFUL_PROCESSOR_*",
    "STATE_STORE_UNSUPPORTED_OPERATION*",
    # The checkpoint is of another query, of another Spark, or incomplete.
    "STREAMING_STATEFUL_OPERATOR_*",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
    "INVALID_LOG_VERSION",
    "STATE_STORE_*_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_*_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_*_SCHEMA_EVOLUTION*",
    "STATE_STORE_*_ROW_FORMAT_VALIDATION_FAILURE",
    "CANNOT_LOAD_STATE_STORE.*_ROW_FORMAT_VALIDATION_FAILURE",
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_PROVIDER",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
)
"""Patterns of exception classes and Spark error conditions (of Spark 4.3) that no restart can mend."""

RECOVERABLE = ("INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS",)
"""Analysis errors that a new analysis, which a restart makes, can mend."""

CODE_ERRORS = (
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "IndexError",
    "KeyError",
    "LookupError",
    "NotImplementedError",
    "OverflowError",
    "PicklingError",
    "RecursionError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
    "PySparkAssertionError",
    "PySparkAttributeError",
    "PySparkIndexError",
    "PySparkKeyError",
    "PySparkNotImplementedError",
    "PySparkPicklingError",
    "PySparkTypeError",
    "PySparkValueError",
)
"""Exceptions that code raises because of itself rather than of the world, unlike `OSError` or `RuntimeError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job failed.

    Attributes:
        error_class: Spark's error condition, or the exception's class.
        message: what it said.
        causes: class names of the exception and of its causes, outermost first.
    """

    error_class: str
    message: str
    causes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line for people."""
        return f"{self.error_class}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A failure that something followed from, and those that came while it was being handled.

    Flink: `RootExceptionHistoryEntry`, shown by `/jobs/:jobid/exceptions`.

    Attributes:
        at: when it was seen.
        state: name of the state in which it was.
        failure: the root.
        decision: what followed.
        concurrent: failures that came with it, oldest first.
    """

    at: datetime
    state: str
    failure: Failure
    decision: str
    concurrent: tuple[Failure, ...] = ()


def is_recoverable(
    failure: Failure, non_recoverable: Sequence[str] = (), recoverable: Sequence[str] = (), *, has_run: bool = True
) -> bool:
    """Whether a restart may help.

    Args:
        failure: judged by its own name and those of all its causes. A pattern fits a name, the last part of a class name
            (`ValueError`, `*.ValueError` and `module.ValueError` are the same), or the main part of a condition.
        non_recoverable: the user's patterns beside `NON_RECOVERABLE`.
        recoverable: the user's patterns that beat all others.
        has_run: whether the author's function has ever made a query that ran.
    """
    if _fits(failure, recoverable):
        return True
    if _fits(failure, non_recoverable):
        return False
    if not has_run and _is_code_error(failure):
        return False
    return _fits(failure, RECOVERABLE) or not _fits(failure, NON_RECOVERABLE)


def _is_code_error(failure: Failure) -> bool:
    """Whether the author's function itself raised it; what it handled on the way does not count."""
    marked, raised = failure.causes[:1], failure.causes[1:2]
    return marked == (BUILD_FUNCTION_ERROR,) and any(_simple(name) in CODE_ERRORS for name in raised)


def _fits(failure: Failure, patterns: Sequence[str]) -> bool:
    names = {part for name in (failure.error_class, *failure.causes) for part in _parts(name)}
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _parts(name: str) -> tuple[str, ...]:
    return name, _simple(name), name.partition(".")[0]


def _simple(name: str) -> str:
    return name.rpartition(".")[2]
