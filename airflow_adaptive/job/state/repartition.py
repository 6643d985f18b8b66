"""Gives the state of a stopped query another number of partitions (rescale tier 2).

Spark does it in a batch of its own, which reads no input (`OfflineStateRepartitionRunner` of
`org.apache.spark.sql.execution.streaming.state`, Spark >= 4.2): offsets with the new number are logged, the state is
rewritten, the batch is committed. It leaves some things to whoever calls it:

* It logs the offsets before it finds out whether it can rewrite the state. If it can't, the query never starts again.
  So everything that it would find is looked for first.
* It rewrites the state of whatever query the checkpoint is of. So the query's operators are compared with it first.
* State without a key (`df.groupBy().count()`) is one row, which a query seeks in partition 0 and a repartition moves
  elsewhere: the count would begin again, silently. So such state is refused.
* It won't go past a batch that was begun and not committed. So the query is run once, for exactly that batch.
* A file sink has nothing for the new batch in its own log, where no batch may be missing: what it wrote could not be
  read any more. So the sink's log gets the batch, without files.

A repartition that was interrupted can only be finished, with the same number: a query does not start before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from airflow_adaptive.job.protocol.failures import CONDITION
from airflow_adaptive.job.state.checkpoint import Checkpoint, CheckpointHead, StateStore
from airflow_adaptive.job.state.sink_metadata_log import add_empty_batch
from airflow_adaptive.job.state.stateful_operators import KNOWN, LIMIT, planned_operators

STATE_OPTIONS: Final = {"_readAllColumnFamilies": "true"}
"""What a repartition reads the state with (`StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES`)."""

KEY: Final = "partition_key"
"""The column of it by which state is spread over the partitions."""

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

REASONS: Final = {
    "UNSUPPORTED_PROVIDER": (
        "only RocksDB's state can be: set spark.sql.streaming.stateStore.providerClass to "
        f"{ROCKSDB}; a checkpoint keeps what it was begun with, so this job needs a new one"
    ),
    "UNSUPPORTED_STATEFUL_OPERATOR": "Spark repartitions no state of this operator",
    "UNSUPPORTED_TRANSFORM_WITH_STATE_VARIABLE_TYPE": "Spark repartitions no state variable of this type",
}
"""By Spark's error condition, why a repartition is impossible."""

FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"

NEWER: Final = "[INVALID_LOG_VERSION."
"""How Spark calls a log of a format that it does not know."""


class RepartitionError(RuntimeError):
    """The state of a checkpoint can't have the number of partitions that is wanted: no restart mends that."""


class CheckpointRepartitioner:
    """Sees to the state of queries that do not run; see `interfaces.StateRepartitioner`."""

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is read yet."""
        self._spark = spark

    def partitions(self, checkpoint: str) -> int | None:
        """Partitions of the state after the last batch that was committed; None for a new or a stateless query.

        Raises:
            RepartitionError: a newer Spark has written the checkpoint.
            Exception: what Spark raises when it can't be read.
        """
        found = Checkpoint(self._spark, checkpoint)
        with _explaining_version_errors(checkpoint):
            return _partitions(found, found.head())

    def check(self, checkpoint: str, partitions: int, writer: DataStreamWriter) -> None:
        """Find out what a repartition would fail at, without changing anything; the query may run.

        State that has that many partitions, a query without state and one that has not committed a batch need no
        repartition, so nothing can fail: a plan gives a number to each query of a job.

        Args:
            checkpoint: URI.
            partitions: that the state is to have.
            writer: of the query that is to have it, not started.

        Raises:
            RepartitionError: the state can't have so many, or is another query's, or a newer Spark has written it.
            Exception: what Spark raises when it can't be read.
        """
        _require_count(checkpoint, partitions)
        found = Checkpoint(self._spark, checkpoint)
        with _explaining_version_errors(checkpoint):
            head = found.head()
            if head is not None and _partitions(found, head) not in {None, partitions}:
                self._require_possible(found, head, partitions)
                self._require_same_operators(found, head, partitions, writer)

    def ensure(self, checkpoint: str, partitions: int | None, writer: DataStreamWriter) -> None:
        """Leave a checkpoint that its query can start from, with the state in that many partitions.

        The query must not run. What was interrupted before, by whatever, is finished first; so this may be interrupted
        itself at any moment, and be called again with the same number or another.

        Args:
            checkpoint: URI.
            partitions: that the state is to have; None: those that it has.
            writer: of the query, not started; it runs once if a batch of it was cut.

        Raises:
            RepartitionError: the state can't have so many, or is another query's, or a newer Spark has written it.
            StreamingQueryException: the batch that was cut fails again.
            Exception: what Spark raises when the checkpoint can't be read or written.
        """
        if partitions is not None:
            _require_count(checkpoint, partitions)
        found = Checkpoint(self._spark, checkpoint)
        with _explaining_version_errors(checkpoint):
            head = found.head()
            if head is None:
                return
            if head.unfinished_repartition is not None:
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
        if _partitions(found, head) in {None, partitions}:
            return
        self._require_possible(found, head, partitions)
        self._require_same_operators(found, head, partitions, writer)
        if head.incomplete:
            self._complete_batch(found, writer)
        self._complete_sink(self._repartition(found, partitions), writer)

    def _require_possible(self, found: Checkpoint, head: CheckpointHead, partitions: int) -> None:
        """See to it that a repartition can rewrite each state store: it does not look before it begins."""
        if found.has_escaped_path:
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: Spark repartitions no checkpoint with characters in its path that are "
                "escaped in a URI: name job, query and job directory in letters, digits, '-', '_' and '.'"
            )
        if head.committed is not None:
            self._require_format(found, head.committed, partitions)
            for store in found.stores(head.committed):
                self._require_movable(found, head.committed, store, partitions)

    def _require_same_operators(
        self, found: Checkpoint, head: CheckpointHead, partitions: int, writer: DataStreamWriter
    ) -> None:
        """See to it that the query will start from the state."""
        planned = planned_operators(self._spark, writer)
        has = {} if head.committed is None else {it.operator: it.kind for it in found.stores(head.committed)}
        kept = [kind for _, kind in sorted(has.items()) if kind != LIMIT]
        if planned is not None and planned != kept and KNOWN.issuperset(kept):
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: it is another query's, of {' and '.join(kept) or 'no operator'}, and "
                f"this one would keep that of {' and '.join(planned) or 'no operator'}: give it another name, or the job"
            )

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
                f"{_problem(found.uri, partitions)}: that of operator {store.operator} ({store.kind}) has no key, so it is "
                "always in one partition: set max_parallelism of its vertex to what the checkpoint has"
            )

    def _read_schema(self, found: Checkpoint, batch: int, store: StateStore, partitions: int) -> StructType:
        """The columns that a repartition would read of a state store, after Spark's own checks."""
        reader = self._spark.read.format("statestore").options(**STATE_OPTIONS)
        try:
            return reader.options(batchId=batch, operatorId=store.operator, storeName=store.name).load(found.uri).schema
        except (Py4JJavaError, PySparkException) as error:
            said = _first_line(error)
            if CONDITION.match(said) is None:  # what a storage says is no word on the state
                raise
            reason = next((REASONS[name] for name in REASONS if f".{name}]" in said), "Spark can't read it for that")
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: that of operator {store.operator} ({store.kind}): {reason} ({said})"
            ) from None

    def _repartition(self, found: Checkpoint, partitions: int) -> CheckpointHead:
        """Let Spark do it, or finish it; where the query stands then."""
        self._spark._streamingCheckpointManager.repartition(found.uri, partitions)
        after = found.head()
        if after is None or after.incomplete or after.partitions != partitions:
            raise RepartitionError(
                f"{_problem(found.uri, partitions)}: it is not, though Spark reported success: {after}"
            )
        return after

    def _complete_batch(self, found: Checkpoint, writer: DataStreamWriter) -> CheckpointHead:
        """Run the query for the batch that was cut, and no other. `writer` keeps its own trigger."""
        trigger = writer._jwrite.getClass().getDeclaredField("trigger")
        trigger.setAccessible(True)
        own = trigger.get(writer._jwrite)
        try:
            writer.option("checkpointLocation", found.uri).trigger(once=True).start().awaitTermination()
        finally:
            trigger.set(writer._jwrite, own)
        head = found.head()
        if head is None or head.incomplete:
            raise RepartitionError(f"{found.uri}: batch {head and head.newest} was cut, and is not committed: {head}")
        return head

    def _complete_sink(self, head: CheckpointHead, writer: DataStreamWriter) -> None:
        """Write a repartition down where a file sink looks for each batch; if it is the newest batch, and not yet there."""
        if head.repartitioned and not head.incomplete:
            add_empty_batch(self._spark, writer, head.newest)


def _partitions(found: Checkpoint, head: CheckpointHead | None) -> int | None:
    """Partitions of the state after the last batch that was committed, None without state."""
    if head is None or head.committed is None or not found.stores(head.committed):
        return None
    return head.partitions if head.unfinished_repartition is None else head.previous_partitions


def _first_line(error: Exception) -> str:
    """The first line of Spark's message."""
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.getMessage()).partition("\n")[0]


def _require_count(checkpoint: str, partitions: int) -> None:
    if partitions < 1:
        raise RepartitionError(f"{_problem(checkpoint, partitions)}: give at least 1")


def _problem(checkpoint: str, partitions: int) -> str:
    return f"state in {checkpoint} can't have {partitions} partition(s)"


@contextmanager
def _explaining_version_errors(checkpoint: str) -> Iterator[None]:
    """Say which checkpoint it is that a newer Spark has written; of it Spark names a file at most."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        if NEWER not in _first_line(error):
            raise
        raise RepartitionError(
            f"checkpoint {checkpoint}: upgrade Spark, or give the query a new one: {_first_line(error)}"
        ) from None
