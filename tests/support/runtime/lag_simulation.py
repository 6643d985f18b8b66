"""A job with Kafka sources whose drivers and loops come and go, and the true age of its oldest unread row.

Drivers read a limited number of rows in each batch, poll their sources with the real history of end offsets, and report with the real report. Their
search for sources takes a while, the position in the checkpoint cannot always be read, and polls fail for a time.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Final

from airflow_adaptive._core.ports import SourceUnreachableError
from airflow_adaptive._core.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import KafkaSource, SourceReport
from airflow_adaptive._engine.observation.source_lag import SourceLag, SourceLagMonitor
from airflow_adaptive.job.queries.sources.offsets import Offsets, Partition, unread_rows
from airflow_adaptive.job.queries.sources.source_monitor import MAX_POLL_AGE_S, POLL_INTERVAL_S, EndOffsetHistory, Lag
from airflow_adaptive.job.queries.sources.source_report import report_polled
from tests.support.runtime.running_alerts import RunningAlerts
from tests.support.runtime.source_statuses import KAFKA, after, status

QUERIES: Final = ("a", "b")
THRESHOLD_S: Final = 300.0
STATUS_INTERVAL_S: Final = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """The job at a moment.

    Attributes:
        at: seconds since the begin.
        lag: lag of the job, as its loop knows it.
        true_s: age of the oldest unread row in seconds, 0 without one.
        is_alert_over: whether the loop has ended the alert about the threshold at this moment.
    """

    at: float
    lag: SourceLag
    true_s: float
    is_alert_over: bool


class Topics:
    """The topics of the queries: when each row arrives."""

    def __init__(self, random: Random, end_s: float) -> None:
        self._rows = {(query, number): _arrivals(random, end_s) for query in QUERIES for number in range(2)}

    def ends(self, query: str, now: float) -> dict[Partition, int]:
        return {it: bisect_right(rows, now) for it, rows in self._rows.items() if it[0] == query}

    def oldest(self, read: Mapping[str, Offsets], now: float) -> float | None:
        """Return when the oldest unread row arrived, None without one."""
        first = {it: rows[read[it[0]].get(it, 0) :][:1] for it, rows in self._rows.items()}
        return min((rows[0] for rows in first.values() if rows and rows[0] <= now), default=None)


def _arrivals(random: Random, end_s: float) -> list[float]:
    rows, now, rate = list[float](), random.choice([-2000.0, 0.0, 500.0]), random.choice([0.005, 0.05, 0.5])
    while now < end_s:
        now += random.expovariate(rate) + (random.choice([200, 1000]) if random.random() < rate / 50 else 0)
        rows.append(now)
    return rows


class Query:
    """One query of a driver."""

    def __init__(self, job: Job, name: str, now: float) -> None:
        self._job, self._name, random = job, name, job.random
        self._history, self._polled_at = EndOffsetHistory(), -math.inf
        self._found_at, self._failing_until = now + random.choice([1, 3, 12]), now + random.choice([0, 0, 60])
        self._batch_begun_at, self._batch_ends_at = now, now + random.choice([2, 10, 60])
        self._begun = job.commits.get(name) if random.random() < 0.8 else None  # or the position cannot be read
        self._has_batch = self._is_found = False

    def step(self, now: float) -> None:
        if now >= self._batch_ends_at:
            self._commit()
            self._batch_begun_at, self._batch_ends_at = now, now + self._job.random.choice([1, 5, 30, 120])
        if now >= self._found_at and not self._is_found:
            self._is_found = True
            if self._begun is not None:
                self._history.restore(*self._begun)
        is_due = self._is_found and now - self._polled_at >= POLL_INTERVAL_S
        if is_due and not self._found_at < now < self._failing_until:
            self._history.record(now, self._job.topics.ends(self._name, now))
            self._polled_at = now

    def _commit(self) -> None:
        """Commit the batch, which reads a limited number of rows of each partition."""
        limit, read = self._job.random.choice([1, 3, 10, 1000]), self._job.read[self._name]
        ends = self._job.topics.ends(self._name, self._batch_begun_at)
        found = {it: max(read.get(it, 0), min(end, read.get(it, 0) + limit)) for it, end in ends.items()}
        if found != read:
            self._has_batch, self._job.commits[self._name] = True, (self._batch_begun_at, found)

    def report(self, now: float) -> QueryReport:
        return QueryReport(name=self._name, active=True, sources=tuple(self._sources(now)))

    def _sources(self, now: float) -> list[SourceReport]:
        if not self._has_batch and (self._begun is None or not self._is_found):
            return []
        read = self._job.read[self._name]
        if now - self._polled_at > MAX_POLL_AGE_S:
            return [
                report_polled(Lag(description="KafkaV2", read=read, rows={}, ages={}, kafka=KAFKA, is_known=False), {})
            ]
        self._history.forget(read)
        rows, ages = unread_rows(read, self._history.ends), self._history.ages(read, now)
        return [report_polled(Lag(description="KafkaV2", read=read, rows=rows, ages=ages, kafka=KAFKA), {})]


class Job:
    """A job whose drivers run one after the other, and the brokers as its loop reads them."""

    def __init__(self, seed: int, end_s: float) -> None:
        self.random = Random(seed)
        self.topics = Topics(self.random, end_s)
        self.commits: dict[str, tuple[float, Offsets]] = {}
        """Time and offsets of the newest committed batch of each query."""
        self._end_s, self._now = end_s, 0.0
        self._driver: list[Query] = []
        self._changes_at = 0.0
        self._nonce = 0
        self._newest: DriverStatus | None = None
        self._is_current = False

    @property
    def read(self) -> Mapping[str, Offsets]:
        """Offsets that each query has committed."""
        return {query: self.commits[query][1] if query in self.commits else {} for query in QUERIES}

    async def end_offsets(self, source: KafkaSource, topics: frozenset[str]) -> Mapping[str, Mapping[int, int]]:
        if self._now % 500 > 400:
            raise SourceUnreachableError("the brokers do not answer")
        return {
            topic: {number: end for (_, number), end in self.topics.ends(topic, self._now).items()} for topic in topics
        }

    async def moments(self) -> AsyncIterator[Moment]:
        """Run the job, and yield each second of it."""
        brokers = self if self.random.random() < 0.5 else None
        monitor, alerts = SourceLagMonitor(brokers), RunningAlerts(timedelta(seconds=THRESHOLD_S))
        while self._now < self._end_s:
            self._now += 1
            self._step()
            if self.random.random() < 1 / 500:  # Another loop takes over.
                monitor.close()
                monitor = SourceLagMonitor(brokers)
            lag, had_alert = await self._observe(monitor), alerts.alerts.current is not None
            alerts.update(lag, after(self._now))
            oldest = self.topics.oldest(self.read, self._now)
            true_s = 0.0 if oldest is None else self._now - oldest
            yield Moment(self._now, lag, true_s, is_alert_over=had_alert and alerts.alerts.current is None)

    async def _observe(self, monitor: SourceLagMonitor) -> SourceLag:
        current = self._newest if self._is_current else None
        monitor.update(current, self._newest, after(self._now))
        for _ in range(10):
            await asyncio.sleep(0)
        return monitor.update(current, self._newest, after(self._now))

    def _step(self) -> None:
        if self._now >= self._changes_at:
            is_over, self._is_current = bool(self._driver), False
            self._driver = [] if is_over else [Query(self, name, self._now) for name in QUERIES]
            self._nonce += not is_over
            self._changes_at = self._now + self.random.choice([3, 40, 600] if is_over else [15, 60, 400, 1500])
        for query in self._driver:
            query.step(self._now)
        if self._driver and self._now % STATUS_INTERVAL_S == 0:
            found = status(nonce=str(self._nonce), sequence=int(self._now), at=after(self._now))
            self._newest = replace(found, queries=tuple(query.report(self._now) for query in self._driver))
            self._is_current = True
