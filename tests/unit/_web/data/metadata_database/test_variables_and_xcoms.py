"""Variables with documents that Airflow cannot decrypt, or that contain something else, before Airflow 3.3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow.models import crypto
from airflow.models.variable import Variable
from cryptography.fernet import Fernet
from sqlalchemy import select

from airflow_adaptive._airflow.store.variables_and_xcoms import variable_key
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE, HANDLED
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.airflow_versions import needs_state_store, remove_state_store
from tests.support.airflow.published_documents import executing, place, suspended
from tests.support.airflow.rest_api import get

FIRST, SECOND = (Fernet.generate_key().decode() for _ in range(2))


@pytest.fixture(autouse=True)
def before_3_3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    remove_state_store(monkeypatch)
    use_keys(monkeypatch, FIRST)
    yield
    forget_keys(monkeypatch)


def use_keys(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """Start Airflow with these Fernet keys."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", ",".join(keys))
    forget_keys(monkeypatch)


def forget_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow read its Fernet keys again. Airflow 3.1 keeps them in a variable of the module."""
    monkeypatch.setattr(crypto, "_fernet", None, raising=False)
    getattr(crypto.get_fernet, "cache_clear", lambda: None)()


@pytest.mark.parametrize("keys", [(SECOND,), ()], ids=["another key", "no key"])
def test_changed_fernet_key_is_named_with_its_remedy_once(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, keys: tuple[str, ...]
) -> None:
    place(airflow_app, executing())
    use_keys(monkeypatch, *keys)
    caplog.clear()
    for _ in range(2):
        listed = get(airflow_app, "/jobs")
        assert [job["job"] for job in listed["jobs"]] == ["departures"]
        assert "[core] fernet_key does not contain" in listed["problem"]
        assert "rotate-fernet-key" in get(airflow_app, "/jobs/departures")["problem"]
    assert len([record for record in caplog.records if "fernet_key" in record.getMessage()]) <= 1


def test_earlier_fernet_key_beside_the_new_one_reads_all_documents(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(airflow_app, executing())
    expected = get(airflow_app, "/jobs/departures")
    use_keys(monkeypatch, SECOND, FIRST)
    found = get(airflow_app, "/jobs/departures")
    assert (found["state"], found["problem"]) == (expected["state"], None)


def test_request_is_accepted_with_another_fernet_key(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    place(airflow_app, executing())
    use_keys(monkeypatch, SECOND)
    answer = airflow_app.client().post(f"{API}/jobs/departures/cancel", json={})
    assert answer.status_code == 202, answer.text
    use_keys(monkeypatch, SECOND, FIRST)
    assert get(airflow_app, "/jobs/departures")["desired_state"] == "canceled"


def test_edited_variable_is_named(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    with airflow_app.session() as session:
        key = variable_key("adaptive://job/departures", HANDLED)
        session.scalar(select(Variable).where(Variable.key == key)).set_val("42")
    assert f"Variable '{key}' has another value" in get(airflow_app, "/jobs/departures")["problem"]


@needs_state_store
def test_suspended_job_is_found_and_resumed_after_an_upgrade_to_airflow_3_3(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task and no loop has moved its documents. They have the time of the upgrade."""
    asset = place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success")
    before = [get(airflow_app, path) for path in ("/jobs", "/jobs/departures")]
    monkeypatch.undo()
    use_keys(monkeypatch, FIRST)
    assert [get(airflow_app, path) for path in ("/jobs", "/jobs/departures")] == before
    answer = airflow_app.client().post(f"{API}/jobs/departures/resume", json={})
    assert answer.status_code == 202, answer.text
    assert airflow_app.requested(asset, DESIRED_STATE) == "running"
    assert get(airflow_app, "/jobs/departures")["desired_state"] == "running"


def test_long_ids_of_another_job_do_not_hide_the_list(airflow_app: AirflowApp) -> None:
    airflow_app.declare_asset(f"adaptive://fleet/{'d' * 200}/{'t' * 60}", dag_id="d" * 200, task_id="t" * 60)
    place(airflow_app, executing())
    assert [job["job"] for job in get(airflow_app, "/jobs")["jobs"]] == ["departures"]
