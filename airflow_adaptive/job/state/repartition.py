"""Changes the number of partitions of the state of a stopped query (rescale tier 2).

Spark repartitions in a batch without input (`OfflineStateRepartitionRunner` of
`org.apache.spark.sql.execution.streaming.state`): it logs the offsets with the new number, rewrites the
state, and commits the batch. This module adds what Spark leaves to the caller:

* Spark logs the offsets before it checks whether it can rewrite the state. If it cannot, the query never starts again.
  Therefore the module performs all checks first.
* Spark rewrites the state of any query. Therefore the module compares the operators of the query with those of the
  checkpoint first.
* State without a key (`df.groupBy().count()`) is one row, which a query reads from partition 0 and a repartition moves
  elsewhere, so that the count would start again without an error. Therefore the module rejects such state.
* Spark does not repartition after a batch that began and was not committed. Therefore the module runs the query once,
  for exactly that batch.
* Spark's readers do not know the name of an aggregation in Real-Time Mode. Therefore the module renames the operator in
  the metadata of the checkpoint.
* Spark logs the offsets before it reads the state. If a file of the state is missing or damaged, only the checkpoint of before has a way on.
  Therefore the module reads the state files while the query runs.
* A repartition may still fail, for example if an executor is lost. Then the module removes the files of its batch, so that the query starts with
  the number of before. It does not if another driver has logged the batch.
* The metadata log of a file sink lacks the batch of the repartition, and a missing batch makes the output unreadable.
  Therefore the module adds the batch to that log, without files.

An interrupted repartition can only be completed with the same number of partitions; the query does not start before.

An aggregation in Real-Time Mode has the same state as in micro-batches, and Spark continues each with the state of the other. Only its
name in the checkpoint differs, and Spark's state readers do not know the name (Spark 4.3, `StatePartitionKeyExtractorFactory`). A
checkpoint whose first batch was a micro-batch keeps the name that they know, also in Real-Time Mode. Therefore the module gives the
operator this name, as a first micro-batch would have done.

Spark compares the operators with those of the checkpoint when it plans the first batch (`IncrementalExecution`,
`STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA`). That is too late if the driver changes the state before the
start. Only the explained plan shows the operators earlier, with the number of the state of each operator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from airflow_adaptive._core.protocol.documents import Capability, StateSchema
from airflow_adaptive._core.protocol.failures import CONDITION, report_exception
from airflow_adaptive.job.control.interfaces import StateRepartitioner
from airflow_adaptive.job.hadoop_directory import HadoopFiles
from airflow_adaptive.job.spark_internals import describe_plan, report_spark, set_private_field, setting, writer_field
from airflow_adaptive.job.state.checkpoint import Checkpoint, CheckpointHead, StateStore
from airflow_adaptive.job.state.checkpoint_files import CheckpointFiles, add_empty_batch
from airflow_adaptive.job.state.damage import DamagedCheckpointError, find_damaged_state

STATE_OPTIONS: Final = {"_readAllColumnFamilies": "true"}
"""Options with which a repartition reads the state (`StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES`)."""

KEY: Final = "partition_key"
"""Column of the state that determines the partition."""

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

REASONS: Final = {
    "UNSUPPORTED_PROVIDER": (
        "Spark repartitions only RocksDB's state: set spark.sql.streaming.stateStore.providerClass to "
        f"{ROCKSDB}; a checkpoint keeps its first provider, so this job needs a new checkpoint"
    ),
    "UNSUPPORTED_STATEFUL_OPERATOR": "Spark repartitions no state of this operator",
    "UNSUPPORTED_TRANSFORM_WITH_STATE_VARIABLE_TYPE": "Spark repartitions no state variable of this type",
}
"""Reason why a repartition is impossible, by Spark's error condition."""

FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"

NEWER: Final = "[INVALID_LOG_VERSION."
"""Spark's error condition for a log of an unknown format."""

COUNT_KEYS: Final = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
"""Whether RocksDB reads each key before it writes the key, to count the keys. If not, the next load counts them (`RocksDB.countKeys`)."""

CONCURRENT: Final = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's error condition for a batch that another driver has logged."""


class RepartitionError(RuntimeError):
    """The state of a checkpoint cannot have the requested number of partitions. A restart does not help."""


class CheckpointRepartitioner(StateRepartitioner):
    """Repartitions the state of queries that do not run."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def state_partitions(self, checkpoint: str) -> int | None:
        found = Checkpoint(self._spark, checkpoint)
        return state_partitions(found, found.head())

    def state_format(self, checkpoint: str) -> int | None:
        found = Checkpoint(self._spark, checkpoint)
        head = found.head()
        batch = None if head is None else head.committed
        return found.format_of(batch) if batch is not None and found.stores(batch) else None

    def check(self, checkpoint: str, partitions: int, writer: DataStreamWriter) -> None:
        _require_count(checkpoint, partitions)
        found = Checkpoint(self._spark, checkpoint)
        with _explaining_version_errors(checkpoint):
            head = found.head()
            if head is not None and state_partitions(found, head) not in {None, partitions}:
                self._require_possible(found, head, partitions)
                self._require_same_operators(found, head, partitions, writer)
                if damage := self._damage(found, head):
                    raise RepartitionError(f"{_problem(checkpoint, partitions)}: {damage}")

    def ensure(self, checkpoint: str, partitions: int | None, writer: DataStreamWriter) -> None:
        if partitions is not None:
            _require_count(checkpoint, partitions)
        found = Checkpoint(self._spark, checkpoint)
        with _explaining_version_errors(checkpoint):
            head = found.head()
            if head is None:
                found.remove_partial_offsets()
                return
            if head.unfinished_repartition is not None:
                if damage := self._damage(found, head):
                    raise DamagedCheckpointError(damage)
                self._require_possible(found, head, head.unfinished_repartition)
                head = self._repartition(found, head.unfinished_repartition)
            self._complete_sink(head, writer)
            if partitions is not None:
                self._repartition_if_needed(found, head, partitions, writer)

    def _repartition_if_needed(
        self, found: Checkpoint, head: CheckpointHead, partitions: int, writer: DataStreamWriter
    ) -> None:
        if head.committed is None and head.partitions != partitions:
            head = self._complete_batch(found, writer)
        if state_partitions(found, head) in {None, partitions}:
            return
        self._require_possible(found, head, partitions)
        self._require_same_operators(found, head, partitions, writer)
        if head.incomplete:
            self._complete_batch(found, writer)
        self._complete_sink(self._repartition_or_undo(found, partitions), writer)

    def _require_possible(self, found: Checkpoint, head: CheckpointHead, partitions: int) -> None:
        """Require that a repartition can rewrite each state store; Spark does not check this before it begins."""
        lack = report_spark(self._spark.version).lack(Capability.REPARTITION)
        if lack:
            raise RepartitionError(f"{_problem(found.uri, partitions)}: {lack}")
        if found.has_escaped_path:
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: Spark repartitions no checkpoint with characters in its path that are "
                "escaped in a URI: name job, query and job directory in letters, digits, '-', '_' and '.'"
            )
        if head.committed is not None:
            self._require_format(found, head.committed, partitions)
            named = [store.operator for store in found.stores(head.committed) if store.kind == REAL_TIME]
            rename_operators(self._spark, found.uri, named)
            for store in found.stores(head.committed):
                self._require_movable(found, head.committed, store, partitions)

    def _require_same_operators(
        self, found: Checkpoint, head: CheckpointHead, partitions: int, writer: DataStreamWriter
    ) -> None:
        """Require that the query will start from the state."""
        if text := other_operators(self._spark, found, head, writer):
            raise RepartitionError(f"{_problem(found.uri, partitions)}: {text}")

    def _require_format(self, found: Checkpoint, batch: int, partitions: int) -> None:
        has, writes = str(found.format_of(batch)), self._spark.conf.get(FORMAT)
        if has != writes:
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: it was written with {FORMAT}={has}: set that, not {writes}"
            )

    def _require_movable(self, found: Checkpoint, batch: int, store: StateStore, partitions: int) -> None:
        key = self._read_schema(found, batch, store, partitions)[KEY].dataType
        if isinstance(key, StructType) and not key.fields:
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: the state of operator {store.operator} ({store.kind}) has no key, so it is "
                "always in one partition: set max_parallelism of its vertex to what the checkpoint has"
            )

    def _read_schema(self, found: Checkpoint, batch: int, store: StateStore, partitions: int) -> StructType:
        """Return the columns that a repartition would read of a state store, after Spark's own checks."""
        reader = self._spark.read.format("statestore").options(**STATE_OPTIONS)
        try:
            return reader.options(batchId=batch, operatorId=store.operator, storeName=store.name).load(found.uri).schema
        except (Py4JJavaError, PySparkException) as error:
            message = _first_line(error)
            if CONDITION.match(message) is None:  # an error of the storage does not concern the state
                raise
            reason = next((REASONS[name] for name in REASONS if f".{name}]" in message), "Spark cannot read it")
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: operator {store.operator} ({store.kind}): {reason} ({message})"
            ) from None

    def _damage(self, found: Checkpoint, head: CheckpointHead) -> str | None:
        """Return which file of the state after the last committed batch is missing or damaged, or None."""
        if head.committed is None:
            return None
        files, partitions = CheckpointFiles(self._spark, found.uri), state_partitions(found, head)
        return find_damaged_state(files, head.committed + 1, repairs=False, partitions=partitions)

    def _repartition_or_undo(self, found: Checkpoint, partitions: int) -> CheckpointHead:
        """Repartition the state, or remove the files of the repartition."""
        try:
            return self._repartition(found, partitions)
        except (Py4JJavaError, PySparkException) as error:
            head = found.head()
            if CONCURRENT not in str(error) and head is not None and head.unfinished_repartition == partitions:
                found.remove_batch(head.newest)
                raise RepartitionError(
                    f"{_problem(found.uri, partitions)}, and is unchanged: {report_exception(error).message}"
                ) from error
            raise

    def _repartition(self, found: Checkpoint, partitions: int) -> CheckpointHead:
        """Repartition the state with Spark, or complete a repartition. Returns the new position of the query."""
        with setting(self._spark, COUNT_KEYS, "false"):
            self._spark._streamingCheckpointManager.repartition(found.uri, partitions)
        after = found.head()
        if after is None or after.incomplete or after.partitions != partitions:
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: Spark reported success, but the checkpoint is at {after}"
            )
        return after

    def _complete_batch(self, found: Checkpoint, writer: DataStreamWriter) -> CheckpointHead:
        """Run the query for the interrupted batch only. `writer` keeps its own trigger."""
        own = writer_field(writer, "trigger")
        try:
            writer.option("checkpointLocation", found.uri).trigger(once=True).start().awaitTermination()
        finally:
            set_private_field(writer._jwrite, "trigger", own)
        head = found.head()
        if head is None or head.incomplete:
            raise RepartitionError(
                f"{found.uri}: batch {head and head.newest} was interrupted, and is not committed: {head}"
            )
        return head

    def _complete_sink(self, head: CheckpointHead, writer: DataStreamWriter) -> None:
        """Add the newest batch to the metadata log of a file sink if the batch is a repartition."""
        if head.repartitioned and not head.incomplete:
            add_empty_batch(self._spark, writer, head.newest)


def state_partitions(found: Checkpoint, head: CheckpointHead | None) -> int | None:
    """Return the number of state partitions after the last committed batch, or None without state."""
    if head is None or head.committed is None or not found.stores(head.committed):
        return None
    return head.partitions if head.unfinished_repartition is None else head.previous_partitions


def _first_line(error: Exception) -> str:
    """Return the first line of Spark's message."""
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.getMessage()).partition("\n")[0]


def _require_count(checkpoint: str, partitions: int) -> None:
    if partitions < 1:
        raise RepartitionError(f"{_problem(checkpoint, partitions)}: use at least 1")


def _problem(checkpoint: str, partitions: int) -> str:
    return f"state in {checkpoint} cannot have {partitions} partition(s)"


@contextmanager
def _explaining_version_errors(checkpoint: str) -> Iterator[None]:
    """Name the checkpoint that a newer Spark version has written; Spark's own error names at most a file."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        if NEWER not in _first_line(error):
            raise
        raise RepartitionError(
            f"checkpoint {checkpoint}: upgrade Spark, or use a new checkpoint for the query: {_first_line(error)}"
        ) from None


MAX_TEXT: Final = 120
"""Maximum length of the text of the columns of a key or a value."""

REAL_TIME: Final = "StatefulStreamlineAggregate"

MICRO_BATCH: Final = "stateStoreSave"

MAX_METADATA_BYTES: Final = 10_000_000


def rename_operator(metadata: str) -> str | None:
    """Return the metadata of an operator (a line with the version, and JSON) with the name that micro-batches give it, or None if it has the name."""
    version, newline, content = metadata.partition("\n")
    fields = json.loads(content)
    operator = fields["operatorInfo"]
    if operator["operatorName"] != REAL_TIME:
        return None
    renamed = {**fields, "operatorInfo": {**operator, "operatorName": MICRO_BATCH}}
    return f"{version}{newline}{json.dumps(renamed, separators=(',', ':'))}"


def rename_operators(spark: SparkSession, checkpoint: str, operators: list[int]) -> None:
    """Rename these operators of a checkpoint. A query may run: it reads the names only when it starts. Raises the exceptions of Spark."""
    files = HadoopFiles(spark)
    for operator in operators:
        path = files.path(f"{checkpoint}/state/{operator}/_metadata/metadata")
        metadata = files.read(path, MAX_METADATA_BYTES)
        if metadata is None:
            raise RepartitionError(f"{path} does not exist, although Spark lists this operator")
        renamed = rename_operator(metadata.decode())
        if renamed is not None:
            files.replace(path, renamed.encode())


WITH_STATE: Final = re.compile(r"(\w+) .*\bstate info \[.*?\bopId = (\d+)")
"""A line of an explained plan: name and number of an operator that reads or writes state."""

READERS: Final = frozenset({"StateStoreRestore", "SessionWindowStateStoreRestore"})
"""Operators that belong to a writer with the same number."""

LIMIT: Final = "globalLimit"

KINDS: Final = {
    "StateStoreSave": "stateStoreSave",
    "SessionWindowStateStoreSave": "sessionWindowStateStoreSaveExec",
    "StreamingDeduplicate": "dedupe",
    "StreamingDeduplicateWithinWatermark": "dedupeWithinWatermark",
    "StreamingSymmetricHashJoin": "symmetricHashJoin",
    "StreamingGlobalLimit": LIMIT,
}
"""Name of an operator in a plan -> name in a checkpoint (`StatefulOperator.shortName`). Other operators are not
compared."""

WHOLE_PLAN: Final = "2147483632"
"""Spark's default of the longest text of a plan. A shorter one lacks operators."""


def planned_operators(spark: SparkSession, writer: DataStreamWriter) -> list[str] | None:
    """Return the names that a checkpoint of the query would give its stateful operators, in the order of their numbers.

    None if Spark cannot explain the query, or the query has an unknown operator. The result contains no limits: whether a limit is stateful
    depends on the output mode, which an explained plan does not contain.
    """
    try:
        with setting(spark, "spark.sql.maxPlanStringLength", WHOLE_PLAN):
            return operators_of(describe_plan(spark, writer._df._jdf.queryExecution()))
    except (Py4JJavaError, PySparkException):
        return None


def state_schemas(spark: SparkSession, checkpoint: Checkpoint, head: CheckpointHead | None) -> tuple[StateSchema, ...]:
    """Return the state in a checkpoint, by operator, at most eight. The state of `transformWithState` has no columns here, but named variables."""
    if head is None or head.committed is None:
        return ()
    found, partitions = [], state_partitions(checkpoint, head)
    for store in sorted(checkpoint.stores(head.committed), key=attrgetter("operator"))[:8]:
        reader = spark.read.format("statestore").options(operatorId=store.operator, storeName=store.name)
        try:
            schema = reader.options(batchId=head.committed).load(checkpoint.uri).schema
        except (Py4JJavaError, PySparkException):
            schema = StructType()
        texts = {it.name: ", ".join(columns(it.dataType))[:MAX_TEXT] for it in schema if it.name in ("key", "value")}
        name = store.kind if store.name == "default" else f"{store.kind} {store.name}"
        found.append(StateSchema(operator=name, partitions=partitions, **texts))
    return tuple(found)


def columns(fields: Any) -> list[str]:
    """Return names and types of columns. A name may be an expression of the script, whose literals may be secret; Spark names the fields of a type after none."""
    texts = (f"{it.name if it.name.isidentifier() else '(unnamed)'} {it.dataType.simpleString()}" for it in fields)
    return [text[:MAX_TEXT] for text in texts]


def other_operators(
    spark: SparkSession, checkpoint: Checkpoint, head: CheckpointHead | None, writer: DataStreamWriter
) -> str:
    """Return why Spark will refuse to start a query from the state in a checkpoint, "" if its operators are the same, or unknown."""
    planned = planned_operators(spark, writer)
    stores = () if head is None or head.committed is None else checkpoint.stores(head.committed)
    kinds = (kind for _, kind in sorted({(it.operator, it.kind) for it in stores}))
    kept = [MICRO_BATCH if kind == REAL_TIME else kind for kind in kinds if kind != LIMIT]
    if planned is None or not kept or planned == kept:
        return ""
    return (
        f"the state belongs to another query, of {' and '.join(kept) or 'no operator'}, and "
        f"this query has {' and '.join(planned) or 'no operator'}: rename the query or the job"
    )


def operators_of(plan: str) -> list[str] | None:
    """Return the same from the text of an explained plan."""
    found = sorted({(int(number), name) for name, number in WITH_STATE.findall(plan) if name not in READERS})
    kinds = [KINDS.get(name) for _, name in found]
    return None if None in kinds else [kind for kind in kinds if kind is not None and kind != LIMIT]
