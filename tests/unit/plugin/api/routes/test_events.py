"""Server-sent events: whoever watches a job is told at once, and the database is not asked by each of them."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Hashable, Iterator
from typing import Any

import pytest

from airflow_adaptive.plugin.api.feed import Feed, TooManySubscribersError, Update
from airflow_adaptive.plugin.api.shutdown import SIGNALS
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place, published, time_series

# ---- the feed -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def stops() -> Iterator[list[int]]:
    """What the server's own handler of signals gets; it is there in every test, since a feed puts its own before it."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    found: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda got, _: found.append(got))
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


class Source:
    """Something to look at, which counts the looks."""

    def __init__(self) -> None:
        self.value: Any = "first"
        self.looks = 0

    def read(self, before: Hashable) -> Update | None:
        self.looks += 1
        if isinstance(self.value, Exception):
            raise self.value
        return None if self.value == before else Update(revision=self.value, content=self.value)


def quick(**settings: Any) -> Feed:
    return Feed(**{"poll_interval_s": 0.001, "heartbeat_interval_s": 60, "lifetime_s": 60, **settings})


async def next_of(stream: AsyncIterator[Update | None]) -> Any:
    look = await asyncio.wait_for(anext(stream), 20)
    return None if look is None else look.content


def test_listener_receives_the_current_state_and_then_the_changes() -> None:
    async def listen() -> list[Any]:
        feed, source = quick(), Source()
        stream = feed.subscribe("job", source.read)
        first = await next_of(stream)
        source.value = "second"
        second = await next_of(stream)
        await stream.aclose()
        return [first, second, feed.subscribers]

    assert asyncio.run(listen()) == ["first", "second", 0]


def test_many_listeners_cost_one_observation() -> None:
    async def listen() -> int:
        feed, source = quick(poll_interval_s=60), Source()
        streams = [feed.subscribe("job", source.read) for _ in range(50)]
        assert [await next_of(stream) for stream in streams] == ["first"] * 50
        looks = source.looks
        for stream in streams:
            await stream.aclose()
        assert feed.subscribers == 0
        return looks

    assert asyncio.run(listen()) == 1


def test_listener_of_a_job_where_nothing_happens_gets_signs_of_life() -> None:
    async def listen() -> list[Any]:
        stream = quick(heartbeat_interval_s=0.001).subscribe("job", Source().read)
        while await next_of(stream) != "first":
            pass
        return [await next_of(stream) for _ in range(3)]

    assert asyncio.run(listen()) == [None, None, None]


def test_listener_has_to_connect_again_when_its_time_is_up() -> None:
    async def listen() -> list[Any]:
        feed = quick(lifetime_s=0.2, heartbeat_interval_s=60)
        return [look.content async for look in feed.subscribe("job", Source().read) if look is not None]

    assert asyncio.run(listen()) == ["first"]


def test_listener_of_a_job_that_is_gone_is_informed_and_let_go() -> None:
    async def listen() -> list[Any]:
        feed = quick()
        return [
            look is not None and look.content
            async for look in feed.subscribe("job", lambda _: Update(revision=None, content=None))
        ]

    assert asyncio.run(listen()) == [None]


def test_database_that_fails_for_a_while_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def listen() -> str:
        feed, source = quick(heartbeat_interval_s=0.001), Source()
        source.value = OSError("database is locked")
        stream = feed.subscribe("job", source.read)
        while source.looks < 5:
            assert await next_of(stream) is None
        source.value = "back"
        while (told := await next_of(stream)) is None:
            pass
        return str(told)

    assert asyncio.run(listen()) == "back"
    assert len([record for record in caplog.records if "database is locked" in record.message]) == 1


def test_server_that_is_directed_to_stop_lets_its_listeners_go(stops: list[int]) -> None:
    async def listen() -> list[Any]:
        told = []
        async for look in quick().subscribe("job", Source().read):
            told.append(look is not None and look.content)
            signal.raise_signal(signal.SIGTERM)
        return told

    assert asyncio.run(listen()) == ["first"]
    assert stops == [signal.SIGTERM], "the server is told, too"


def test_crowd_is_refused() -> None:
    async def listen() -> None:
        feed = quick(max_subscribers=1)
        stream = feed.subscribe("job", Source().read)
        await next_of(stream)
        with pytest.raises(TooManySubscribersError):
            await anext(feed.subscribe("other", Source().read))
        await stream.aclose()
        assert await next_of(feed.subscribe("other", Source().read)) == "first"

    asyncio.run(listen())


# ---- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """A feed whose listeners are soon let go: the test client gives out an answer only when it is complete."""
    from airflow_adaptive.plugin.api.routes import events  # noqa: PLC0415

    feed = quick(lifetime_s=0.5)
    monkeypatch.setattr(events, "FEED", feed)
    return feed


def events_in(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.split("\n\n") if block.startswith("event: ")]
    return [(block[0].removeprefix("event: "), json.loads(block[1].removeprefix("data: "))) for block in blocks]


@pytest.mark.usefixtures("short")
def test_page_receives_the_job_and_its_metrics(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client("viewer").get(f"{API}/jobs/departures/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text.startswith("retry: 3000\n\n")
    (_, job), (_, metrics) = events_in(answer.text)
    assert job == airflow_app.client("viewer").get(f"{API}/jobs/departures").json()
    assert metrics == airflow_app.client("viewer").get(f"{API}/jobs/departures/metrics").json()


def test_view_differs_when_the_published_state_does(airflow_app: AirflowApp) -> None:
    from airflow_adaptive.plugin.api.routes.events import poll  # noqa: PLC0415
    from airflow_adaptive.plugin.data.metadata_database.jobs import find_job, reading  # noqa: PLC0415

    asset = place(airflow_app, executing())
    with reading() as session:
        job = find_job("departures", session)
    assert job is not None
    first = poll(job, None)
    assert first is not None
    assert poll(job, first.revision) is None
    airflow_app.show(asset, published(executing().when_query_failed()))
    second = poll(job, first.revision)
    assert second is not None
    assert second.content.job.state == "Restarting"


def test_job_that_was_removed_is_gone(airflow_app: AirflowApp) -> None:
    from airflow_adaptive.plugin.api.routes.events import poll  # noqa: PLC0415
    from airflow_adaptive.plugin.data.metadata_database.jobs import find_job, reading  # noqa: PLC0415

    place(airflow_app, executing())
    with reading() as session:
        job = find_job("departures", session)
    assert job is not None
    airflow_app.clean()
    gone = poll(job, None)
    assert gone is not None
    assert gone.content is None


def test_only_new_points_are_reported_and_the_last_one_again(airflow_app: AirflowApp) -> None:
    from airflow_adaptive.plugin.api.routes.events import FIRST_POINTS, _new_points  # noqa: PLC0415
    from airflow_adaptive.plugin.data.documents import Metrics  # noqa: PLC0415

    pages = [Metrics.model_validate(time_series(executing(), count)["metrics/10"]) for count in (30, 31)]
    first, told = _new_points(pages[0], None)
    again, _ = _new_points(pages[0], told)
    then, _ = _new_points(pages[1], told)
    assert len(first.points) == FIRST_POINTS
    assert again.points == []
    assert then.points == pages[1].points[-2:]


def test_listeners_beyond_the_limit_are_rejected_for_now(airflow_app: AirflowApp, short: Feed) -> None:
    short.max_subscribers = 0
    place(airflow_app, executing())
    answer = airflow_app.client().get(f"{API}/jobs/departures/events")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert answer.headers["content-type"] == "application/problem+json"


def test_who_may_not_read_the_job_may_not_watch_it(airflow_app: AirflowApp) -> None:
    assert airflow_app.client().get(f"{API}/jobs/departures/events").status_code == 404
    assert airflow_app.client(None).get(f"{API}/jobs/departures/events").status_code == 401
