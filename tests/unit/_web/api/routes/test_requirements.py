"""FLIP-291 over HTTP: read, set, preview and clear bounds. An invalid request changes nothing, and its error lists all violations."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.control_requests import decode
from airflow_adaptive._core.requirements.request_bodies import decode_bounds
from airflow_adaptive._core.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import documents
from tests.lab.scenario import HOPELESS, Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import TASK, batch, executing, place, published, suspended
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


@pytest.mark.parametrize("query", ["duration=2h", "duration=7200", "duration=2%20h"])
def test_bounds_that_are_set_for_two_hours_are_there_with_when_they_expire(airflow_app: AirflowApp, query: str) -> None:
    asset, before = place(airflow_app, executing()), datetime.now(UTC)
    assert airflow_app.client().put(f"{PATH}?{query}", json={"job": bounds(2, 8)}).status_code == 200
    until = datetime.fromisoformat(airflow_app.stored(asset, "requirements")["until"])
    assert timedelta(hours=2) <= until - before < timedelta(hours=2, minutes=1)
    requested = airflow_app.client().get(f"{API}/jobs/departures").json()["requesters"]["requirements"]
    assert datetime.fromisoformat(requested["until"]) == until


def test_bounds_may_be_set_until_a_time_in_any_zone(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.client().put(PATH, params={"until": "2999-01-31T18:00:00+01:00"}, json={"job": bounds(2, 8)})
    assert airflow_app.stored(asset, "requirements")["until"] == "2999-01-31T17:00:00+00:00"


def test_same_bounds_until_another_time_are_a_change_and_until_the_same_are_none(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    for expiry in ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z"):
        airflow_app.client().put(PATH, params={"until": expiry}, json={"job": bounds(2, 8)})
    assert len(airflow_app.audit()) == 2
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert len(airflow_app.audit()) == 3, "without an expiry they hold until they are lifted"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"duration": "2h", "until": "2999-01-01T00:00:00Z"}, "use one of the two"),
        ({"duration": "soon"}, "'soon' is not a duration"),
        ({"duration": "-2h"}, "must be longer than zero"),
        ({"duration": ""}, "is not a duration"),
        ({"until": "tomorrow"}, "is not a time: use ISO 8601"),
        ({"until": "2999-01-01T00:00:00"}, "has no time zone: add Z"),
        ({"until": "1999-01-01T00:00:00Z"}, "is in the past"),
        ({"until": "9999-12-31T23:59:59.999999-14:00"}, "is beyond the years 1 to 9999: use an earlier time"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "is beyond the years 1 to 9999"),
    ],
)
def test_expiry_that_makes_no_sense_is_reported_and_nothing_is_changed(
    airflow_app: AirflowApp, query: dict[str, str], found: str
) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client().put(PATH, params=query, json={"job": bounds(2, 8)})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:airflow-adaptive:problem:invalid-expiry")
    assert found in answer.json()["detail"]
    assert airflow_app.audit() == []


def test_bounds_that_have_expired_are_not_reported_any_more_and_may_be_set_again(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    by = {"by": "x", "at": "2013-01-01T00:00:00Z", "via": "CLI", "until": "2013-01-01T01:00:00Z"}
    airflow_app.show(asset, {"requirements": {"value": {"job": bounds(2, 8)}, **by}})
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert airflow_app.client().get(PATH).json() == {"job": bounds(2, 8)}


def test_clearing_puts_every_bound_back_and_clearing_again_changes_nothing(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    for _ in range(2):
        answer = airflow_app.client().delete(PATH, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.content) == (204, b"")
    assert airflow_app.requested(asset, "requirements") == {"job": bounds(-1, -1)}
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}
    assert len(airflow_app.audit()) == 2


FORMAT = "Request did not match expected format JobResourceRequirementsBody."
WRONG: dict[str, tuple[Any, list[str]]] = {
    "unknown and missing vertex": (
        {"typo": bounds(1, 2)},
        [
            "Job vertex [typo] was not found in the JobGraph.",
            "The request is incomplete, missing job vertex [job] resource requirements.",
        ],
    ),
    "lower above upper": (
        {"job": bounds(3, 2)},
        ["The requested lower bound [3] for job vertex [job] is higher than the upper bound [2]."],
    ),
    "lower above the default upper": (
        {"job": bounds(5, -1)},
        ["The requested lower bound [5] for job vertex [job] is higher than the upper bound [4]."],
    ),
    "beyond the maximum": (
        {"job": bounds(1, 9)},
        [
            "The newly requested parallelism 9 for the job vertex job exceeds its maximum parallelism 8.",
            "To allow more than 8 for job vertex [job], deploy the job with max_parallelism=9 or more first. Its state is repartitioned on Spark 4.2 or later.",
        ],
    ),
    "zero": (
        {"job": bounds(0, 0)},
        [
            "Both, the requested lower bound [0] and upper bound [0] for job vertex [job] must be greater than zero.",
        ],
    ),
    "minus two": (
        {"job": bounds(-2, 4)},
        ["Both, the requested lower bound [-2] and upper bound [4] for job vertex [job] must be greater than zero."],
    ),
    "texts and fractions": (
        {"job": bounds("1", 2.0)},
        [
            f'{FORMAT} Job vertex [job]: lowerBound "1" must be a whole number',
            f"{FORMAT} Job vertex [job]: upperBound 2.0 must be a whole number",
        ],
    ),
    "booleans and nothing": (
        {"job": bounds(True, None)},
        [
            f"{FORMAT} Job vertex [job]: lowerBound true must be a whole number",
            f"{FORMAT} Job vertex [job]: upperBound null must be a whole number",
        ],
    ),
    "huge": (
        {"job": bounds(1, 10**30)},
        [f"{FORMAT} Job vertex [job]: upperBound {10**30} exceeds the maximum 2147483647"],
    ),
    "missing bound": (
        {"job": {"parallelism": {"lowerBound": 1}}},
        [f"{FORMAT} Job vertex [job]: parallelism: upperBound is missing"],
    ),
    "misspelled bound": (
        {"job": {"parallelism": {"lowerBound": 1, "upperbound": 4}}},
        [
            f"{FORMAT} Job vertex [job]: parallelism: upperBound is missing",
            f'{FORMAT} Job vertex [job]: parallelism: unknown field "upperbound", known fields: lowerBound, upperBound',
        ],
    ),
    "extra field": (
        {"job": bounds(1, 2, slots=3)},
        [f'{FORMAT} Job vertex [job]: unknown field "slots", known fields: parallelism'],
    ),
    "no parallelism": (
        {"job": {}},
        [f"{FORMAT} Job vertex [job]: parallelism is missing"],
    ),
    "parallelism of another kind": (
        {"job": {"parallelism": 3}},
        [f"{FORMAT} Job vertex [job]: parallelism: 3 must be an object with lowerBound and upperBound"],
    ),
    "vertex of another kind": ({"job": 3}, [f"{FORMAT} Job vertex [job]: 3 must be an object with parallelism"]),
    "no object": ([], [f"{FORMAT} It must be an object with a field for each job vertex."]),
    "null": (None, [f"{FORMAT} It must be an object with a field for each job vertex."]),
    "empty": ({}, ["Request body does not specify resource requirements."]),
    "everything at once": (
        {"job": bounds("x", 9), "typo": bounds(1, 2), "other": 1},
        [
            f'{FORMAT} Job vertex [job]: lowerBound "x" must be a whole number',
            f"{FORMAT} Job vertex [other]: 1 must be an object with parallelism",
            "Job vertex [typo] was not found in the JobGraph.",
        ],
    ),
}


@pytest.mark.parametrize(("body", "errors"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_all_violations_are_reported_and_nothing_is_changed(
    airflow_app: AirflowApp, method: str, body: Any, errors: list[str]
) -> None:
    asset = place(airflow_app, executing())
    before = airflow_app.client().get(PATH).headers["etag"]
    path = PATH if method == "PUT" else f"{PATH}:preview"
    headers = {"Content-Type": "application/json"}
    answer = airflow_app.client().request(method, path, content=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json()["errors"]) == (400, errors)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:airflow-adaptive:problem:invalid-requirements"
    assert airflow_app.client().get(PATH).headers["etag"] == before
    assert airflow_app.requested(asset, "requirements") is None
    assert airflow_app.audit() == []


UNREADABLE = {
    "no JSON": (b"{", "It is not valid JSON"),
    "NaN": (b'{"job": {"parallelism": {"lowerBound": NaN, "upperBound": 2}}}', "NaN is not a JSON number"),
    "infinity": (
        b'{"job": {"parallelism": {"lowerBound": 1, "upperBound": Infinity}}}',
        "Infinity is not a JSON number",
    ),
    "a key twice": (b'{"job": {"parallelism": {"lowerBound": 1, "lowerBound": 2}}}', '"lowerBound" occurs twice'),
    "a vertex twice": (b'{"job": {}, "job": {}}', '"job" occurs twice'),
    "no UTF-8": (b'{"\xff": 1}', "It is not valid JSON"),
    "half a character": (b'{"\\ud800": 1}', "It is not valid JSON"),
    "thousands of digits": (b'{"job": ' + b"9" * 5000 + b"}", "It is not valid JSON"),
    "deeply nested": (b'{"job":' * 9_000, "It is not valid JSON"),
    "nothing": (b"", "Request body does not specify resource requirements."),
    "blanks": (b" \n", "Request body does not specify resource requirements."),
}


@pytest.mark.parametrize(("body", "error"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_body_that_is_no_json_is_refused(airflow_app: AirflowApp, body: bytes, error: str) -> None:
    asset = place(airflow_app, executing())
    answer = airflow_app.client().put(PATH, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, len(answer.json()["errors"])) == (400, 1)
    assert error in answer.json()["errors"][0]
    assert airflow_app.requested(asset, "requirements") is None


def test_many_mistakes_are_reported_in_few_words(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    body = {f"{number}-{'v' * 100}": bounds(1, 2) for number in range(350)}
    answer = airflow_app.client().put(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["errors"][-1] == "... and 331 more"
    assert len(answer.content) < 16 << 10


def finished() -> Scenario:
    return executing().when_query_failed(HOPELESS).when_driver_ended()


REFUSING = {
    "reactive": (lambda: executing(reactive=True), "reactive", "uses all available slots"),
    "batch": (batch, "batch", "is a batch"),
    "failed": (finished, "finished", "has ended (FAILED): run its DAG again"),
}


@pytest.mark.parametrize(("job", "kind", "detail"), REFUSING.values(), ids=REFUSING.keys())
def test_job_that_can_not_have_other_bounds_gives_the_reason(
    airflow_app: AirflowApp, job: Any, kind: str, detail: str
) -> None:
    scenario = job()
    asset = place(airflow_app, scenario)
    for method, path in (("PUT", PATH), ("POST", f"{PATH}:preview")):
        answer = airflow_app.client().request(method, path, json={"job": bounds(1, 2)})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, kind)
        assert detail in answer.json()["detail"]
    assert airflow_app.requested(asset, "requirements") is None


def test_request_for_a_job_that_has_published_nothing_yet_can_be_repeated_later(airflow_app: AirflowApp) -> None:
    asset = airflow_app.declare("departures")
    airflow_app.show(asset, {"desired_state": {"value": "running"}})
    answer = airflow_app.client().put(PATH, json={"job": bounds(1, 2)})
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "5")
    assert airflow_app.client().get(PATH).status_code == 404


def test_suspended_job_is_resumed_with_the_bounds_that_were_set_meanwhile(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, suspended())
    assert airflow_app.client().put(PATH, json={"job": bounds(2, 3)}).status_code == 200
    assert airflow_app.requested(asset, "requirements") == {"job": bounds(2, 3)}
