"""Driver statuses with the lag of Kafka sources, and brokers whose answers the test gives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from airflow_adaptive._core.ports import SourceUnreachableError
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import NO_RETENTION, KafkaSource, SourceReport, TopicReport
from airflow_adaptive._engine.observation.source_lag import SourceLag, SourceLagMonitor

KAFKA = KafkaSource(cluster="x")

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Brokers:
    """Brokers whose answers the test gives."""

    def __init__(self, **ends: list[int]) -> None:
        self.ends = ends
        self.requests: list[frozenset[str]] = []
        self.error: str | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def end_offsets(self, source: KafkaSource, topics: frozenset[str]) -> Mapping[str, Mapping[int, int]]:
        self.requests.append(topics)
        await self.answers.wait()
        if self.error is not None:
            raise SourceUnreachableError(self.error)
        found = self.ends if source.pattern is not None else topics
        return {topic: dict(enumerate(self.ends[topic])) for topic in found}


def source(
    lag_rows: int,
    lag_s: float,
    *,
    retention_s: float | None = NO_RETENTION,
    is_minimum: bool = False,
    **read: list[int],
) -> SourceReport:
    """A source whose unread rows are in the first of these topics."""
    first = next(iter(read), None)
    return SourceReport(
        kind="KafkaV2",
        lag_rows=lag_rows,
        lag_s=lag_s,
        is_lag_minimum=is_minimum,
        kafka=KAFKA if read else None,
        topics={
            name: TopicReport(
                position=position(rows),
                lag_rows=lag_rows if name == first else 0,
                lag_s=lag_s if name == first else 0.0,
                is_lag_minimum=is_minimum and name == first,
                retention_s=retention_s,
            )
            for name, rows in read.items()
        },
    )


def position(rows: list[int]) -> Mapping[str, int]:
    return {str(number): row for number, row in enumerate(rows)}


def minimum(
    lag_rows: int, lag_s: float, *, retention_s: float | None = NO_RETENTION, **read: list[int]
) -> SourceReport:
    """A source whose oldest unread row was there before the driver's first poll."""
    return source(lag_rows, lag_s, retention_s=retention_s, is_minimum=True, **read)


def unknown(**read: list[int]) -> SourceReport:
    topics = {name: TopicReport(position=position(rows)) for name, rows in read.items()}
    return SourceReport(kind="KafkaV2", is_lag_unknown=True, kafka=KAFKA if read else None, topics=topics)


def status(*sources: SourceReport, sequence: int = 1, nonce: str = "n", at: datetime = NOW) -> DriverStatus:
    queries = (QueryReport(name="a", active=True, idle=True), QueryReport(name="b", active=True, sources=sources))
    return DriverStatus(
        job="j", epoch=1, nonce=nonce, sequence=sequence, at=at.isoformat(), state=DriverState.RUNNING, queries=queries
    )


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def lag_after_poll(
    monitor: SourceLagMonitor, current: DriverStatus | None, newest: DriverStatus, now: datetime
) -> SourceLag:
    """Return the lag after a poll that the update may begin."""
    monitor.update(current, newest, now)
    for _ in range(10):
        await asyncio.sleep(0)
    return monitor.update(current, newest, now)
