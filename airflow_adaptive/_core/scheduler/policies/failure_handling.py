"""Classification of failures: whether a restart can help.

Theory: a restart helps after a failure of the environment (a lost process, a timeout, a full disk, a missing permission). A
restart does not help after an error in the job (code that cannot be loaded, a query that cannot be analyzed, a checkpoint of
another query). The class names of the failure and of all its causes, and Spark's error conditions, decide. An error in the
code of the build function, for example a `TypeError`, is not recoverable before the first plan was active; afterwards, the
environment may have caused the error. The same applies to a driver that the cluster refuses, and to an account without rights to the storage, to the
brokers or to tables: afterwards, the rights may be missing only for a while, for example because a token has expired.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from airflow_adaptive._core.failure_code import FailureCode

NON_RECOVERABLE = (
    # Python code that cannot be loaded, or that uses an undefined name.
    "SyntaxError",
    "IndentationError",
    "TabError",
    "ImportError",
    "ModuleNotFoundError",
    "PySparkImportError",
    "NameError",
    "UnboundLocalError",
    # The driver does not support its version of Spark or Python, or a class needs a newer Java.
    "UnsupportedVersionError",
    "UnsupportedClassVersionError",
    # A jar was built for another version of Spark.
    "IncompatibleClassChangeError",
    "NoSuchMethodError",
    "NoSuchFieldError",
    "AbstractMethodError",
    # No repository contains a package of the job.
    "UnpublishedPackageError",
    # The script does not define a job.
    "AdaptiveJobError",
    "RealTimeModeError",
    FailureCode.SCRIPT_WITHOUT_JOB,
    # The script uses a session before one exists.
    "SESSION_OR_CONTEXT_NOT_EXISTS",
    # The cluster manager can never start the driver as it is declared, for example because its image does not exist.
    FailureCode.DRIVER_NOT_STARTED,
    # Spark rejects the query.
    "AnalysisException",
    "ExtendedAnalysisException",
    "ParseException",
    "org.apache.spark.sql.catalyst.analysis.*",
    "org.apache.spark.sql.catalyst.parser.*",
    "SparkUnsupportedOperationException",
    "DATA_SOURCE_NOT_FOUND",
    "NoSuchTableException",
    # The rows of a batch, which is the same after a restart, cannot be merged.
    "MERGE_CARDINALITY_VIOLATION",
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    "STATEFUL_PROCESSOR_*",
    "STREAMING_REAL_TIME_MODE",
    "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL",
    "STATE_STORE_UNSUPPORTED_OPERATION*",
    # The checkpoint belongs to another query or another version of Spark, or is incomplete.
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
    # Files of the checkpoint are missing or damaged (`job.state.damage`).
    "DamagedCheckpointError",
    # A table that the query reads was replaced or changed, or no longer has the commits after the offsets in the checkpoint.
    "TableReplacedError",
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    "DELTA_SOURCE_IGNORE_DELETE",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    # The brokers no longer have the records after the offsets in the checkpoint.
    "TopicRecreatedError",
    "KAFKA_DATA_LOSS.START_OFFSET_RESET",
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
    "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
)
"""Patterns of exception classes and of error conditions (of Spark 4.3) after which no restart helps."""

BATCH_STILL_RUNS = "BatchStillRunsError"
"""The driver could not stop a batch, and ends (`job.control.interfaces`). The job has not failed."""


ACCESS_DENIED = (
    "PermissionError",
    "AccessDeniedException",
    "AccessControlException",
    "*AuthorizationException",
    "AUTHORIZATION_FAILED",
    "PERMISSION_DENIED",
)
"""Patterns of exception classes and of error conditions for an account that lacks rights."""

RECOVERABLE = ("INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS",)
"""Analysis errors after which a restart helps, because the restart analyzes the query again."""

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
    # Spark's, for an option or an argument of the query.
    "IllegalArgumentException",
)
"""Exceptions that indicate an error in the code, unlike `OSError` or `RuntimeError`."""

UNSUBMITTED = (FailureCode.NOT_SUBMITTED, FailureCode.SUBMISSION_REFUSED)
"""Error classes of a driver that the cluster has never started."""

OUTAGES = (
    *UNSUBMITTED,
    # The driver or its executors are gone, or never came.
    FailureCode.DRIVER_LOST,
    FailureCode.DRIVER_MOVED,
    FailureCode.DRIVER_HEARTBEAT_TIMEOUT,
    FailureCode.DRIVER_LEASE_OVER,
    FailureCode.DRIVER_ORPHANED,
    FailureCode.DEPLOY_TIMEOUT,
    FailureCode.APPLICATION_REMOVED,
    FailureCode.MASTER_UNRESPONSIVE,
    FailureCode.SPARK_CONTEXT_STOPPED,
    "JAVA_GATEWAY_EXITED",
    "TASK_FAILED",
    # Storage, network, databases and brokers.
    "DirectoryError",
    "OSError",
    "IOException",
    "RemoteException",
    "ConnectionError",
    "Connection*Error",
    "BrokenPipeError",
    "*Connect*Exception",
    "*ConnectionException",
    "*Disconnect*Exception",
    "TimeoutError",
    "*Timeout*Exception",
    "*TimeoutError",
    "*TIMEOUT*",
    "UnknownHostException",
    "NoRouteToHostException",
    "SocketException",
    "SSLException",
    "InterruptedIOException",
    "StandbyException",
    "RetriableException",
    "*Unavailable*",
    "*NotAvailable*",
    "*Throttl*",
    "SdkClientException",
    "AWSServiceIOException",
    "AWSStatus500Exception",
    "org.apache.kafka.common.*",
)
"""Patterns of exception classes and of error conditions that an outage of the cluster, of a storage or of brokers causes."""

OF_ONE_DRIVER = (FailureCode.DRIVER_LOST, FailureCode.DEPLOY_TIMEOUT, FailureCode.SUBMISSION_REFUSED)
"""Error classes of an outage that a deployment may cause, too: its code never returns, its memory is too small, or its declaration is invalid."""

_OUTAGE_WORDS = re.compile(
    r"connection (?:refused|reset|closed|aborted|timed out|was)|connect(?:ion)? to .* failed|timed?[ -]?out|no route to host|unknown ?host|"
    r"name or service not known|name resolution|network is unreachable|service unavailable|slow ?down|too many requests|"
    r"\b(?:429|500|502|503|504)\b|not available|disconnected|broken pipe|lost executor|executor ?lost|executor .* (?:lost|exited)|"
    r"worker lost|node (?:lost|not ready)|no leader|state standby|standbyexception|safe ?mode|input/output error|no space left|stale file handle|"
    r"deadline exceeded|java\.net\.\w+Exception",
    re.IGNORECASE,
)
"""Words of an outage in a message: the class of the cause may stand in the text only, for example in the failure of a task."""

_STALE_TABLE = re.compile(r"Table UUID does not match|Metadata file for version \d+ is missing")

_DENIED_CLASS = re.compile(
    r"\b(?:PermissionError|AccessDeniedException|AccessControlException|\w*AuthorizationException)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure of a job.

    Attributes:
        error_class: error condition of Spark, or class of the exception.
        message: message of the exception.
        causes: class names of the exception and of its causes, outermost first.
    """

    error_class: str
    message: str
    causes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Class and message in one line."""
        return f"{self.error_class}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A root failure, the decision on it, and its concurrent failures (Flink: `RootExceptionHistoryEntry`).

    Attributes:
        at: time of the observation.
        state: name of the state at that time.
        failure: root failure.
        decision: decision of the scheduler, human-readable.
        concurrent: failures that arrived while the scheduler handled the root failure, oldest first.
    """

    at: datetime
    state: str
    failure: Failure
    decision: str
    concurrent: tuple[Failure, ...] = ()


def is_recoverable(
    failure: Failure,
    non_recoverable: Sequence[str] = (),
    recoverable: Sequence[str] = (),
    *,
    was_accepted: bool = True,
    has_run: bool = True,
) -> bool:
    """Return whether a restart can help.

    A pattern matches a name of the failure or of its causes, the last part of a class name (`ValueError`, `*.ValueError` and
    `module.ValueError` are equivalent), or the main part of an error condition.

    Args:
        failure: failure to classify.
        non_recoverable: patterns of the user in addition to `NON_RECOVERABLE`.
        recoverable: patterns of the user with precedence over all other patterns.
        was_accepted: whether the cluster manager has ever accepted a driver of the job. A refusal before that is final, because the
            address or the token may be wrong.
        has_run: whether a plan of the job was ever active.
    """
    if matches(failure, recoverable):
        return True
    if matches(failure, non_recoverable):
        return False
    if not was_accepted and failure.error_class == FailureCode.SUBMISSION_REFUSED:
        return False
    if not has_run and (
        failure.error_class == FailureCode.DRIVER_REFUSED or is_access_denied(failure) or _is_code_error(failure)
    ):
        return False
    return matches(failure, RECOVERABLE) or not matches(failure, NON_RECOVERABLE)


def is_outage(failure: Failure) -> bool:
    """Return whether an outage of the cluster, of a storage or of brokers may have caused a failure."""
    return matches(failure, OUTAGES) or _OUTAGE_WORDS.search(failure.message) is not None


def is_outage_for_all(failure: Failure) -> bool:
    """Return whether an outage may have caused a failure that a driver does not cause alone (`OF_ONE_DRIVER`)."""
    return failure.error_class not in OF_ONE_DRIVER and is_outage(failure)


def is_stale_table(failure: Failure) -> bool:
    """Return whether Iceberg has the metadata of a table in the driver that was replaced. It reports this once per commit to the new table."""
    return _STALE_TABLE.search(failure.message) is not None


def is_access_denied(failure: Failure) -> bool:
    """Return whether a storage, a broker or a database has refused the account of the driver; the class may stand in the message only."""
    return matches(failure, ACCESS_DENIED) or _DENIED_CLASS.search(failure.message) is not None


def is_unended_batch(failure: Failure) -> bool:
    """Return whether a driver ended because it could not stop a batch, which is not a failure of the job."""
    return _simple(failure.error_class) == BATCH_STILL_RUNS


def _is_code_error(failure: Failure) -> bool:
    """Return whether the build function raised an error in its code. Causes of the raised exception do not count."""
    marked, raised = failure.causes[:1], failure.causes[1:2]
    return marked == (FailureCode.BUILD_FUNCTION_ERROR,) and any(_simple(name) in CODE_ERRORS for name in raised)


def matches(failure: Failure, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches the failure or one of its causes, see `is_recoverable`."""
    names = {part for name in (failure.error_class, *failure.causes) for part in _parts(name)}
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _parts(name: str) -> tuple[str, ...]:
    return name, _simple(name), name.partition(".")[0]


def _simple(name: str) -> str:
    return name.rpartition(".")[2]
