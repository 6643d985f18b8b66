"""Requests with wrong bounds, and jobs whose bounds cannot change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab.scenario import HOPELESS, Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import batch, executing, place, suspended
from tests.support.airflow.rest_api import bounds

PATH = f"{API}/jobs/departures/resource-requirements"
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


@pytest.mark.parametrize("declares_its_length", [True, False])
def test_body_of_ten_megabytes_is_refused(airflow_app: AirflowApp, declares_its_length: bool) -> None:
    asset = place(airflow_app, executing())
    pieces = (b" " * (1 << 20) for _ in range(10))
    answer = airflow_app.client().put(
        PATH,
        content=b" " * (10 << 20) if declares_its_length else pieces,
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["detail"]) == (413, "The body is larger than 64 KiB.")
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
