"""FLIP-291 over HTTP: reading, setting and trying bounds; everything that is wrong is told, and then nothing is changed."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive.runtime.requirements.control_requests import decode_bounds
from airflow_adaptive.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive.testing.scenario import HOPELESS, Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import batch, executing, place, shown, suspended

PATH = f"{API}/jobs/departures/resource-requirements"

FORMAT = "Request did not match expected format JobResourceRequirementsBody."


def bounds(lower: Any, upper: Any, **more: Any) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}, **more}


# ---- reading and setting --------------------------------------------------------------------------------------------


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
    assert decode_bounds(airflow_app.stored(asset, "requirements")) == {"job": (2, 8)}
    asked = airflow_app.client().get(f"{API}/jobs/departures").json()["asked"]["requirements"]
    assert (asked["by"], asked["via"]) == ("editor", "REST")
    assert airflow_app.audit() == [
        {
            "event": "adaptive_requirements",
            "owner": "editor",
            "dag_id": "flights",
            "job": "departures",
            "via": "REST",
            "asked": {"job": bounds(2, 8)},
        }
    ]
    assert list(airflow_app.marks()) == ["departures"]


def test_same_again_changes_nothing(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    first, again = (airflow_app.client().put(PATH, json={"job": bounds(2, 8)}) for _ in range(2))
    assert (first.json(), first.headers["etag"]) == (again.json(), again.headers["etag"])
    assert len(airflow_app.audit()) == 1


def test_minus_one_resets_a_bound_to_its_default(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert airflow_app.client().put(PATH, json={"job": bounds(-1, -1)}).json() == {"job": bounds(1, 4)}
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}


def test_bounds_in_the_inbox_that_can_not_hold_are_ignored_as_the_loop_does(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, {"requirements": {"other": bounds(1, 1)}})
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}


def test_mark_that_can_not_be_written_costs_nothing_but_time(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("a backend's own")

    place(airflow_app, executing())
    monkeypatch.setattr("airflow_adaptive.plugin.data.metadata_database.Variable.get", broken)
    assert airflow_app.client().put(PATH, json={"job": bounds(2, 8)}).status_code == 200


# ---- what is wrong --------------------------------------------------------------------------------------------------

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
        ["The newly requested parallelism 9 for the job vertex job exceeds its maximum parallelism 8."],
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
        [f"{FORMAT} Job vertex [job]: upperBound {10**30} is no parallelism that any job can have"],
    ),
    "missing bound": (
        {"job": {"parallelism": {"lowerBound": 1}}},
        [f"{FORMAT} Job vertex [job]: parallelism: upperBound is missing"],
    ),
    "misspelled bound": (
        {"job": {"parallelism": {"lowerBound": 1, "upperbound": 4}}},
        [
            f"{FORMAT} Job vertex [job]: parallelism: upperBound is missing",
            f'{FORMAT} Job vertex [job]: parallelism: there is no field "upperbound", only lowerBound and upperBound',
        ],
    ),
    "extra field": (
        {"job": bounds(1, 2, slots=3)},
        [f'{FORMAT} Job vertex [job]: there is no field "slots", only parallelism'],
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
def test_all_that_is_wrong_is_told_and_nothing_is_changed(
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
    assert airflow_app.stored(asset, "requirements") is None
    assert airflow_app.audit() == []


UNREADABLE = {
    "no JSON": (b"{", "It can't be read as JSON"),
    "NaN": (b'{"job": {"parallelism": {"lowerBound": NaN, "upperBound": 2}}}', "NaN is no number in JSON"),
    "infinity": (b'{"job": {"parallelism": {"lowerBound": 1, "upperBound": Infinity}}}', "Infinity is no number"),
    "a key twice": (b'{"job": {"parallelism": {"lowerBound": 1, "lowerBound": 2}}}', '"lowerBound" is there twice'),
    "a vertex twice": (b'{"job": {}, "job": {}}', '"job" is there twice'),
    "no UTF-8": (b'{"\xff": 1}', "It can't be read as JSON"),
    "half a character": (b'{"\\ud800": 1}', "It can't be read as JSON"),
    "thousands of digits": (b'{"job": ' + b"9" * 5000 + b"}", "It can't be read as JSON"),
    "deeply nested": (b'{"job":' * 30_000, "It can't be read as JSON"),
    "nothing": (b"", "Request body does not specify resource requirements."),
    "blanks": (b" \n", "Request body does not specify resource requirements."),
}


@pytest.mark.parametrize(("body", "error"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_body_that_is_no_json_is_refused(airflow_app: AirflowApp, body: bytes, error: str) -> None:
    asset = place(airflow_app, executing())
    answer = airflow_app.client().put(PATH, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, len(answer.json()["errors"])) == (400, 1)
    assert error in answer.json()["errors"][0]
    assert airflow_app.stored(asset, "requirements") is None


@pytest.mark.parametrize("tells_its_length", [True, False])
def test_body_of_ten_megabytes_is_refused(airflow_app: AirflowApp, tells_its_length: bool) -> None:
    asset = place(airflow_app, executing())
    pieces = (b" " * (1 << 20) for _ in range(10))
    answer = airflow_app.client().put(
        PATH,
        content=b" " * (10 << 20) if tells_its_length else pieces,
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["detail"]) == (413, "The body is larger than 256 KiB.")
    assert airflow_app.stored(asset, "requirements") is None


def test_many_mistakes_are_told_in_few_words(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    body = {f"{number}-{'v' * 100}": bounds(1, 2) for number in range(1000)}
    answer = airflow_app.client().put(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["errors"][-1] == "... and 801 more"
    assert len(answer.content) < 64 << 10


# ---- jobs that can't have other bounds ------------------------------------------------------------------------------


def finished() -> Scenario:
    return executing().when_query_failed(HOPELESS).when_driver_ended()


REFUSING = {
    "reactive": (lambda: executing(reactive=True), "reactive", "takes all slots that there are"),
    "batch": (batch, "batch", "is a batch"),
    "failed": (finished, "finished", "has ended (FAILED): run its DAG again"),
}


@pytest.mark.parametrize(("job", "kind", "detail"), REFUSING.values(), ids=REFUSING.keys())
def test_job_that_can_not_have_other_bounds_says_why(airflow_app: AirflowApp, job: Any, kind: str, detail: str) -> None:
    scenario = job()
    asset = place(airflow_app, scenario)
    for method, path in (("PUT", PATH), ("POST", f"{PATH}:preview")):
        answer = airflow_app.client().request(method, path, json={"job": bounds(1, 2)})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, kind)
        assert detail in answer.json()["detail"]
    assert airflow_app.stored(asset, "requirements") is None


def test_job_that_has_shown_nothing_yet_is_asked_later(airflow_app: AirflowApp) -> None:
    asset = airflow_app.declare("departures")
    airflow_app.show(asset, {"desired_state": "running"})
    answer = airflow_app.client().put(PATH, json={"job": bounds(1, 2)})
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "5")
    assert airflow_app.client().get(PATH).status_code == 404


def test_suspended_job_is_resumed_with_the_bounds_that_were_set_meanwhile(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, suspended())
    assert airflow_app.client().put(PATH, json={"job": bounds(2, 3)}).status_code == 200
    assert airflow_app.stored(asset, "requirements") == {"job": bounds(2, 3)}


# ---- two writers ----------------------------------------------------------------------------------------------------


def test_writer_who_does_not_know_the_newest_bounds_changes_nothing(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    read = airflow_app.client().get(PATH).headers["etag"]
    assert airflow_app.client().put(PATH, json={"job": bounds(2, 3)}, headers={"If-Match": read}).status_code == 200
    late = airflow_app.client("admin").put(PATH, json={"job": bounds(1, 8)}, headers={"If-Match": read})
    assert (late.status_code, late.json()["type"].rpartition(":")[2]) == (412, "lost-update")
    assert airflow_app.stored(asset, "requirements") == {"job": bounds(2, 3)}
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
        start.wait(30)
        answers[upper] = client.put(PATH, json={"job": bounds(1, upper)}, headers=headers).status_code

    writers = [threading.Thread(target=write, args=(upper,)) for upper in (1, 2, 3, 5, 6, 7)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted(answers.values()) == [200, 412, 412, 412, 412, 412]
    first = next(upper for upper, status in answers.items() if status == 200)
    assert airflow_app.stored(asset, "requirements") == {"job": bounds(1, first)}
    assert len(airflow_app.audit()) == 1


def test_what_the_database_does_not_take_is_not_accepted(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415

    def broken(*_: Any, **__: Any) -> None:
        raise OperationalError("INSERT ... secret", {}, OSError("database is locked"))

    asset = place(airflow_app, executing())
    monkeypatch.setattr("airflow_adaptive.plugin.data.metadata_database.MetastoreBackend.set_asset_state_store", broken)
    answer = airflow_app.client().put(PATH, json={"job": bounds(1, 2)})
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "could not be persisted and has not been applied" in answer.json()["detail"]
    assert "INSERT" not in answer.text
    assert (airflow_app.stored(asset, "requirements"), airflow_app.audit(), airflow_app.marks()) == (None, [], {})


# ---- trying ---------------------------------------------------------------------------------------------------------


def test_preview_tells_what_would_happen_and_changes_nothing(airflow_app: AirflowApp) -> None:
    job = executing(slots=4)
    asset = place(airflow_app, job)
    told = airflow_app.client("viewer").post(f"{PATH}:preview", json={"job": bounds(1, 2)}).json()
    assert (told["consequence"], told["tier"]) == ("RESCALE", "QUERY")
    assert (told["before"], told["after"]) == ({"job": 4}, {"job": 2})
    assert told["requirements"] == {"job": bounds(1, 2)}
    assert told["slots"] == {"available": 4, "minimum": 1, "maximum": 2, "missing": 0}
    assert airflow_app.stored(asset, "requirements") is None
    assert (airflow_app.audit(), airflow_app.marks()) == ([], {})


def test_preview_tells_how_many_slots_are_waited_for(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing(slots=4))
    told = airflow_app.client("viewer").post(f"{PATH}:preview", json={"job": bounds(1, 8)}).json()
    assert (told["consequence"], told["after"], told["slots"]["missing"]) == ("WAIT_FOR_SLOTS", {"job": 8}, 4)


def test_names_that_look_like_markup_are_carried_unharmed(airflow_app: AirflowApp) -> None:
    from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex  # noqa: PLC0415
    from airflow_adaptive.scheduler.requirements import ParallelismRange  # noqa: PLC0415

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


def test_too_wide_a_job_is_told_of_by_its_summary(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, {**shown(executing()), "scheduler": {}})
    assert airflow_app.client().get(f"{API}/jobs/departures").json()["parallelism"] == {"job": 2}
    assert airflow_app.client().put(PATH, json={"job": bounds(1, 2)}).status_code == 409


# ---- expiry, lifting, and whose they are ----------------------------------------------------------------------------


def with_policy(lower: int = 1, upper: int = 4, **changes: Any) -> dict[str, Any]:
    """What a job shows that has a rescale policy of its own, which advises these bounds."""
    bounds_by = {"kind": "POLICY", "source": "load", "via": None, "since": None, "until": None, "reason": "busy"}
    advice = {
        "at": "2013-01-01T00:00:00+00:00",
        "since": "2013-01-01T00:00:00+00:00",
        "bounds": {"job": {"lower": lower, "upper": upper}},
        "source": "load",
        "reason": "busy",
        "next_at": None,
    }
    policy = {"kind": "LoadPolicy", "dry_run": False, "acts": True, "advice": advice, "problem": None} | changes
    documents = shown(executing())
    return {"policy": policy, "summary": documents["summary"] | {"bounds_by": bounds_by}}


@pytest.mark.parametrize("query", ["for=2h", "for=7200", "for=2%20h"])
def test_bounds_that_are_set_for_two_hours_are_there_with_when_they_expire(airflow_app: AirflowApp, query: str) -> None:
    asset, before = place(airflow_app, executing()), datetime.now(UTC)
    assert airflow_app.client().put(f"{PATH}?{query}", json={"job": bounds(2, 8)}).status_code == 200
    until = datetime.fromisoformat(airflow_app.stored(asset, "requesters")["requirements"]["until"])
    assert timedelta(hours=2) <= until - before < timedelta(hours=2, minutes=1)
    asked = airflow_app.client().get(f"{API}/jobs/departures").json()["asked"]["requirements"]
    assert datetime.fromisoformat(asked["until"]) == until


def test_bounds_may_be_set_until_a_time_in_any_zone(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.client().put(PATH, params={"until": "2999-01-31T18:00:00+01:00"}, json={"job": bounds(2, 8)})
    assert airflow_app.stored(asset, "requesters")["requirements"]["until"] == "2999-01-31T17:00:00+00:00"


def test_same_bounds_until_another_time_are_a_change_and_until_the_same_are_none(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    for until in ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z"):
        airflow_app.client().put(PATH, params={"until": until}, json={"job": bounds(2, 8)})
    assert len(airflow_app.audit()) == 2
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert len(airflow_app.audit()) == 3, "without an expiry they hold until they are lifted"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"for": "2h", "until": "2999-01-01T00:00:00Z"}, "give one of the two"),
        ({"for": "soon"}, "'soon' is no duration"),
        ({"for": "-2h"}, "must be longer than zero"),
        ({"for": ""}, "is no duration"),
        ({"until": "tomorrow"}, "is no time: give ISO 8601"),
        ({"until": "2999-01-01T00:00:00"}, "has no time zone: add Z"),
        ({"until": "1999-01-01T00:00:00Z"}, "lies in the past"),
    ],
)
def test_expiry_that_makes_no_sense_is_told_and_nothing_is_changed(
    airflow_app: AirflowApp, query: dict[str, str], told: str
) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client().put(PATH, params=query, json={"job": bounds(2, 8)})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:airflow-adaptive:problem:invalid-expiry")
    assert told in answer.json()["detail"]
    assert airflow_app.audit() == []


def test_bounds_that_have_expired_are_not_told_any_more_and_may_be_set_again(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    asked = {"requirements": {"by": "x", "at": "2013-01-01T00:00:00Z", "via": "CLI", "until": "2013-01-01T01:00:00Z"}}
    airflow_app.show(asset, {"requirements": {"job": bounds(2, 8)}, "requesters": asked})
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    assert airflow_app.client().get(PATH).json() == {"job": bounds(2, 8)}


def test_lifting_puts_every_bound_back_and_lifting_again_changes_nothing(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.client().put(PATH, json={"job": bounds(2, 8)})
    for _ in range(2):
        answer = airflow_app.client().delete(PATH, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.content) == (204, b"")
    assert airflow_app.stored(asset, "requirements") == {"job": bounds(-1, -1)}
    assert airflow_app.client().get(PATH).json() == {"job": bounds(1, 4)}
    assert len(airflow_app.audit()) == 2


def test_only_who_may_edit_the_dag_may_lift(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client("viewer").delete(PATH, headers={"Content-Type": "application/json"})
    assert answer.status_code == 403


def test_job_tells_whose_bounds_hold_and_what_its_policy_says(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, with_policy())
    details = airflow_app.client().get(f"{API}/jobs/departures").json()
    assert (details["bounds_by"]["kind"], details["bounds_by"]["source"]) == ("POLICY", "load")
    assert (details["policy"]["kind"], details["policy"]["advice"]["reason"]) == ("LoadPolicy", "busy")


def test_policy_that_is_not_understood_is_absent(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, {"policy": {"kind": 7}})
    assert airflow_app.client().get(f"{API}/jobs/departures").json()["policy"] is None


@pytest.mark.parametrize(("dry_run", "told"), [(False, (2, 3)), (True, (1, 4))])
def test_bounds_that_were_lifted_are_those_of_the_policy_unless_it_only_tells(
    airflow_app: AirflowApp, dry_run: bool, told: tuple[int, int]
) -> None:
    asset = place(airflow_app, executing().when_requirements(2, 3))
    airflow_app.show(asset, {"requirements": {"job": bounds(-1, -1)}, **with_policy(2, 3, dry_run=dry_run)})
    assert airflow_app.client().get(PATH).json() == {"job": bounds(*told)}
