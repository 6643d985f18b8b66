"""FLIP-291 over HTTP: requests that read, set and preview bounds. An invalid request changes nothing, and its error lists all violations."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.control_requests import decode
from airflow_adaptive._core.requirements.request_bodies import decode_bounds
from airflow_adaptive._core.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import documents
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import TASK, executing, place, published
from tests.support.airflow.rest_api import bounds
from tests.support.runtime.policy_simulation import published_view, roomy, until

PATH = f"{API}/jobs/departures/resource-requirements"


def test_bounds_are_those_of_the_dag_until_others_are_set(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client("viewer").get(PATH)
    assert answer.json() == {"job": bounds(1, 4)}
    assert answer.headers["etag"].strip('"').isalnum()


def test_what_was_set_is_there_at_once_and_with_who_set_it(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    answer = airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert (answer.status_code, answer.json()) == (200, {"job": bounds(2, 8)})
    assert airflow_app.client("viewer").get(PATH).json() == {"job": bounds(2, 8)}
    assert airflow_app.client("viewer").get(PATH).headers["etag"] == answer.headers["etag"]
    assert decode_bounds(airflow_app.requested(asset, "requirements")) == {"job": ParallelismRange(2, 8)}
    requested = airflow_app.client().get(f"{API}/jobs/departures").json()["requesters"]["requirements"]
    assert (requested["by"], requested["via"]) == ("editor", "REST")
    assert airflow_app.audit() == [
        {
            "event": "adaptive_requirements",
            "owner": "editor",
            "dag_id": "flights",
            "job": "departures",
            "via": "REST",
            "request": {"job": bounds(2, 8)},
        }
    ]
    assert list(airflow_app.marks()) == ["departures"]


def test_same_again_changes_nothing(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    first, again = (airflow_app.client().put(PATH, json={"job": bounds(2, 8)}) for _ in range(2))
    assert (first.json(), first.headers["etag"]) == (again.json(), again.headers["etag"])
    assert len(airflow_app.audit()) == 1


@pytest.mark.parametrize(("wanted", "had"), [((1, 8), (2, 3)), ((4, 6), (3, 3)), ((1, 1), (2, 2)), ((-1, -1), (2, 3))])
def test_names_the_bounds_that_a_job_with_input_limits_and_a_gang_then_has(
    airflow_app: AirflowApp, wanted: tuple[int, int], had: tuple[int, int]
) -> None:
    job = roomy((1, 8))
    job.drivers.gangs = {"q": 2}
    job.drivers.measures = lambda _: {
        "sources": (SourceReport(kind="KafkaV2", input_limit=3),),
        "shuffle": Shuffle.NONE,
    }
    until(job, 60)
    asset, path = airflow_app.declare("job", "flights"), f"{API}/jobs/job/resource-requirements"
    airflow_app.show(asset, documents(published_view(job), TASK))
    client = airflow_app.client()
    assert client.get(path).json() == {"job": bounds(2, 3)}
    preview = client.post(f"{path}:preview", json={"job": bounds(*wanted)}).json()
    put = client.put(path, json={"job": bounds(*wanted)})
    before = client.get(path)
    job.store.requests = decode({"requirements": {"value": airflow_app.requested(asset, "requirements")}})
    until(job, 120)
    airflow_app.show(asset, documents(published_view(job), TASK))
    after = client.get(path)
    assert published_view(job).requirements["job"] == ParallelismRange(*had)
    assert preview["requirements"] == put.json() == before.json() == after.json() == {"job": bounds(*had)}
    assert put.headers["etag"] == before.headers["etag"] == after.headers["etag"]


def test_minus_one_resets_a_bound_to_its_default(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert airflow_app.client().put(PATH, json={"job": bounds(-1, -1)}).json() == {"job": bounds(1, 4)}
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}


def test_mark_that_can_not_be_written_costs_nothing_but_time(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("a backend's own")

    place(airflow_app, executing())
    monkeypatch.setattr("airflow_adaptive._web.data.metadata_database.changes.VariableModel.get", broken)
    assert airflow_app.client().put(PATH, json={"job": bounds(2, 8)}).status_code == 200


def test_writer_who_does_not_know_the_newest_bounds_changes_nothing(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    read = airflow_app.client().get(PATH).headers["etag"]
    assert airflow_app.client().put(PATH, json={"job": bounds(2, 3)}, headers={"If-Match": read}).status_code == 200
    late = airflow_app.client("admin").put(PATH, json={"job": bounds(1, 8)}, headers={"If-Match": read})
    assert (late.status_code, late.json()["type"].rpartition(":")[2]) == (412, "lost-update")
    assert airflow_app.requested(asset, "requirements") == {"job": bounds(2, 3)}
    assert len(airflow_app.audit()) == 1


@pytest.mark.parametrize(
    ("tag", "status"), [("*", 200), ('"no", {}', 200), ("W/{}", 412), ("nonsense", 412), ("", 412)]
)
def test_if_match_is_read_as_http_has_it(airflow_app: AirflowApp, tag: str, status: int) -> None:
    place(airflow_app, executing())
    headers = {"If-Match": tag.format(airflow_app.client().get(PATH).headers["etag"])}
    assert airflow_app.client().put(PATH, json={"job": bounds(1, 2)}, headers=headers).status_code == status


def test_of_many_writers_at_once_one_is_first(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    headers = {"If-Match": airflow_app.client().get(PATH).headers["etag"]}
    answers: dict[int, int] = {}
    start = threading.Barrier(6)

    def write(upper: int) -> None:
        client = airflow_app.client()
        start.wait(60)
        answers[upper] = client.put(PATH, json={"job": bounds(1, upper)}, headers=headers).status_code

    writers = [threading.Thread(target=write, args=(upper,)) for upper in (1, 2, 3, 5, 6, 7)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted(answers.values()) == [200, 412, 412, 412, 412, 412]
    first = next(upper for upper, status in answers.items() if status == 200)
    assert airflow_app.requested(asset, "requirements") == {"job": bounds(1, first)}
    assert len(airflow_app.audit()) == 1


def test_what_the_database_does_not_take_is_not_accepted(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415

    def broken(*_: Any, **__: Any) -> None:
        raise OperationalError("INSERT ... secret", {}, OSError("database is locked"))

    asset = place(airflow_app, executing())
    monkeypatch.setattr("airflow_adaptive._web.data.metadata_database.state_store.write", broken)
    answer = airflow_app.client().put(PATH, json={"job": bounds(1, 2)})
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "could not be persisted and has not been applied" in answer.json()["detail"]
    assert "INSERT" not in answer.text
    assert (airflow_app.requested(asset, "requirements"), airflow_app.audit(), airflow_app.marks()) == (None, [], {})


def test_preview_reports_what_would_happen_and_changes_nothing(airflow_app: AirflowApp) -> None:
    job = executing(slots=4)
    asset = place(airflow_app, job)
    found = airflow_app.client("viewer").post(f"{PATH}:preview", json={"job": bounds(1, 2)}).json()
    assert (found["consequence"], found["tier"]) == ("RESCALE", "QUERY")
    assert (found["before"], found["after"]) == ({"job": 4}, {"job": 2})
    assert found["requirements"] == {"job": bounds(1, 2)}
    assert found["slots"] == {"available": 4, "minimum": 1, "maximum": 2, "missing": 0}
    assert airflow_app.requested(asset, "requirements") is None
    assert (airflow_app.audit(), airflow_app.marks()) == ([], {})


def test_preview_reports_how_many_slots_are_waited_for(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing(slots=4))
    found = airflow_app.client("viewer").post(f"{PATH}:preview", json={"job": bounds(1, 8)}).json()
    assert (found["consequence"], found["after"], found["slots"]["missing"]) == ("WAIT_FOR_SLOTS", {"job": 8}, 4)


def test_names_that_look_like_markup_are_carried_unharmed(airflow_app: AirflowApp) -> None:
    from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex  # noqa: PLC0415

    vertex, name = "<script>alert('1')</script>", "<img src=x onerror=alert(1)> & ü"
    graph = JobGraph(
        job=name, vertices=(JobVertex(name=vertex, parallelism=ParallelismRange(1, 2), max_parallelism=4),)
    )
    job = Scenario(graph=graph, resource_stabilization_timeout=0).given_executing(2)
    job.when(SlotsChanged(at=job.now, offers=(SlotOffer(worker="w", held=2),)))
    place(airflow_app, job)
    client = airflow_app.client()
    path = f"{API}/jobs/%3Cimg%20src=x%20onerror=alert(1)%3E%20&%20%C3%BC"
    answer = client.get(path)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (answer.json()["job"], answer.json()["parallelism"]) == (name, {vertex: 2})
    put = client.put(f"{path}/resource-requirements", json={vertex: bounds(1, 3)})
    assert put.json() == {vertex: bounds(1, 3)}
    assert client.put(f"{path}/resource-requirements", json={}).headers["content-type"] == "application/problem+json"
    assert json.loads(client.get(f"{API}/jobs").text)["jobs"][0]["job"] == name


def test_too_wide_a_job_is_reported_by_its_summary(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, {**published(executing()), "scheduler": {}})
    assert airflow_app.client().get(f"{API}/jobs/departures").json()["parallelism"] == {"job": 2}
    assert airflow_app.client().put(PATH, json={"job": bounds(1, 2)}).status_code == 409
