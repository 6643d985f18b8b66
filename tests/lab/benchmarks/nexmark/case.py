"""A case: one query on one system, with a backlog, then a low rate of events, then the high rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.lab.benchmarks.nexmark.events import Event, backlog, closing, event, records
from tests.lab.benchmarks.nexmark.measurements import Measured, Times, measure, parse
from tests.lab.benchmarks.nexmark.programs import consumed, producer
from tests.lab.benchmarks.nexmark.results import WATERMARK_DELAY_MS, WINDOW_MS, expected
from tests.lab.benchmarks.nexmark.systems import SLOTS, System, Topics
from tests.support.kafka.cluster import KafkaCluster
from tests.support.waiting import wait_until_async

PARTITIONS: Final = 4

BACKLOG: Final = 200_000

BACKLOG_RATE: Final = 4_000
"""Events per second of event time in the backlog."""

LOW_RATE: Final = 1_000
"""Events per second."""

WARM_UP_S: Final = 12.0
"""Time at the low rate before anything is measured: the first windows contain no other events."""

PHASE_S: Final = 25.0
"""Time that is measured at each rate, by default."""

RESCALE_S: Final = 20.0
"""Time after the rescale that does not count as steady."""

TICK_S: Final = 0.05

CLOSING_S: Final = 2.0
"""Interval between the events that move the watermark in the end."""

TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    query: str
    system: str
    measured: Measured


class Feed:
    """Writes the events.

    Attributes:
        events: all events so far.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.events: list[Event] = []
        self._stream = stream

    def write(self, events: Sequence[Event]) -> None:
        """Write events."""
        self.events += events
        self._stream.write(records(events))
        self._stream.flush()

    async def run(self, rate: int, seconds: float) -> None:
        """Write events at a rate per second, each when its time has come."""
        begin, first = time.time(), len(self.events)
        for tick in range(1, round(seconds / TICK_S) + 1):
            await asyncio.sleep(max(0.0, begin + tick * TICK_S - time.time()))
            due = first + round(tick * TICK_S * rate)
            numbers = range(len(self.events), due)
            self.write([event(number, int(1000 * (begin + (number - first) / rate))) for number in numbers])


async def run(query: str, system: System, kafka: KafkaCluster, root: Path, phase_s: float) -> Row:
    """Run a case, and return its row. The delays are measured for `phase_s` at each rate."""
    topics = Topics(kafka.bootstrap_servers, f"events-{root.name}", f"results-{root.name}")
    kafka.clients.create_topic(topics.events, PARTITIONS)
    kafka.clients.create_topic(topics.results)
    begun_ms = now_ms()
    with producer(topics.servers, topics.events) as stream:
        feed = Feed(stream)
        feed.write(backlog(BACKLOG, begun_ms - WINDOW_MS, BACKLOG_RATE))
        await _wait(lambda: sum(kafka.clients.end_offsets(topics.events)) == BACKLOG, "the backlog")
        times, watermark = await _run(query, system, topics, kafka, feed, root, phase_s)
    lines = consumed(topics.servers, topics.results, sum(kafka.clients.end_offsets(topics.results)))
    return Row(query, system.name, measure(parse(lines), expected(query, feed.events, watermark), BACKLOG, times))


async def _run(
    query: str, system: System, topics: Topics, kafka: KafkaCluster, feed: Feed, root: Path, phase_s: float
) -> tuple[Times, int]:
    """Run the job through all phases. Return their times and the last watermark."""

    def written() -> int:
        return sum(kafka.clients.end_offsets(topics.results))

    newest = feed.events[-1].at - WATERMARK_DELAY_MS
    backlog_ms = newest if query != "q0" else feed.events[-1].at
    results = len(expected(query, feed.events, newest))
    async with system.running(query, topics, root) as job:
        begin = now_ms()
        await _wait(lambda: written() >= results, "the results of the backlog")
        await job.rescale(1)
        await feed.run(LOW_RATE, WARM_UP_S)
        low = now_ms()
        await feed.run(LOW_RATE, phase_s)
        high = now_ms()
        await asyncio.gather(job.rescale(SLOTS), feed.run(2 * LOW_RATE, RESCALE_S))
        steady = now_ms()
        await feed.run(2 * LOW_RATE, phase_s + WINDOW_MS / 1000)  # the windows of the last events do not count
        end = feed.events[-1].at
        watermark = await _close(feed, kafka, topics, end)
        total = len(expected(query, feed.events, watermark))
        with suppress(TimeoutError):  # The table shows what is lost.
            await _wait(lambda: written() >= total, "all results")
    return Times(begin=begin, backlog=backlog_ms, low=low, high=high, steady=steady, end=end - WINDOW_MS), watermark


async def _close(feed: Feed, kafka: KafkaCluster, topics: Topics, end: int) -> int:
    """End all windows: move the watermark of all partitions, in several batches. Return the watermark."""
    await asyncio.sleep(CLOSING_S)
    for number in range(1, 4):
        for partition in range(PARTITIONS):
            last = closing(feed.events[-1].id + 1, end + number * WINDOW_MS)
            feed.events += last
            values = [one.json for one in last]
            await asyncio.to_thread(kafka.clients.produce, topics.events, values, partition)
        await asyncio.sleep(CLOSING_S)
    return end + 3 * WINDOW_MS - WATERMARK_DELAY_MS


def now_ms() -> int:
    """Return the time of day, Unix milliseconds."""
    return int(time.time() * 1000)


async def _wait(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return await asyncio.to_thread(condition)

    await wait_until_async(holds, TIMEOUT_S, what)
