"""Lists of a thousand jobs, and changes of many jobs at the same time, on a real database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.connection_pool import responses_of, small_pool
from tests.support.airflow.published_documents import place, suspended
from tests.support.airflow.rest_api import bounds
from tests.support.databases.many_jobs import insert_jobs
from tests.support.databases.postgresql import PostgresqlServer

JOBS = 1000

CHANGES = 40

TIMEOUT_S = 240.0


@contextmanager
def statements() -> Iterator[list[str]]:
    """Record the statements of all requests during the block."""
    from airflow import settings  # noqa: PLC0415
    from sqlalchemy import event  # noqa: PLC0415

    found: list[str] = []

    def record(*arguments: Any) -> None:
        found.append(arguments[2])

    event.listen(settings.engine, "before_cursor_execute", record)
    try:
        yield found
    finally:
        event.remove(settings.engine, "before_cursor_execute", record)


def listed(airflow_app: AirflowApp, **query: Any) -> tuple[list[str], int]:
    """Return the names of a list, and the number of its statements."""
    client = airflow_app.client()
    with statements() as executed:
        response = client.get(f"{API}/jobs", params=query)
    return [job["job"] for job in response.json()["jobs"]], len(executed)


@pytest.mark.parametrize(("limit", "most"), [(50, 12), (JOBS, 18)])
def test_list_of_a_thousand_jobs_executes_few_statements(airflow_app: AirflowApp, limit: int, most: int) -> None:
    """The number of statements depends neither on the number of jobs nor on the number of their DAGs."""
    names = insert_jobs(airflow_app, JOBS)
    found, executed = listed(airflow_app, limit=limit)
    assert found == names[:limit]
    assert executed <= most


def test_page_executes_as_many_statements_as_a_page_of_few_jobs(airflow_app: AirflowApp) -> None:
    insert_jobs(airflow_app, 5)
    _, few = listed(airflow_app)
    airflow_app.clean()
    insert_jobs(airflow_app, 100)
    assert listed(airflow_app)[1] == few


def test_many_jobs_are_changed_at_the_same_time(airflow_app: AirflowApp, postgresql: PostgresqlServer) -> None:
    """Users change 40 jobs while other users list them, with a pool of connections as small as Airflow's."""
    names = insert_jobs(airflow_app, CHANGES)
    vertices = {name: bounds(1, 2) for name in ("read", "enrich", "aggregate")}
    requests: list[dict[str, Any]] = []
    for name in names:
        url = f"{API}/jobs/{name}"
        requests.append({"method": "PUT", "url": f"{url}/resource-requirements", "json": vertices})
        requests.append({"method": "POST", "url": f"{url}/suspend", "json": {}})
        requests.append({"method": "GET", "url": f"{API}/jobs"})
    with small_pool(5):
        responses = responses_of(airflow_app, requests)
    assert Counter(response.status_code for response in responses) == {200: 2 * CHANGES, 202: CHANGES}
    assert Counter(line["event"] for line in airflow_app.audit()) == {
        "adaptive_requirements": CHANGES,
        "adaptive_suspend": CHANGES,
    }
    assert "deadlock detected" not in postgresql.log


def test_resume_waits_for_a_scheduler_that_ends_the_run(airflow_app: AirflowApp, postgresql: PostgresqlServer) -> None:
    from airflow.models.dagrun import DagRun  # noqa: PLC0415
    from sqlalchemy import select, text, update  # noqa: PLC0415

    place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success", ends=True)
    airflow_app.pause(False)
    request = partial(airflow_app.client().post, f"{API}/jobs/departures/resume", json={})
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    with ThreadPoolExecutor() as threads:
        with airflow_app.session() as scheduler, airflow_app.session() as observer:
            scheduler.execute(select(DagRun.id).with_for_update())
            scheduler.execute(update(DagRun).values(state="success"))
            response = threads.submit(request)
            wait_until(lambda: response.done() or observer.scalar(waiting), TIMEOUT_S, "a request that waits")
        assert response.result().status_code == 202
    assert (airflow_app.task_state(), airflow_app.run_state()) == (None, "queued")
