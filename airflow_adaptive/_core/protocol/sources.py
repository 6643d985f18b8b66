"""The sources of a query in the driver status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_adaptive._core.python_version import StrEnum


class Shuffle(StrEnum):
    """How the rows of a query get to other tasks after they were read."""

    NONE = "none"
    """The tasks that read the sources do all the work."""
    EXCHANGE = "exchange"
    """A shuffle of the query distributes the rows, for example before an aggregation."""
    REPARTITION = "repartition"
    """The script distributes the rows itself, with `repartition`."""
    UNKNOWN = "unknown"
    """A function of the script (`foreachBatch`) processes the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a query behind one partition.

    Attributes:
        partition: the partition, such as `flights-3`.
        rows: unread rows.
        seconds: age of the oldest unread row.
    """

    partition: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """The identity of a Kafka source. The offsets, ids and retention of a topic belong to one cluster, and topics of two clusters may have one name.

    Attributes:
        cluster: id of the cluster, as its brokers report it.
        pattern: value of the option `subscribePattern`, None for a source with fixed topics. The query also reads topics that the pattern matches
            later.
        assigned: whether the source reads only the partitions of its position (option `assign`), and not all partitions of its topics.
        committed: whether the source reads only records of committed transactions (`kafka.isolation.level`).
    """

    cluster: str
    pattern: str | None = None
    assigned: bool = False
    committed: bool = False


FILES: Final = "FileStreamSource"
"""`SourceReport.kind` of a source of files."""

NO_RETENTION: Final = -1.0
"""`TopicReport.retention_s` of a topic whose rows the brokers do not delete because of their age."""


GENERATOR: Final = "Rate"
"""Begin of the kind of a source that generates its rows, and therefore has no backlog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """A topic of a source.

    Attributes:
        position: next row that the query has not committed yet, by the number of the partition as text.
        lag_rows: unread rows, None if unknown.
        lag_s: age of the oldest unread row in seconds, 0 without unread rows, None if unknown.
        is_lag_minimum: see `SourceReport.is_lag_minimum`.
        retention_s: age in seconds at which the brokers delete a row, or `NO_RETENTION`; None if unknown.
    """

    position: Mapping[str, int] = field(default_factory=dict)
    lag_rows: int | None = None
    lag_s: float | None = None
    is_lag_minimum: bool = False
    retention_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """A source of a query. Without a number of partitions, the source does not count rows.

    The driver polls Kafka sources and tables. The values of other sources are those at the beginning of the newest batch.

    Attributes:
        kind: kind of the source, such as `KafkaV2` or `FILES`.
        partitions: number of partitions of all topics.
        lag_rows: unread rows of all partitions.
        skew: largest lag of a partition relative to the mean of all partitions, 1 without a lag.
        worst_partition: partition with the most unread rows, such as `flights-3`, None without a lag.
        lag_s: age of the oldest unread row, file or commit in seconds, 0 without any, None if the age is unknown.
        is_lag_unknown: whether the driver polls the source, and no poll has succeeded for a while. Only the position is known then.
        is_lag_minimum: whether the oldest unread row may be older than `lag_s`, because it was there before the driver's first poll.
        partition_lags: the partitions with the oldest unread rows, the oldest first.
        input_limit: maximum number of tasks that have read the source in one batch of the run, or that can read it; None if
            unknown.
        min_partitions: value of the option `minPartitions` of the source, None without it.
        kafka: identity of a Kafka source, None for another source, and if its brokers have not answered yet. The loop needs it to count the unread
            rows while no driver runs.
        topics: topics of a Kafka source by name. The positions and `kafka` are missing if the sources of the job have more than about 5,000
            partitions, and all topics are missing if there are more than about 1,000.
        unread_files: files of a file source that Spark has listed and not read, None for other sources, and if unknown.
        unread_versions: commits of a table that the query has not read completely, None for other sources, and if unknown.
    """

    kind: str
    partitions: int | None = None
    lag_rows: int | None = None
    skew: float | None = None
    worst_partition: str | None = None
    lag_s: float | None = None
    is_lag_unknown: bool = False
    is_lag_minimum: bool = False
    partition_lags: tuple[PartitionLag, ...] = ()
    input_limit: int | None = None
    min_partitions: int | None = None
    kafka: KafkaSource | None = None
    topics: Mapping[str, TopicReport] = field(default_factory=dict)
    unread_files: int | None = None
    unread_versions: int | None = None

    @property
    def is_backlog_unknown(self) -> bool:
        """Whether the source has a backlog that is not known now. Then the lag and the backlog of the job are unknown as well."""
        counts = (self.lag_rows, self.lag_s, self.unread_files, self.unread_versions)
        is_counted = self.kind.startswith(GENERATOR) or any(count is not None for count in counts)
        return self.is_lag_unknown or not is_counted
