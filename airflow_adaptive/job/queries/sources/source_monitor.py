"""Polls the sources of a query in a thread of its own, because Spark's progress contains offsets only at the end of a batch.

A poll that hangs blocks only its thread. The query continues, and its lag is unknown until the next poll succeeds.

Theory: Spark and Kafka's offsets do not contain the time at which a row arrived. The end offset of a partition was recorded before and
after the arrival of a row, so that the time of the arrival is interpolated between these two records. A row that was there before the
first record has at least the age of this record.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_adaptive._core.protocol.failures import redact
from airflow_adaptive._core.protocol.sources import KafkaSource, Shuffle
from airflow_adaptive.job.queries.sources.kafka_topics import Division
from airflow_adaptive.job.queries.sources.offsets import Offsets, Partition, ReadPosition, unread_rows
from airflow_adaptive.job.queries.sources.topic_ids import TopicRecreatedError

POLL_INTERVAL_S: Final = 10.0

MAX_POLL_AGE_S: Final = 30.0
"""Age of the newest successful poll above which the lag is unknown: rows that arrived since are not counted."""


MAX_RECORDS: Final = 360
"""Maximum number of records of a partition. Above this number, the history keeps every second record of its older half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """The age of the oldest unread row of a partition.

    Attributes:
        seconds: age of the row.
        is_minimum: whether the row was there before the first record, so that the row is older.
    """

    seconds: float
    is_minimum: bool = False


class EndOffsetHistory:
    """The end offsets of each partition over time, while a query may not have read their rows."""

    def __init__(self) -> None:
        self._records: dict[Partition, deque[tuple[float, int]]] = {}
        self._restored_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the history has no record."""
        return not self._records

    @property
    def ends(self) -> Offsets:
        """The newest end offset of each partition."""
        return {partition: records[-1][1] for partition, records in self._records.items()}

    def record(self, at: float, ends: Offsets) -> None:
        """Record the end offsets at a time, in seconds.

        Partitions that were deleted or created again lose their earlier records, and so do all partitions if the clock was set back.
        """
        self._records = {partition: self._records.get(partition, deque()) for partition in ends}
        for partition, records in self._records.items():
            if records and (ends[partition] < records[-1][1] or at < records[-1][0]):
                records.clear()
            records.append((at, ends[partition]))
            _thin(records)

    def restore(self, at: float, read: Offsets) -> None:
        """Begin with the position of an earlier driver, and the time at which its batch began. Later rows may have been there already."""
        self.record(at, read)
        self._restored_at = at

    def ages(self, read: Offsets, now: float) -> Mapping[Partition, Age]:
        """Return the age of the oldest unread row of each partition that has unread rows. A new partition is read from its first row."""
        return {
            partition: self._age(records, read.get(partition, 0), now)
            for partition, records in self._records.items()
            if records[-1][1] > read.get(partition, 0)
        }

    def forget(self, read: Offsets) -> None:
        """Drop the records that `ages` no longer needs, because the query has read up to these offsets."""
        for partition, records in self._records.items():
            while len(records) > 1 and records[1][1] <= read.get(partition, 0):
                records.popleft()

    def _age(self, records: deque[tuple[float, int]], row: int, now: float) -> Age:
        """Return the age of an unread row, which arrived between the last record that does not contain the row and the next record."""
        before = records[0]
        if before[1] > row:
            return Age(seconds=max(now - before[0], 0.0), is_minimum=True)
        after = before
        for after in records:
            if after[1] > row:
                break
            before = after
        share = (row - before[1]) / (after[1] - before[1])
        seconds = max(now - before[0] - share * (after[0] - before[0]), 0.0)
        return Age(seconds=seconds, is_minimum=before[0] == self._restored_at)


def _thin(records: deque[tuple[float, int]]) -> None:
    if len(records) > MAX_RECORDS:
        older = [records.popleft() for _ in range(MAX_RECORDS // 2)]
        records.extendleft(reversed(older[::2]))


class PolledSource(Protocol):
    """A source whose end offsets can be read; see `kafka_topics.KafkaTopics`. Its methods may take long, and raise any exception."""

    @property
    def description(self) -> str:
        """Description of the source, as Spark's progress contains it."""

    @property
    def source(self) -> KafkaSource | None:
        """Identity of the source, None until its brokers have reported it."""

    def end_offsets(self) -> Offsets:
        """Return the end offset of each partition. Raises `TopicRecreatedError` if the query must not continue."""

    def division(self) -> Division:
        """Return the options with which the source divides its partitions."""

    def retention_s(self, topics: Collection[str]) -> Mapping[str, float]:
        """Return the age in seconds at which a row of each topic is deleted; see `TopicReport.retention_s`."""

    def close(self) -> None:
        """Release the resources of the source."""


class PolledRun(Protocol):
    """A run of a query, as the polling thread sees it. The methods raise the exceptions of the JVM."""

    def sources(self) -> Mapping[int, PolledSource]:
        """Return the sources that can be polled, by their number in the query."""

    def position(self) -> ReadPosition | None:
        """Return the position of the newest committed batch in the checkpoint."""

    def shuffle(self) -> Shuffle | None:
        """Return how the rows get to other tasks, or None before the first batch."""

    def stop(self) -> None:
        """Stop the run immediately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of a query behind one source.

    Attributes:
        description: description of the source.
        read: offsets that the query has read.
        rows: unread rows of each partition.
        ages: age of the oldest unread row of each partition that has unread rows.
        kafka: identity of the source, None while it is unknown.
        division: options with which the source divides its partitions.
        retention_s: age in seconds at which a row of each topic is deleted; see `TopicReport.retention_s`.
        is_known: False if no poll has succeeded recently; then only `description`, `read` and perhaps `kafka` are known.
    """

    description: str
    read: Offsets
    rows: Mapping[Partition, int]
    ages: Mapping[Partition, Age]
    kafka: KafkaSource | None = None
    division: Division = Division()
    retention_s: Mapping[str, float] = field(default_factory=dict)
    is_known: bool = True


@dataclass(slots=True)
class _Polled:
    """What the polls of one source have found; see `Lag` for the other attributes.

    Attributes:
        problem: why the newest poll failed, None after a successful one.
        polled_at: time of the newest successful poll, in seconds since the Unix epoch, 0 before it.
        begun_at: offsets at which the run began, None if the run began without a checkpoint.
        known: lag that was computed since the newest successful poll.
    """

    description: str
    history: EndOffsetHistory = field(default_factory=EndOffsetHistory)
    kafka: KafkaSource | None = None
    division: Division = Division()
    retention_s: Mapping[str, float] = field(default_factory=dict)
    problem: str | None = None
    polled_at: float = 0.0
    begun_at: Offsets | None = None
    known: Lag | None = None


class SourceMonitor:
    """Polls the sources of one query over all its runs in this driver. The driver loop and the polling thread call the methods.

    `warn` is called when polls fail, and again only after a successful poll.

    Attributes:
        shuffle: how the rows of the run get to other tasks, None before the first poll after the first batch.
        failure: why the monitor has stopped the run, None if it has not.
    """

    def __init__(
        self,
        warn: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.time,
        interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        self._warn = warn
        self._clock = clock
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._polled: dict[int, _Polled] = {}
        self._is_searched = False
        """Whether the sources of the run that can be polled are known."""
        self._end: threading.Event | None = None
        self.shuffle: Shuffle | None = None
        self.failure: Exception | None = None

    @property
    def problem(self) -> str | None:
        """Why the newest poll of a source failed, None if none failed."""
        with self._lock:
            return next((polled.problem for polled in self._polled.values() if polled.problem is not None), None)

    def begin(self, run: PolledRun) -> None:
        """Begin to poll the sources of a run."""
        self.end()
        with self._lock:
            self.shuffle = self.failure = None
            self._is_searched = False
            for polled in self._polled.values():
                polled.begun_at = polled.problem = None
        self._end = threading.Event()
        threading.Thread(target=self._run, args=(self._end, run), name="source-monitor", daemon=True).start()

    def end(self) -> None:
        """End the polls of the run. What they have found remains for the next run."""
        if self._end is not None:
            self._end.set()

    def lag(self, number: int, description: str, read: Offsets) -> Lag | None:
        """Return the lag behind a source, or None for a source that is not polled. The lag is unknown until the sources were found."""
        with self._lock:
            polled = self._polled.get(number)
            if polled is not None and polled.description == description:
                return self._lag(polled, read)
            return None if self._is_searched else _unknown(description, read)

    def before_first_batch(self) -> Sequence[Lag]:
        """Return the lag of a run without a batch behind each source, if it began from a checkpoint and has no other sources."""
        with self._lock:
            begun = [(polled, polled.begun_at) for polled in self._polled.values()]
            return [self._lag(polled, read) for polled, read in begun if read is not None]

    def _lag(self, polled: _Polled, read: Offsets) -> Lag:
        # A clock that was set back makes the age negative.
        if not 0 <= self._clock() - polled.polled_at <= MAX_POLL_AGE_S:
            return _unknown(polled.description, read, polled.kafka)
        if polled.known is None or polled.known.read != read:
            polled.history.forget(read)
            polled.known = Lag(
                description=polled.description,
                read=read,
                rows=unread_rows(read, polled.history.ends),
                ages=polled.history.ages(read, self._clock()),
                kafka=polled.kafka,
                division=polled.division,
                retention_s=polled.retention_s,
            )
        return polled.known

    def _run(self, end: threading.Event, run: PolledRun) -> None:
        sources = self._sources(end, run)
        try:
            self._restore(end, sources, self._position(run) if sources else None)
            failing = False
            while sources and not end.is_set():
                failing = self._poll(end, run, sources, was_failing=failing)
                end.wait(self._interval_s)
        finally:
            self._close(sources)

    def _sources(self, end: threading.Event, run: PolledRun) -> Mapping[int, PolledSource]:
        """Return the sources of a run; try again until the run ends."""
        is_reported = False
        while not end.is_set():
            try:
                return run.sources()
            except Exception as error:  # noqa: BLE001  Errors of the JVM, and of unexpected answers
                if not is_reported:
                    self._warn(f"the sources cannot be polled, will retry: {error_text(error)}")
                is_reported = True
            end.wait(self._interval_s)
        return {}

    def _position(self, run: PolledRun) -> ReadPosition | None:
        try:
            return run.position()
        except Exception as error:  # noqa: BLE001  Errors of the JVM, and of unexpected answers
            self._warn(
                f"the position in the checkpoint cannot be read, so the age of its rows is unknown: {error_text(error)}"
            )
            return None

    def _restore(self, end: threading.Event, sources: Mapping[int, PolledSource], read: ReadPosition | None) -> None:
        """Begin the history of a new driver with the position of the last driver, so that rows of the downtime have their age."""
        for number, source in sources.items():
            offsets = None if read is None else read.offsets.get(number)
            is_only_polled = read is not None and read.sources == len(sources)
            with self._lock:
                if end.is_set():
                    return
                polled = self._polled.setdefault(number, _Polled(source.description))
                polled.begun_at = offsets if is_only_polled else None
                if polled.history.is_empty and read is not None and offsets is not None:
                    polled.history.restore(read.at, offsets)
        with self._lock:
            self._is_searched = not end.is_set() or self._is_searched

    def _poll(
        self, end: threading.Event, run: PolledRun, sources: Mapping[int, PolledSource], *, was_failing: bool
    ) -> bool:
        """Poll all sources, and return whether a poll failed. No exception may end the polls: they detect topics that were created again."""
        failed = False
        for number, source in sources.items():
            try:
                ends, division, shuffle = source.end_offsets(), source.division(), self.shuffle or run.shuffle()
                retention_s = source.retention_s({topic for topic, _ in ends})
            except TopicRecreatedError as error:
                self._stop(end, run, error)
                return True
            except Exception as error:  # noqa: BLE001  Errors of the JVM, and of unexpected answers
                failed = True
                problem = f"{source.description}: {error_text(error)}"
                with self._lock:
                    if end.is_set():
                        break
                    self._polled[number].problem = problem
                if not was_failing:
                    self._warn(f"the end offsets or options of a source cannot be read, will retry: {problem}")
            else:
                with self._lock:
                    if not end.is_set():
                        self.shuffle = shuffle
                        polled = self._polled[number]
                        polled.kafka, polled.retention_s, polled.problem = source.source, retention_s, None
                        polled.division, polled.known, polled.polled_at = division, None, self._clock()
                        polled.history.record(polled.polled_at, ends)
        return failed

    def _stop(self, end: threading.Event, run: PolledRun, error: Exception) -> None:
        """Stop a run that must not continue, and the polls."""
        with self._lock:
            if end.is_set():
                return
            end.set()
            self.failure = error
        try:
            run.stop()
        except (Py4JError, PySparkException) as problem:
            self._warn(f"the query has not stopped yet: {error_text(problem)}")

    def _close(self, sources: Mapping[int, PolledSource]) -> None:
        for source in sources.values():
            try:
                source.close()
            except (Py4JError, PySparkException) as error:
                self._warn(f"the connection of {source.description} cannot be closed: {error_text(error)}")


def _unknown(description: str, read: Offsets, kafka: KafkaSource | None = None) -> Lag:
    return Lag(description=description, read=read, rows={}, ages={}, kafka=kafka, is_known=False)


def error_text(error: Any) -> str:
    """Return the first line of an error of Spark, without secrets."""
    cause = getattr(error, "java_exception", None) or error
    return redact(str(cause).partition("\n")[0])
