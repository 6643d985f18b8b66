"""The feed: a subscriber receives each change of a job, and subscribers share the polls of the database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Hashable, Iterator
from typing import Any

import pytest

from airflow_adaptive._web.api.routes.events import SIGNALS, Feed, TooManySubscribersError, Update


@pytest.fixture(autouse=True)
def stops() -> Iterator[list[int]]:
    """Signals that the handler of the server receives. Every test has this handler, because a feed installs its own handler before it."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    found: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda got, _: found.append(got))
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


class Source:
    """A watched value that counts its polls."""

    def __init__(self) -> None:
        self.value: Any = "first"
        self.polls = 0

    def read(self, before: Hashable) -> Update | None:
        self.polls += 1
        if isinstance(self.value, Exception):
            raise self.value
        return None if self.value == before else Update(revision=self.value, content=self.value)


def quick(**settings: Any) -> Feed:
    return Feed(**{"poll_interval_s": 0.001, "heartbeat_interval_s": 60, "lifetime_s": 60, **settings})


async def next_of(stream: AsyncIterator[Update | None]) -> Any:
    update = await asyncio.wait_for(anext(stream), 60)
    return None if update is None else update.content


def test_listener_receives_the_current_state_and_then_the_changes() -> None:
    async def watch() -> list[Any]:
        feed, source = quick(), Source()
        stream = feed.subscribe("job", source.read, "ann")
        first = await next_of(stream)
        source.value = "second"
        second = await next_of(stream)
        await stream.aclose()
        return [first, second, feed.subscribers]

    assert asyncio.run(watch()) == ["first", "second", 0]


def test_many_listeners_cost_one_observation() -> None:
    async def watch() -> int:
        feed, source = quick(poll_interval_s=60), Source()
        streams = [feed.subscribe("job", source.read, f"user-{n}") for n in range(50)]
        assert [await next_of(stream) for stream in streams] == ["first"] * 50
        polls = source.polls
        for stream in streams:
            await stream.aclose()
        assert feed.subscribers == 0
        return polls

    assert asyncio.run(watch()) == 1


def test_listener_of_a_job_where_nothing_happens_gets_signs_of_life() -> None:
    async def watch() -> list[Any]:
        stream = quick(heartbeat_interval_s=0.001).subscribe("job", Source().read, "ann")
        while await next_of(stream) != "first":
            pass
        return [await next_of(stream) for _ in range(3)]

    assert asyncio.run(watch()) == [None, None, None]


def test_listener_has_to_connect_again_when_its_time_is_up() -> None:
    async def watch() -> list[Any]:
        feed = quick(lifetime_s=0.2, heartbeat_interval_s=60)
        return [update.content async for update in feed.subscribe("job", Source().read, "ann") if update is not None]

    assert asyncio.run(watch()) == ["first"]


def test_listener_that_reads_nothing_loses_its_place_when_its_time_is_up() -> None:
    async def watch() -> int:
        feed = quick(lifetime_s=0.2, max_subscribers=1)
        stream = feed.subscribe("job", Source().read, "ann")
        assert await next_of(stream) == "first"
        await asyncio.sleep(2 * feed.lifetime_s)
        assert not feed.subscribers
        feed.check_capacity("bob")
        assert [update async for update in stream] == []
        return feed.subscribers

    assert asyncio.run(watch()) == 0


def test_listener_of_a_job_that_is_gone_is_informed_and_let_go() -> None:
    async def watch() -> list[Any]:
        feed = quick()
        return [
            update is not None and update.content
            async for update in feed.subscribe("job", lambda _: Update(revision=None, content=None), "ann")
        ]

    assert asyncio.run(watch()) == [None]


def test_database_that_fails_for_a_while_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def watch() -> str:
        feed, source = quick(heartbeat_interval_s=0.001), Source()
        source.value = OSError("database is locked")
        stream = feed.subscribe("job", source.read, "ann")
        while source.polls < 5:
            assert await next_of(stream) is None
        source.value = "back"
        while (found := await next_of(stream)) is None:
            pass
        return str(found)

    assert asyncio.run(watch()) == "back"
    assert len([record for record in caplog.records if "database is locked" in record.message]) == 1


def test_server_that_is_directed_to_stop_lets_its_listeners_go(stops: list[int]) -> None:
    async def watch() -> list[Any]:
        found = []
        async for update in quick().subscribe("job", Source().read, "ann"):
            found.append(update is not None and update.content)
            signal.raise_signal(signal.SIGTERM)
        return found

    assert asyncio.run(watch()) == ["first"]
    assert stops == [signal.SIGTERM], "the server receives the signal, too"


def test_crowd_is_refused() -> None:
    async def watch() -> None:
        feed = quick(max_subscribers=1)
        stream = feed.subscribe("job", Source().read, "ann")
        await next_of(stream)
        with pytest.raises(TooManySubscribersError):
            await anext(feed.subscribe("other", Source().read, "ann"))
        await stream.aclose()
        assert await next_of(feed.subscribe("other", Source().read, "ann")) == "first"

    asyncio.run(watch())


def test_user_with_many_subscribers_does_not_exclude_other_users() -> None:
    async def watch() -> None:
        feed = quick(max_subscribers_per_user=1)
        stream = feed.subscribe("job", Source().read, "ann")
        await next_of(stream)
        with pytest.raises(TooManySubscribersError) as error:
            await anext(feed.subscribe("other", Source().read, "ann"))
        assert error.value.is_of_user
        assert await next_of(feed.subscribe("other", Source().read, "bob")) == "first"
        await stream.aclose()
        assert await next_of(feed.subscribe("other", Source().read, "ann")) == "first"

    asyncio.run(watch())
