"""Causes that Spark reports under a general exception, and what to do about failures that are final.

Theory: Spark reports some errors that no restart can remove as a plain `IllegalArgumentException` or `AssertionError`. Only the text
tells them from other errors. If the failure is final, the user also needs to know what to do, and Spark's own advice may be dangerous.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_access_denied, matches

OTHER_CHECKPOINT = (
    "the checkpoint is unchanged. There are two ways on: restore the earlier query (its sources, operators, schema and properties), which "
    "continues from the checkpoint; or rename the query or the job, which begins with a new checkpoint, where the options of its sources "
    "determine the first rows"
)

OTHER_TABLE = (
    "rename the query or the job, which begins with a new checkpoint and reads the table from its beginning, unless the options of the source say "
    "otherwise"
)


CATALOG = "a name of three parts begins with its catalog, and spark.sql.catalog.<name> in `conf` configures the catalog; then clear the task"

ONE_INSTALLATION = (
    "the driver and an executor have different versions: use one image for both, or install on all workers"
)


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A cause that is known to be final.

    Attributes:
        text: pattern of the message, "" for any message.
        names: patterns of exception classes and of error conditions, empty for any failure.
        advice: what to do, "" if `name_artifact` or the message says it.
    """

    text: str
    names: tuple[str, ...]
    advice: str

    def explains(self, failure: Failure) -> bool:
        """Return whether this is the cause of a failure."""
        return (not self.names or matches(failure, self.names)) and re.search(self.text, failure.message) is not None


BY_TEXT = (
    KnownCause("Wrong basePath", (), f"the checkpoint belongs to other input folders: {OTHER_CHECKPOINT}"),
    KnownCause("sources in the checkpoint offsets", (), f"the query has another number of sources: {OTHER_CHECKPOINT}"),
    KnownCause(
        r"(?:Method|Constructor) \S+\(.*\) does not exist",
        ("Py4JException", "Py4JError"),
        "this version of Spark has no such method: use a version that airflow-adaptive supports, or correct the call in the script",
    ),
    KnownCause(
        "produced by a newer version of Spark",
        (),
        "the checkpoint is unchanged: run the job with the Spark that wrote the checkpoint, or with a newer one",
    ),
    KnownCause(
        "PYTHON_VERSION_MISMATCH",
        (),
        f"{ONE_INSTALLATION} the same minor version of Python, or name one in spark.pyspark.python",
    ),
    KnownCause("local class incompatible", (), f"{ONE_INSTALLATION} the same version of Spark and of each jar"),
    KnownCause("unexpected keyword argument 'realTime'", (), "Real-Time Mode needs Spark 4.2 or later on the cluster"),
    KnownCause("'path' is not specified", (), "set the option 'path' of the source or the sink"),
    KnownCause(
        r"Cannot process (?:overwrite|delete) snapshot",
        ("IllegalStateException",),
        "another writer has changed rows of the table, and a stream reads appended rows only. Set the named option of the source to ignore such changes",
    ),
    KnownCause(
        "snapshot was expired or removed",
        ("IllegalStateException",),
        f"the table was replaced, or its snapshots were expired: {OTHER_TABLE}",
    ),
    KnownCause(
        "Cannot write incompatible dataset to table",
        (),
        "the types of the query and of the table differ: cast the columns in the query, or change the table, and clear the task",
    ),
    KnownCause(
        r"Field \S+ not found in source schema",
        ("IllegalArgumentException",),
        "the table has no such column: add the column to the table, or leave it out of the query, and clear the task",
    ),
    KnownCause(r"^(?:org/apache/(?:spark|kafka|iceberg)|io/delta)/", ("NoClassDefFoundError",), ""),
    KnownCause(r"annot find (?:the |catalog )?plugin class", (), ""),
    KnownCause(
        "Schema must be specified when creating a streaming source", (), "call schema(...) of the reader before load()"
    ),
)
"""Causes that only the text tells."""

_BY_NAME = (
    KnownCause(
        "",
        ("*UnsupportedClassVersionError",),
        "the Java of the cluster is older than this class: Spark 4 needs Java 17 or later, and a jar of yours may need a newer one",
    ),
    KnownCause(
        "",
        (
            "STREAMING_STATEFUL_OPERATOR_*",
            "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
            "STATE_STORE_*_SCHEMA_NOT_COMPATIBLE",
            "STATE_STORE_*_SCHEMA_INCOMPATIBLE",
            "STATE_STORE_*_SCHEMA_EVOLUTION*",
            "STATE_STORE_*_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.*_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        ),
        OTHER_CHECKPOINT,
    ),
    KnownCause(
        "",
        (
            "TableReplacedError",
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
            "DELTA_VERSIONS_NOT_CONTIGUOUS",
        ),
        OTHER_TABLE,
    ),
    KnownCause(
        "",
        ("MERGE_CARDINALITY_VIOLATION", "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"),
        "a batch contains several rows with one key: keep one row for each key in the function, before MERGE, and clear the task",
    ),
    KnownCause(
        "", ("TABLE_OR_VIEW_NOT_FOUND", "NoSuchTableException"), f"create the table, or correct its name; {CATALOG}"
    ),
    KnownCause("", ("REQUIRES_SINGLE_PART_NAMESPACE", "CATALOG_NOT_FOUND"), CATALOG),
    KnownCause(
        "",
        ("SESSION_OR_CONTEXT_NOT_EXISTS",),
        "create the session before this line (SparkSession.builder.getOrCreate()), or move the line into the build function",
    ),
    KnownCause(
        "",
        ("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",),
        "files are only appended: call withWatermark(...) before the aggregation and leave outputMode out, or write each batch in a function of foreachBatch",
    ),
    KnownCause(
        "append.*without watermark",
        ("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",),
        "call withWatermark(...) before the aggregation and group by a window of time, or set outputMode('update') if the sink has it",
    ),
    KnownCause(
        "Queries with streaming sources must be executed",
        (),
        "rows of a stream have no count(), collect() or show(): return the writer, not started, and read rows in a function of foreachBatch",
    ),
    KnownCause(
        "'DataStreamWriter' object has no attribute",
        ("AttributeError",),
        "return the writer: the runtime starts its query, and waits for it",
    ),
    KnownCause(
        "Cannot start query with name", ("IllegalArgumentException",), "give each query a .queryName(...) of its own"
    ),
    KnownCause(
        "", ("WRITE_STREAM_NOT_ALLOWED",), "read the source with spark.readStream; a batch is df.write..., not saved"
    ),
)

ACCESS_ADVICE = (
    "the account of the driver may not do this: give the account (the user of the workers, or the credentials in `conf`, `env_vars` or the image) "
    "the right to read and write there, and clear the task"
)

_WRONG_JAR = (
    "DATA_SOURCE_NOT_FOUND",
    "IncompatibleClassChangeError",
    "NoSuchMethodError",
    "NoSuchFieldError",
    "AbstractMethodError",
    "NoClassDefFoundError",
)
"""Errors of a jar that is missing, or was built for another version of Spark."""

_MISSING_SOURCE = "failed to find data source: kafka"
"""Text of Spark, under several error classes, for a Kafka source without its connector."""

_MISSING_CLASS = ("CANNOT_LOAD_CATALOG.*", "ClassNotFoundException")
"""Errors of a class that is missing, perhaps with the jar of a connector."""

_ARTIFACTS = {
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:1.11.0",
    "delta": "io.delta:delta-spark_{minor}_2.13:4.4.0",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}, or the newest version before it",
}
"""The artifact for a version of Spark, by a word in the error, in the newest version at the release of this package."""

NEWEST_SPARK = {"iceberg": "4.1", "delta": "4.2"}
"""Newest version of Spark for which an artifact was published at the release of this package."""

_DANGEROUS = re.compile(
    r"If you want to force running [^.]*(?:\.(?!\s)[^.]*)*\.\s*"
    r"(?:However, please note that running the query with incompatible schema [^.]*\.\s*)?"
)
"""Spark's advice to turn the check of the schema off, which makes the results wrong."""


def is_known_by_text(failure: Failure) -> bool:
    """Return whether the text of a failure names a cause against which no restart helps."""
    return any(cause.explains(failure) for cause in BY_TEXT)


def name_artifact(failure: Failure, spark: str) -> Failure:
    """Return a failure with the artifact that fits the Spark of the driver, if a jar is missing or does not fit.

    Args:
        failure: failure that the driver reported.
        spark: version of the driver's Spark.
    """
    text, minor = f"{failure.message} {' '.join(failure.causes)}".lower(), ".".join(spark.split(".")[:2])
    word = next((word for word in _ARTIFACTS if word in text), None)
    wrong_jar = matches(
        failure, _WRONG_JAR if word is None else (*_WRONG_JAR, *_MISSING_CLASS, "UnpublishedPackageError")
    )
    if not wrong_jar and _MISSING_SOURCE not in text:
        return failure
    advice = "use jars and packages that were built for it" if word is None else _advice(word, minor, spark)
    return replace(failure, message=f"{failure.message.rstrip('.')}; the driver runs Spark {spark}: {advice}")


def _advice(word: str, minor: str, spark: str) -> str:
    artifact, newest = _ARTIFACTS[word], NEWEST_SPARK.get(word)
    package = artifact.format(minor=minor, version=spark)
    if newest is None or _number(minor) <= _number(newest):
        return f"use the package {package}"
    later = package.rpartition(":")[0]
    return f"use Spark {newest} with the package {artifact.format(minor=newest)}, or {later} if it has been published since"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def with_remedy(failure: Failure) -> Failure:
    """Return a failure that is final with what to do about it, and without dangerous advice."""
    message = _DANGEROUS.sub("", failure.message).strip()
    other = ACCESS_ADVICE if is_access_denied(failure) else ""
    advice = next((cause.advice for cause in (*BY_TEXT, *_BY_NAME) if cause.explains(failure)), other)
    return replace(failure, message=f"{message.rstrip('.')}: {advice}" if advice else message)
