"""Server-sent events: a subscriber receives each change of a job, and subscribers share the polls of the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_adaptive._web.api.routes.events import Feed
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place, published, suspended, time_series

pytestmark = pytest.mark.usefixtures("either_store")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """A feed whose listeners are soon let go: the test client gives out an answer only when it is complete."""
    from airflow_adaptive._web.api.routes import events  # noqa: PLC0415

    feed = Feed(poll_interval_s=0.001, heartbeat_interval_s=60, lifetime_s=0.5)
    monkeypatch.setattr(events, "FEED", feed)
    return feed


def watched() -> Any:
    """The job that a subscriber watches."""
    from airflow_adaptive._web.data.metadata_database.jobs import find_job, reading  # noqa: PLC0415

    with reading() as session:
        return find_job("departures", session)


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
    from airflow_adaptive._web.api.routes.events import poll  # noqa: PLC0415

    asset = place(airflow_app, executing())
    job = watched()
    first = poll(job, None)
    assert first is not None
    assert poll(job, first.revision) is None
    airflow_app.show(asset, published(executing().when_query_failed()))
    second = poll(job, first.revision)
    assert second is not None
    assert second.content.job.state == "Restarting"


def test_job_that_was_removed_is_gone(airflow_app: AirflowApp) -> None:
    from airflow_adaptive._web.api.routes.events import poll  # noqa: PLC0415

    place(airflow_app, executing())
    job = watched()
    airflow_app.clean()
    gone = poll(job, None)
    assert gone is not None
    assert gone.content is None


@pytest.mark.parametrize(("make", "queries"), [(executing, 2), (suspended, 1)])
def test_poll_of_an_unchanged_job_costs_one_query_and_one_for_its_task(
    airflow_app: AirflowApp, make: Callable[[], Scenario], queries: int
) -> None:
    """Each API server process polls each watched job once per second. Without a state store, there are three places to read."""
    from airflow import settings  # noqa: PLC0415
    from sqlalchemy import event  # noqa: PLC0415

    from airflow_adaptive._web.api.routes.events import poll  # noqa: PLC0415
    from airflow_adaptive._web.data.metadata_database.state_store import has_state_store  # noqa: PLC0415

    place(airflow_app, make(), attempt="a")
    job = watched()
    first = poll(job, None)
    assert first is not None
    statements: list[str] = []

    def record(*arguments: Any) -> None:
        statements.append(arguments[2])

    event.listen(settings.engine, "before_cursor_execute", record)
    assert poll(job, first.revision) is None
    event.remove(settings.engine, "before_cursor_execute", record)
    assert len(statements) == queries if has_state_store() else queries + 2


def test_end_of_the_task_is_sent_to_those_who_watch_the_job(airflow_app: AirflowApp) -> None:
    """The loop cannot publish the end of the job, so no document changes."""
    from airflow_adaptive._web.api.routes.events import poll  # noqa: PLC0415

    place(airflow_app, executing())
    job = watched()
    first = poll(job, None)
    assert first is not None
    airflow_app.run(state="skipped")
    second = poll(job, first.revision)
    assert second is not None
    assert second.content.job.abandoned
    assert poll(job, second.revision) is None


def test_only_new_points_are_reported_and_the_last_one_again(airflow_app: AirflowApp) -> None:
    from airflow_adaptive._web.api.routes.events import FIRST_POINTS, _new_points  # noqa: PLC0415
    from airflow_adaptive._web.data.published_state import Metrics  # noqa: PLC0415

    pages = [Metrics.model_validate(time_series(executing(), count)["metrics/10"]) for count in (30, 31)]
    first, found = _new_points(pages[0], None)
    again, _ = _new_points(pages[0], found)
    then, _ = _new_points(pages[1], found)
    assert len(first.points) == FIRST_POINTS
    assert again.points == []
    assert then.points == pages[1].points[-2:]


@pytest.mark.parametrize(
    ("limit", "status", "kind"),
    [("max_subscribers", 503, "too-many-subscribers"), ("max_subscribers_per_user", 429, "too-many-subscriptions")],
)
def test_listeners_beyond_a_limit_are_rejected_for_now(
    airflow_app: AirflowApp, short: Feed, limit: str, status: int, kind: str
) -> None:
    """A user opens connections in a loop. The connections of other users must remain possible."""
    setattr(short, limit, 0)
    place(airflow_app, executing())
    answer = airflow_app.client().get(f"{API}/jobs/departures/events")
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "30")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:airflow-adaptive:problem:{kind}"


def test_stream_ends_if_another_request_took_the_last_place(
    airflow_app: AirflowApp, short: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests pass the check of the capacity before the first of them subscribes."""
    place(airflow_app, executing())
    check, calls = short.check_capacity, []

    def first_passes(user: str) -> None:
        calls.append(user)
        if len(calls) > 1:
            short.max_subscribers = 0
            check(user)

    monkeypatch.setattr(short, "check_capacity", first_passes)
    answer = airflow_app.client().get(f"{API}/jobs/departures/events")
    assert (answer.status_code, answer.text) == (200, "retry: 3000\n\n")
