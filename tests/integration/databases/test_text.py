"""Text that SQLite accepts and a real database may refuse: long names, emoji, and characters that PostgreSQL does not store."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from airflow_adaptive._airflow.store.storable import storable
from tests.support.airflow.airflow_app import API, RUN, AirflowApp
from tests.support.airflow.published_documents import executing, published
from tests.support.airflow.rest_api import bounds

LONGEST = 250

NAMES = ["🚀" * LONGEST, "n" * LONGEST, "Größe 100 % '\"; --", "名前" * 125]

UNSTORABLE = {"message": "row 'a\x00b' of file \udcff", "\x00": ["\ud800"]}


@pytest.mark.parametrize("name", NAMES)
def test_job_with_this_name_is_listed_and_changed(airflow_app: AirflowApp, name: str) -> None:
    asset = airflow_app.declare(name)
    airflow_app.show(asset, {"desired_state": {"value": "running"}, **published(executing(name))})
    client, path = airflow_app.client(), f"{API}/jobs/{quote(name, safe='')}"
    assert [job["job"] for job in client.get(f"{API}/jobs", params={"name_pattern": name[:5]}).json()["jobs"]] == [name]
    assert client.put(f"{path}/resource-requirements", json={"job": bounds(1, 3)}).status_code == 200
    assert client.post(f"{path}/suspend", json={}).json()["job"] == name
    assert [line["job"] for line in airflow_app.audit()] == [name, name]
    assert list(airflow_app.marks()) == [name]


def test_dag_and_task_may_have_names_of_250_characters(airflow_app: AirflowApp) -> None:
    dag_id, task_id = "d" * LONGEST, "t" * LONGEST
    asset = airflow_app.declare("departures", dag_id, task_id)
    documents = published(executing())
    task = {"dag_id": dag_id, "task_id": task_id, "run_id": "r" * LONGEST, "map_index": -1}
    airflow_app.show(asset, documents | {"summary": documents["summary"] | {"task": task}})
    response = airflow_app.client().post(f"{API}/jobs/departures/cancel", json={})
    assert (response.status_code, response.json()["task"]["task_id"]) == (202, task_id)
    assert [line["dag_id"] for line in airflow_app.audit()] == [dag_id]


@pytest.mark.parametrize("text", ["🚀 took off", "row 'a\x00b'", "file \udcff"])
def test_published_text_reaches_the_client(airflow_app: AirflowApp, text: str) -> None:
    asset = airflow_app.declare("departures")
    documents = storable(published(executing()))
    airflow_app.show(asset, storable(documents | {"summary": documents["summary"] | {"cause": text}}))
    assert airflow_app.client().get(f"{API}/jobs/departures").json()["cause"] == storable(text)


def test_xcoms_and_events_of_triggers_can_be_stored(airflow_app: AirflowApp) -> None:
    airflow_app.dag("flights")
    airflow_app.run()
    assert store(airflow_app, storable(UNSTORABLE)) == [storable(UNSTORABLE)] * 2


def test_postgresql_refuses_other_xcoms(airflow_app: AirflowApp) -> None:
    """This test fails when Airflow or PostgreSQL stores all text. `storable` is then not needed anymore."""
    from sqlalchemy.exc import DataError  # noqa: PLC0415

    airflow_app.dag("flights")
    airflow_app.run()
    for text in ("\x00", "\ud800"):
        with pytest.raises(DataError):
            store(airflow_app, {"message": text})


def store(airflow_app: AirflowApp, value: Any) -> list[Any]:
    """Store a value as an XCom and as the event of a trigger, as Airflow does, and read both."""
    from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415
    from airflow.models.xcom import XComModel  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    key: Any = {"dag_id": "flights", "task_id": "stream", "run_id": RUN}
    with airflow_app.session() as session:
        XComModel.set(key="failures", value=value, serialize=False, session=session, **key)
        session.scalars(select(TaskInstance)).one().next_kwargs = {"event": value}
    with airflow_app.session() as session:
        kwargs: Any = session.scalars(select(TaskInstance)).one().next_kwargs
        return [session.scalars(select(XComModel)).one().value, kwargs["event"]]
