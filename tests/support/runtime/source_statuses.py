"""Driver statuses with the lag of Kafka sources, and brokers whose answers the test gives."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow_adaptive.job.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.ports import SourceUnreachableError
from airflow_adaptive.runtime.observation.source_lag import SourceLag, SourceLagMonitor

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Brokers:
    """Brokers whose answers the test gives."""

    def __init__(self, **ends: list[int]) -> None:
        self.ends = ends
        self.requests: list[frozenset[str]] = []
        self.error: str | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def end_offsets(self, topics: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        self.requests.append(frozenset(topics))
        await self.answers.wait()
        if self.error is not None:
            raise SourceUnreachableError(self.error)
        return {topic: dict(enumerate(self.ends[topic])) for topic in topics}


def source(
    lag_rows: int | None, lag_s: float | None, *, retention_s: float | None = None, **read: list[int]
) -> SourceReport:
    return SourceReport(
        kind="KafkaV2", lag_rows=lag_rows, lag_s=lag_s, position=position(**read), retention_s=retention_s
    )


def position(**read: list[int]) -> Mapping[str, Mapping[str, int]]:
    return {topic: {str(number): row for number, row in enumerate(rows)} for topic, rows in read.items()}


def minimum(lag_rows: int, lag_s: float, *, retention_s: float | None = None, **read: list[int]) -> SourceReport:
    """A source whose oldest unread row was there before the driver's first poll."""
    return replace(source(lag_rows, lag_s, retention_s=retention_s, **read), is_lag_minimum=True)


def unknown(**read: list[int]) -> SourceReport:
    return replace(source(0, None), lag_rows=None, is_lag_unknown=True, position=position(**read))


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
    for _ in range(3):
        await asyncio.sleep(0)
    return monitor.update(current, newest, now)
