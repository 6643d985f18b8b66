"""The commits of tables (Delta Lake, Apache Iceberg) that a query has not read yet.

Theory: Spark's progress contains only what a query has read. The newer commits are in the log of a Delta table, and in the metadata of an Iceberg table. A
thread of its own reads them, because a storage or a catalog may hang. What the thread does not know is unknown, never 0.

* The offset of a Delta source names the next version. Each version has a file in the log, so that the thread requests the files after the offset. The offset
  also contains the id of the table. A query that runs does not compare it, and would leave out the first versions of a table that was created again, so
  that the thread does, and stops the query.
* The offset of an Iceberg source names the newest snapshot that was read. The thread refreshes the table, as the source does, and follows the parents of the
  current snapshot. Only snapshots that append rows count: for others, such as a compaction, the source does not move its offset.

The module uses a private field of Iceberg's `SparkMicroBatchStream`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress

from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive.job.queries.sources.offsets import parse_offset
from airflow_adaptive.job.queries.sources.source_monitor import MAX_POLL_AGE_S, POLL_INTERVAL_S, error_text
from airflow_adaptive.job.queries.sources.source_report import kind_of
from airflow_adaptive.job.spark_internals import from_scala, java_class, private_field

MAX_COMMITS: Final = 500
"""Maximum number of commits that one poll reads. A query that is further behind has at least so many unread commits."""

Offset = Mapping[str, Any]
"""Offset of a table source, from its JSON."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a table.

    Attributes:
        number: version of a Delta table, or id of an Iceberg snapshot.
        at: time of the commit, in seconds since the Unix epoch.
        files: number of data files that the commit adds, for Iceberg.
    """

    number: int
    at: float
    files: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """The unread commits at an offset, oldest first; `is_minimum`: there may be more, or older ones."""

    commits: Sequence[Commit]
    is_minimum: bool = False


class TableError(Exception):
    """A table does not have what the query has read, so that its unread commits are not known."""


class TableReplacedError(Exception):
    """A table was deleted and created again. A restart cannot help."""

    def __init__(self, table: str, read: str, found: str) -> None:
        super().__init__(
            f"the table {table} was deleted and created again: the query has read the table with the id {read}, and now there is one with the id {found}"
        )


class Table(Protocol):
    """The commits of one table. `poll` may take long, and raises the exceptions of the JVM."""

    def poll(self, offset: Offset) -> None:
        """Read the commits after an offset. Raises `TableError` without what was read, and `TableReplacedError` if the query must not continue."""

    def unread(self, offset: Offset) -> Unread:
        """Return the commits of the newest poll that were not read at an offset. Does not wait."""


class DeltaTable(Table):
    """A Delta table, by the files of its log. Each version from that of the offset on is unread."""

    def __init__(self, spark: SparkSession, source: Any) -> None:
        self._path = java_class(spark, "org.apache.hadoop.fs.Path")
        self._folder = str(source.toString()).partition("[")[2].removesuffix("]") + "/_delta_log"
        self._log = source.deltaLog()
        self._files = self._path(self._folder).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self._polled = Unread(())

    def poll(self, offset: Offset) -> None:
        first, log = int(offset["reservoirVersion"]), self._log
        defaults = [getattr(log, f"update$default${number}")() for number in (1, 2, 3)]
        found_id, read_id = str(log.update(*defaults).metadata().id()), str(offset["reservoirId"])
        if found_id != read_id:
            raise TableReplacedError(self._folder.removesuffix("/_delta_log"), read_id, found_id)
        known = [commit for commit in self._polled.commits if commit.number >= first]
        while len(known) < MAX_COMMITS and (found := self._commit(known[-1].number + 1 if known else first)):
            known.append(found)
        if not known and self._commit(first - 1) is None:
            raise TableError(f"the log of the table has no version {first - 1}, which the query has read")
        self._polled = Unread(known, is_minimum=len(known) == MAX_COMMITS)

    def unread(self, offset: Offset) -> Unread:
        first, polled = int(offset["reservoirVersion"]), self._polled
        commits = [commit for commit in polled.commits if commit.number >= first]
        # Of the version with which a query begins, it reads the rows of all earlier versions.
        return Unread(commits, is_minimum=polled.is_minimum or bool(offset.get("isStartingVersion")))

    def _commit(self, version: int) -> Commit | None:
        file = self._path(f"{self._folder}/{version:020}.json")
        if not self._files.exists(file):
            return None
        return Commit(version, self._files.getFileStatus(file).getModificationTime() / 1000)


class IcebergTable(Table):
    """An Iceberg table, by its snapshots. Each snapshot after that of the offset is unread."""

    def __init__(self, _: SparkSession, source: Any) -> None:
        self._table = private_field(source, "table")
        self._polled = Unread(())
        """The snapshot that was read, and its successors that append rows. `is_minimum`: only the newest successors."""

    def poll(self, offset: Offset) -> None:
        read, newest_first = int(offset["snapshot_id"]), list[Commit]()
        self._table.refresh()
        snapshot = self._table.currentSnapshot()
        for _ in range(MAX_COMMITS):
            if snapshot is None:
                raise TableError(f"the table has no snapshot {read}, which the query has read")
            if snapshot.snapshotId() == read or snapshot.operation() == "append":
                newest_first.append(_commit_of(snapshot, offset))
            if snapshot.snapshotId() == read:
                break
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)
        self._polled = Unread(newest_first[::-1], is_minimum=newest_first[-1].number != read)

    def unread(self, offset: Offset) -> Unread:
        read, polled = int(offset["snapshot_id"]), self._polled
        numbers = [commit.number for commit in polled.commits]
        if read not in numbers:  # The query has read all of them since the poll, unless the poll has not reached it.
            return polled if polled.is_minimum else Unread(())
        at = numbers.index(read)
        is_partly_read = polled.commits[at].files > int(offset.get("position", 0))
        return Unread(
            polled.commits[at if is_partly_read else at + 1 :],
            is_minimum=is_partly_read and bool(offset.get("scan_all_files")),
        )


def _commit_of(snapshot: Any, offset: Offset) -> Commit:
    """Return the commit of an Iceberg snapshot. A query that begins with a snapshot reads all files of the table."""
    number = int(snapshot.snapshotId())
    is_whole = bool(offset.get("scan_all_files")) and number == int(offset["snapshot_id"])
    files = snapshot.summary().get("total-data-files" if is_whole else "added-data-files")
    return Commit(number, snapshot.timestampMillis() / 1000, int(files or 0))


TABLES: Final[Mapping[str, Callable[[SparkSession, Any], Table]]] = {
    "DeltaSource": DeltaTable,
    "SparkMicroBatchStream": IcebergTable,
}
"""How the commits of a table are read, by the kind of the source."""


@dataclass(slots=True)
class _SourcePoll:
    """The polls of one source.

    Attributes:
        offset: newest offset of the query.
        table: None before the first poll.
        polled_at: time of the newest successful poll, 0 if the newest poll has failed.
        problem: why the newest poll has failed, None if it has not.
        failure: why the query must not continue, None if it may.
    """

    offset: Offset
    table: Table | None = None
    polled_at: float = 0.0
    problem: str | None = None
    failure: TableReplacedError | None = None


@dataclass(slots=True)
class TableSources:
    """The table sources of one query. The driver loop calls the methods, which never wait for a table.

    Attributes:
        spark: session of the driver.
        warn: called when a poll fails, and again only after a successful poll.
        clock: the time, in seconds since the Unix epoch.
        interval_s: interval between two polls, in seconds.
    """

    spark: SparkSession
    warn: Callable[[str], None]
    clock: Callable[[], float] = time.time
    interval_s: float = POLL_INTERVAL_S
    _execution: Any = None
    _polls: dict[int, _SourcePoll] = field(default_factory=dict)
    _end: threading.Event | None = None

    def begin(self, execution: Any) -> None:
        """Begin a run (`MicroBatchExecution`)."""
        self.end()
        self._execution, self._polls = execution, {}

    def end(self) -> None:
        """End the polls of the run."""
        if self._end is not None:
            self._end.set()
            self._end = None

    @property
    def problem(self) -> str | None:
        """Why the newest poll of a table failed, None if none failed."""
        return next((poll.problem for poll in self._polls.values() if poll.problem is not None), None)

    @property
    def failure(self) -> TableReplacedError | None:
        """Why the run was stopped, None if it was not."""
        return next((poll.failure for poll in self._polls.values() if poll.failure is not None), None)

    def report(self, number: int, progress: SourceProgress) -> SourceReport | None:
        """Return the report of a source with the progress of the newest batch of the run, None if the source is not a table."""
        kind = kind_of(progress.description)
        if kind not in TABLES:
            return None
        offset, unknown = parse_offset(progress.endOffset), SourceReport(kind=kind, is_lag_unknown=True)
        if not isinstance(offset, dict):
            return unknown
        poll = self._polls.setdefault(number, _SourcePoll(offset))
        poll.offset = offset
        report = self._known(poll, unknown)
        self._start()
        return report

    def _known(self, poll: _SourcePoll, unknown: SourceReport) -> SourceReport:
        # A clock that was set back makes the age negative.
        if poll.table is None or not 0 <= self.clock() - poll.polled_at <= MAX_POLL_AGE_S:
            return unknown
        unread = poll.table.unread(poll.offset)
        oldest_at = min((commit.at for commit in unread.commits), default=None)
        lag_s = 0.0 if oldest_at is None else round(max(0.0, self.clock() - oldest_at), 1)
        known = replace(unknown, is_lag_unknown=False, is_lag_minimum=unread.is_minimum)
        return replace(known, unread_versions=len(unread.commits), lag_s=lag_s)

    def _start(self) -> None:
        if self._end is None:
            self._end = threading.Event()
            threading.Thread(
                target=self._run, args=(self._end, self._execution, self._polls), name="table-monitor", daemon=True
            ).start()

    def _run(self, end: threading.Event, execution: Any, polls: Mapping[int, _SourcePoll]) -> None:
        while not end.is_set():
            for number, poll in list(polls.items()):
                if poll.failure is None:
                    self._poll(number, poll, execution)
            end.wait(self.interval_s)

    def _poll(self, number: int, poll: _SourcePoll, execution: Any) -> None:
        try:
            if poll.table is None:
                source = from_scala(self.spark, execution.sources())[number]
                poll.table = TABLES[str(source.getClass().getSimpleName())](self.spark, source)
            poll.table.poll(poll.offset)
        except TableReplacedError as error:
            poll.failure = error
            try:
                execution.stop()
            except (Py4JError, PySparkException) as refusal:
                self.warn(f"the query has not stopped yet: {error_text(refusal)}")
        except (Py4JError, PySparkException, TableError, KeyError, ValueError, TypeError) as error:
            problem = f"the unread commits of a table are not known: {error_text(error)}"
            if poll.problem is None:
                self.warn(problem)
            poll.problem, poll.polled_at = problem, 0.0
        else:
            poll.problem, poll.polled_at = None, self.clock()
