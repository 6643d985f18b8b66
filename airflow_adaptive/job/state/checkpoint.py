"""Reads a query's checkpoint with Spark's own readers, and removes what a killed driver left of a first batch.

The module uses `OffsetSeqLog`, `CommitLog`, `CheckpointFileManager` and `StateMetadataPartitionReader` of the JVM. The readers reject the
files of a newer Spark version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.hadoop_directory import HadoopFiles
from airflow_adaptive.job.spark_internals import checkpoint_log, spark_class

PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""Name under which a checkpoint keeps the number of state partitions, independent of the session."""

PARTIAL_OFFSETS: Final = re.compile(r"\.0\..+\.tmp")
"""Temporary file of the offsets of the first batch (`CheckpointFileManager.generateTempPath`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHead:
    """Position of a query in its checkpoint.

    Attributes:
        newest: number of the last batch that began and whose offsets are logged.
        committed: number of the last committed batch, or None.
        partitions: number of state partitions after the newest batch, or None if an old Spark version did not store it.
        previous_partitions: number of state partitions before the newest batch, or None if unknown.
    """

    newest: int
    committed: int | None
    partitions: int | None
    previous_partitions: int | None

    @property
    def incomplete(self) -> bool:
        """Whether the newest batch began and was not committed."""
        return self.newest != self.committed

    @property
    def repartitioned(self) -> bool:
        """Whether the newest batch is a repartition, because no other batch changes the number of partitions."""
        return None not in {self.previous_partitions, self.partitions} and self.previous_partitions != self.partitions

    @property
    def unfinished_repartition(self) -> int | None:
        """Number of partitions of a repartition that began and was not committed, or None."""
        return self.partitions if self.incomplete and self.repartitioned else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStore:
    """A kind of state store, of which each state partition of an operator has one.

    Attributes:
        operator: number of the operator in its query.
        kind: Spark's name of the operator, for example `stateStoreSave` for an aggregation.
        name: name of the store, `default` unless the operator has several.
    """

    operator: int
    kind: str
    name: str


class Checkpoint:
    """The checkpoint of one query."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark)
        self.uri = uri

    @property
    def has_escaped_path(self) -> bool:
        """Whether the path differs from its URI. The readers of state escape such a path twice and do not find it."""
        return str(self._files.path(self.uri).toUri()) != self.uri

    @property
    def offsets(self) -> Any:
        """Spark's reader of the offsets of each batch (`OffsetSeqLog`)."""
        return checkpoint_log(self._spark, "OffsetSeqLog", f"{self.uri}/offsets")

    @property
    def commits(self) -> Any:
        """Spark's reader of the committed batches (`CommitLog`)."""
        return checkpoint_log(self._spark, "CommitLog", f"{self.uri}/commits")

    def head(self) -> CheckpointHead | None:
        """Return the position of the query, or None before its first batch. Raises the exceptions of Spark."""
        offsets = self.offsets
        newest = _newest(offsets)
        if newest is None:
            return None
        return CheckpointHead(
            newest=newest,
            committed=_newest(self.commits),
            partitions=_partitions(offsets, newest),
            previous_partitions=_partitions(offsets, newest - 1) if newest else None,
        )

    def stores(self, batch: int) -> list[StateStore]:
        """Return all kinds of state stores as of a batch, empty for a stateless query. Raises the exceptions of Spark."""
        serializable = spark_class(self._spark, "SerializableConfiguration")(self._files.conf)
        reader = spark_class(self._spark, "StateMetadataPartitionReader")(self.uri, serializable, batch)
        return [store for operator in reader.allOperatorStateMetadata() for store in _stores(operator)]

    def format_of(self, batch: int) -> int:
        """Return the format of the state after a committed batch (`spark.sql.streaming.stateStore.checkpointFormatVersion`)."""
        return 2 if self.commits.get(batch).get().stateUniqueIds().isDefined() else 1

    def remove_partial_offsets(self) -> None:
        """Remove what a driver left that was killed while it logged the offsets of the first batch.

        Spark writes the offsets to a temporary file and renames it. It does not start a query whose offset log has a
        file but no offsets (`spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart`, SPARK-53103). All other files
        remain, so that Spark still rejects the checkpoint of another query.

        Raises the exceptions of Spark and Hadoop.
        """
        folder = self._files.path(f"{self.uri}/offsets")
        files = self._files.manager(folder)
        found = [entry.getPath() for entry in files.list(folder)] if files.exists(folder) else []
        for path in found:
            if PARTIAL_OFFSETS.fullmatch(path.getName()):
                files.delete(path)

    def remove_batch(self, batch: int) -> None:
        """Remove the files of the newest batch, which is not committed, and the folders that then are empty; the offsets last.

        A removal that is interrupted leaves the offsets, so that the batch can still be completed. Spark itself removes tables that no snapshot names;
        here, they could belong to an older snapshot that is still uploaded. Raises the exceptions of Hadoop.
        """
        root, paths = self._files.path(self.uri), []
        files = self._files.system(root)
        found = files.listFiles(root, True)
        while found.hasNext():
            paths.append(str(found.next().getPath().toString()))
        of_batch = (path for path in paths if is_of_batch(path, batch))
        for name in sorted(of_batch, key=lambda path: (path.endswith(f"/offsets/{batch}"), path)):
            path = self._files.path(name)
            files.delete(path, False)
            # an object store has no empty folders
            while files.exists(folder := path.getParent()) and not files.listStatus(folder):
                files.delete(path := folder, False)


def is_of_batch(path: str, batch: int) -> bool:
    """Return whether a file of a checkpoint is of a batch: its offsets, its metadata of an operator, or the version of a state store after it."""
    store = rf"state/\d+/\d+/(?:[^/]+/)?{batch + 1}(?:_[\w-]+)?\.\w+(?:\.crc)?"
    return re.search(rf"/(?:offsets/{batch}|state/\d+/_metadata/v2/{batch}|{store})$", path) is not None


def _newest(log: Any) -> int | None:
    newest = log.getLatestBatchId()
    return int(newest.get()) if newest.isDefined() else None


def _partitions(offsets: Any, batch: int) -> int | None:
    metadata = offsets.offsetSeqMetadataForBatchId(batch)
    found = metadata.get().conf().get(PARTITIONS) if metadata.isDefined() else metadata
    return int(found.get()) if found.isDefined() else None


def _stores(operator: Any) -> list[StateStore]:
    info = operator.operatorInfo()
    return [
        StateStore(operator=info.operatorId(), kind=info.operatorName(), name=store.storeName())
        for store in operator.stateStoreInfo()
    ]
