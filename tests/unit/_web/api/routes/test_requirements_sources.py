"""The expiry and the removal of an override, and the source of the active bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place
from tests.support.airflow.rest_api import bounds, with_policy

PATH = f"{API}/jobs/departures/resource-requirements"


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
    for until in ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z"):
        airflow_app.client().put(PATH, params={"until": until}, json={"job": bounds(2, 8)})
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


def test_only_users_who_may_edit_the_dag_may_clear_the_override(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client("viewer").delete(PATH, headers={"Content-Type": "application/json"})
    assert answer.status_code == 403


def test_job_reports_whose_bounds_hold_and_what_its_policy_states(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, with_policy())
    details = airflow_app.client().get(f"{API}/jobs/departures").json()
    assert (details["requirements_source"]["origin"], details["requirements_source"]["name"]) == ("POLICY", "load")
    assert (details["policy"]["kind"], details["policy"]["advice"]["reason"]) == ("LoadPolicy", "busy")


def test_policy_that_is_not_understood_is_absent(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, {"policy": {"kind": 7}})
    assert airflow_app.client().get(f"{API}/jobs/departures").json()["policy"] is None
