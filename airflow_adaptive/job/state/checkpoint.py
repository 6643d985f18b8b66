"""What a query's checkpoint says, read with Spark's own readers and without changing anything in it.

All of it reaches into the JVM: `OffsetSeqLog` and `CommitLog` of
`org.apache.spark.sql.execution.streaming.checkpointing`, `StateMetadataPartitionReader` of
`org.apache.spark.sql.execution.datasources.v2.state.metadata`, the same in Spark 4.2 and 4.3. They refuse what a newer
Spark has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.jvm import java_class

LOGS: Final = "org.apache.spark.sql.execution.streaming.checkpointing"

METADATA: Final = "org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader"

PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""Under this name a checkpoint keeps the number of its state's partitions, whatever the session has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHead:
    """Where a query stands.

    Attributes:
        newest: the last batch that was begun: its offsets are logged.
        committed: the last batch that was committed, None without one.
        partitions: of the state after the newest batch; None if an old Spark did not write them down.
        previous_partitions: of the state before the newest batch, None if that is unknown.
    """

    newest: int
    committed: int | None
    partitions: int | None
    previous_partitions: int | None

    @property
    def incomplete(self) -> bool:
        """Whether the newest batch was begun and not committed."""
        return self.newest != self.committed

    @property
    def repartitioned(self) -> bool:
        """Whether the newest batch is none of the query's but a repartition: only that changes their number."""
        return None not in {self.previous_partitions, self.partitions} and self.previous_partitions != self.partitions

    @property
    def unfinished_repartition(self) -> int | None:
        """Partitions that a repartition was to lead to which was begun and not committed, None without one."""
        return self.partitions if self.incomplete and self.repartitioned else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStore:
    """A state store, which each partition of an operator's state has one of.

    Attributes:
        operator: number of the operator in its query.
        kind: what Spark calls the operator, `stateStoreSave` for an aggregation.
        name: of the store, `default` unless the operator has several.
    """

    operator: int
    kind: str
    name: str


class Checkpoint:
    """One query's checkpoint."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Point to it; nothing is read yet."""
        self._spark = spark
        self.uri = uri

    @property
    def has_escaped_path(self) -> bool:
        """Whether its path looks otherwise as a URI: the readers of state escape it twice and do not find it."""
        return str(java_class(self._spark, "org.apache.hadoop.fs.Path")(self.uri).toUri()) != self.uri

    def head(self) -> CheckpointHead | None:
        """Where its query stands, None if that has not begun a batch. Raises what Spark raises."""
        offsets = self._log("OffsetSeqLog", "offsets")
        newest = _newest(offsets)
        if newest is None:
            return None
        return CheckpointHead(
            newest=newest,
            committed=_newest(self._log("CommitLog", "commits")),
            partitions=_partitions(offsets, newest),
            previous_partitions=_partitions(offsets, newest - 1) if newest else None,
        )

    def stores(self, batch: int) -> list[StateStore]:
        """All kinds of state stores as of a batch, none if the query is stateless. Raises what Spark raises."""
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        serializable = java_class(self._spark, "org.apache.spark.util.SerializableConfiguration")(conf)
        reader = java_class(self._spark, METADATA)(self.uri, serializable, batch)
        return [store for operator in reader.allOperatorStateMetadata() for store in _stores(operator)]

    def format_of(self, batch: int) -> int:
        """Format of the state as of a batch that was committed (`spark.sql.streaming.stateStore.checkpointFormatVersion`)."""
        return 2 if self._log("CommitLog", "commits").get(batch).get().stateUniqueIds().isDefined() else 1

    def _log(self, kind: str, folder: str) -> Any:
        read_only = True
        return java_class(self._spark, f"{LOGS}.{kind}")(self._spark._jsparkSession, f"{self.uri}/{folder}", read_only)


def _newest(log: Any) -> int | None:
    newest = log.getLatestBatchId()
    return int(newest.get()) if newest.isDefined() else None


def _partitions(offsets: Any, batch: int) -> int | None:
    metadata = offsets.offsetSeqMetadataForBatchId(batch)
    found = metadata.get().conf().get(PARTITIONS) if metadata.isDefined() else metadata
    return int(found.get()) if found.isDefined() else None


def _stores(operator: Any) -> list[StateStore]:
    info, stores = operator.operatorInfo(), operator.stateStoresMetadata()
    return [
        StateStore(operator=info.operatorId(), kind=info.operatorName(), name=stores.apply(index).storeName())
        for index in range(stores.length())
    ]
