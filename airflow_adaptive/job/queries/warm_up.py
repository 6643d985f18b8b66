"""Runs a copy of a query for one batch, so that the first batch of the query itself is fast, and a query that cannot run fails beforehand.

Most of the time of a first batch is spent on loading and compiling code: of Spark, of the query, and of the Python workers. The copy reads the sources
from their beginning, as a new query, and has neither the sink of the query nor its state: it writes to Spark's `noop` sink, with a checkpoint of its own,
which is deleted. The schemas of the state are copied to that checkpoint, so that Spark compares them with the query as at a real start, and refuses a
query that cannot read the state (`STATE_STORE_*_SCHEMA_NOT_COMPATIBLE`). The first batch of a new query may have any operators, so the copy is refused
here if its operators are not those of the state.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import PreparedQuery
from airflow_adaptive.job.hadoop_directory import HadoopFiles
from airflow_adaptive.job.queries.real_time_mode import is_named, source_relations
from airflow_adaptive.job.queries.sources.source_report import kind_of
from airflow_adaptive.job.spark_internals import from_scala, java_class, setting, writer_plans
from airflow_adaptive.job.state.checkpoint import Checkpoint
from airflow_adaptive.job.state.repartition import columns, other_operators, state_schemas

log = logging.getLogger(__name__)

BATCH_TIMEOUT_S: Final = 60.0
"""Time in seconds after which the batches of the copies are interrupted: by then the code is warm. Sources without a limit have long first batches."""

PLAN_TIMEOUT_S: Final = 15.0
"""The same without an executor, on which the batch would run: Spark plans the batch, and its tasks wait."""

CHECK_INTERVAL_S: Final = 0.1

SCHEMAS: Final = ("*/_metadata", "*/_stateSchema", "*/0/_metadata", "*/0/*/_metadata")
"""The folders with schemas below the state of a query: of an operator, and of the stores of its first partition."""

SHARED_SOURCES: Final = ("FileSource", "kafka", "rate", "delta", "iceberg")
"""Beginnings of the names of sources that a second query can read without an effect on the first. Others lease what they read, such as shards."""

CLEAN_SOURCE: Final = "cleansource"

OLD_INPUT: Final = re.compile(
    r"DATA_LOSS|OffsetOutOfRange|startingVersion|DELTA_|FileNotFound|FAILED_READ_FILE|Timeout", re.IGNORECASE
)
"""Errors of input that the query has passed long ago: the copy begins where a new query would."""

MAX_PLAN: Final = 60
"""Maximum number of lines of a plan."""


class OtherStateError(RuntimeError):
    """The query has other state operators than its checkpoint, so that Spark refuses to start it."""


VERIFY_EMPTY: Final = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
"""Set to false, the copy starts although its checkpoint has schemas. Each query has a copy of the properties of its session."""


def warm_up(
    spark: SparkSession,
    writer: DataStreamWriter,
    checkpoint: str,
    *,
    has_executors: bool,
    timeout_s: float = BATCH_TIMEOUT_S,
) -> PreparedQuery:
    """Run a copy of a query for one batch, or plan the batch if there is no executor.

    Args:
        spark: the session.
        writer: the query; it cannot be used afterwards.
        checkpoint: URI of the checkpoint of the query, which is only read. That of the copy is beside it, with the id of the application in its name.
        has_executors: whether the application has an executor.
        timeout_s: time in seconds after which the batch is interrupted.

    Returns:
        The sources and the state of the copy, beside the state in the checkpoint.

    Raises:
        OtherStateError: the query has other state operators than its checkpoint.
        StreamingQueryException: the batch failed, and not because of its input.
        AnalysisException: Spark refuses the query.
    """
    folder, _, name = checkpoint.rpartition("/")
    found = _compare_state(spark, writer, checkpoint, name)
    scratch = f"{folder.rpartition('/')[0]}/standby/{spark.sparkContext.applicationId}/{name}"
    with _checkpoint_of_copy(spark, checkpoint, scratch), setting(spark, VERIFY_EMPTY, "false"):
        copy = writer.format("noop").trigger(processingTime="0 seconds").option("checkpointLocation", scratch)
        query = copy.queryName(f"warm-up of {name}").start()
        limit_s = timeout_s if has_executors else min(timeout_s, PLAN_TIMEOUT_S)
        try:
            _await_batch(spark, query, limit_s, has_executors=has_executors)
        finally:
            query.stop()
        batch = next((progress for progress in query.recentProgress if "addBatch" in progress.durationMs), None)
        try:
            after = () if batch is None else state_schemas(spark, copied := Checkpoint(spark, scratch), copied.head())
        except (Py4JError, PySparkException) as unread:
            log.warning("the state of the copy of query %s cannot be read: %s", name, unread)
            after, found = (), replace(found, unchecked="the state of its copy cannot be read")
    if (error := query.exception()) is not None:
        if OLD_INPUT.search(str(error)) is None:
            raise error
        log.warning("the copy of query %s cannot read old input, and is not warm: %s", name, error)
        return replace(found, unchecked="its copy, which begins with the oldest input, cannot read it")
    if batch is None:
        return replace(found, unchecked="no batch of its copy has ended: its sources have no rows, or time was short")
    return replace(found, sources=tuple(kind_of(source.description) for source in batch.sources), state_after=after)


def plan_of(spark: SparkSession, writer: DataStreamWriter) -> tuple[str, ...]:
    """Return the nodes of the analyzed plan of a query and the columns of its output, at most `MAX_PLAN`; empty if Spark does not provide them.

    The texts of the nodes would contain literals, which may be secret.
    """
    lines: list[str] = []
    try:
        nodes = [writer_plans(writer).analyzed()]
        while nodes and len(lines) < MAX_PLAN:
            node = nodes.pop(0)
            lines.append(str(node.getClass().getSimpleName()))
            nodes[:0] = from_scala(spark, node.children())
        lines += [f"output {column}" for column in columns(writer._df.schema)]
    except (Py4JError, PySparkException) as error:
        log.warning("the plan of a query is not reported: %s", error)
        return ()
    return tuple(lines if len(lines) <= MAX_PLAN else [*lines[: MAX_PLAN - 1], "..."])


def _compare_state(spark: SparkSession, writer: DataStreamWriter, checkpoint: str, name: str) -> PreparedQuery:
    state = Checkpoint(spark, checkpoint)
    try:
        head = state.head()
        problem = other_operators(spark, state, head, writer)
        kept = state_schemas(spark, state, head)
    except (Py4JError, PySparkException) as error:
        log.warning("the state of query %s cannot be compared: %s", name, error)
        return PreparedQuery(name=name, unchecked="the state in its checkpoint cannot be read")
    if problem:
        raise OtherStateError(f"query {name!r}: {problem}")
    return PreparedQuery(name=name, state_before=kept)


def may_read(spark: SparkSession, writer: DataStreamWriter) -> bool:
    """Return whether a copy of a query may read its sources while the query runs, without an effect on them."""
    return all(_is_shared(spark, relation) for relation in source_relations(spark, writer))


def _is_shared(spark: SparkSession, relation: Any) -> bool:
    """Return whether two queries can read a source. A source that removes the files that a query has read would remove those that the other has not."""
    options = relation.extraOptions() if is_named(relation) else from_scala(spark, relation.dataSource().options())
    cleans = [str(options[name]).lower() for name in options if str(name).lower() == CLEAN_SOURCE]
    return str(relation.sourceName()).startswith(SHARED_SOURCES) and cleans in ([], ["off"])


def _await_batch(spark: SparkSession, query: StreamingQuery, timeout_s: float, *, has_executors: bool) -> None:
    deadline = time.monotonic() + timeout_s
    tracker = spark.sparkContext.statusTracker()
    while query.isActive and query.lastProgress is None and time.monotonic() < deadline:
        if not has_executors and tracker.getActiveJobsIds():
            return
        time.sleep(CHECK_INTERVAL_S)


@contextmanager
def _checkpoint_of_copy(spark: SparkSession, checkpoint: str, scratch: str) -> Iterator[None]:
    """Create the checkpoint of the copy, with the schemas of the state of the query, and delete it."""
    files, copier = HadoopFiles(spark), java_class(spark, "org.apache.hadoop.fs.FileUtil")
    folder, state = files.path(scratch), files.path(f"{checkpoint}/state")
    system, others = files.system(folder), folder.getParent().getParent()
    _delete(system, others)  # what standbys left that were killed: a job has one standby at a time
    try:
        for pattern in SCHEMAS:
            for found in system.globStatus(files.path(state, pattern)) or ():
                source, deletes_source = found.getPath(), False
                below = str(source.toUri().getPath()).removeprefix(str(state.toUri().getPath()))
                target = files.path(f"{scratch}/state{below}")
                copier.copy(system, source, system, target, deletes_source, files.conf)
        yield
    finally:
        _delete(system, folder.getParent())


def _delete(system: Any, folder: Any) -> None:
    try:
        system.delete(folder, True)
    except Py4JError as error:
        log.warning("the folder %s remains: %s", folder, error)
