"""The documents of a job in Airflow: one behavior in the state store of Assets, and in Variables and XComs before Airflow 3.3."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time import task_runner

from airflow_adaptive.runtime.publishing.documents import METRICS, SUMMARY
from airflow_adaptive.runtime.requirements.control_requests import DESIRED_STATE, HANDLED, REQUIREMENTS
from airflow_adaptive.stores.job_asset import JobStateStore, job_asset, job_name
from airflow_adaptive.stores.job_keys import ATTEMPT, BASE, OWNER
from airflow_adaptive.stores.job_owner import GATES, claim_name, record_attempt
from airflow_adaptive.stores.task_xcoms import TaskKey
from tests.lab.fleet.airflow.database import MetadataDatabase
from tests.lab.fleet.airflow.tables import TaskInstance
from tests.support.airflow.airflow_versions import remove_state_store

EARLIER = "before 3.3"
REQUEST = {"value": "suspended", "by": "alice", "via": "REST", "at": "2026-01-31T17:00:00+00:00"}
SINGLE = TaskKey(dag_id="flights", task_id="stream", run_id="r/1")
MAPPED = [TaskKey(dag_id="flights", task_id="copies", run_id="r/1", map_index=index) for index in range(2)]


@pytest.fixture(params=["3.3", EARLIER])
def airflow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MetadataDatabase:
    """The metadata database of an Airflow in which three tasks run."""
    found = database(monkeypatch)
    if request.param == EARLIER:
        remove_state_store(monkeypatch)
    return found


def database(monkeypatch: pytest.MonkeyPatch) -> MetadataDatabase:
    found = MetadataDatabase()
    found.tasks = {key: TaskInstance(key=key) for key in (SINGLE, *MAPPED)}
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=found.answer), raising=False)
    return found


def store(job: str, task: TaskKey) -> JobStateStore:
    """The documents of the job that a task runs, after the beginning of an attempt."""
    name = job_name(job, task)
    record_attempt(name, f"{task}/1")
    return job_asset(name).store_of(task)


def test_document_is_read_back_by_every_program(airflow: MetadataDatabase) -> None:
    for key, document in {
        SUMMARY: {"state": "Executing"},
        f"{METRICS}10": {"points": [[1, None]]},
        DESIRED_STATE: REQUEST,
    }.items():
        store("departures", SINGLE).set(key, document)
        for found in (store("departures", SINGLE), job_asset("departures").store):
            assert found.get(key) == document


def test_missing_document_is_the_default(airflow: MetadataDatabase) -> None:
    for found in (store("departures", SINGLE), job_asset("never_run").store):
        assert (found.get(DESIRED_STATE), found.get(SUMMARY, {})) == (None, {})


def test_jobs_share_no_document(airflow: MetadataDatabase) -> None:
    stores = [store("departures", task) for task in (SINGLE, *MAPPED[:1])] + [store("arrivals", MAPPED[1])]
    for key in (SUMMARY, REQUIREMENTS):
        for number, found in enumerate(stores):
            found.set(key, {"number": number})
        assert [found.get(key)["number"] for found in stores] == [0, 1, 2]


def test_requests_survive_a_cleared_task_and_deleted_xcoms(airflow: MetadataDatabase) -> None:
    found = store("departures", SINGLE)
    for key in (DESIRED_STATE, REQUIREMENTS, HANDLED):
        found.set(key, REQUEST)
    airflow.tasks[SINGLE].xcoms.clear()
    later = TaskKey(dag_id="flights", task_id="stream", run_id="r/2")
    airflow.tasks[later] = TaskInstance(key=later)
    assert [store("departures", later).get(key) for key in (DESIRED_STATE, REQUIREMENTS, HANDLED)] == [REQUEST] * 3


def test_claim_leaves_only_the_owner(airflow: MetadataDatabase) -> None:
    claim_name("departures", "flights/stream", None)
    found = job_asset("departures").store
    assert (found.get(OWNER), [found.get(gate) for gate in GATES]) == ("flights/stream", [None] * len(GATES))


def test_upgrade_to_airflow_3_3_keeps_requests_and_records(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = database(monkeypatch)
    with monkeypatch.context() as earlier:
        remove_state_store(earlier)
        found = store("departures", SINGLE)
        claim_name("departures", "flights/stream", None)
        for key, document in {DESIRED_STATE: REQUEST, BASE: "s3://jobs", SUMMARY: {"state": "Executing"}}.items():
            found.set(key, document)
        assert airflow.variables
    job_asset("departures").store.set(REQUIREMENTS, REQUEST)  # accepted after the upgrade
    for _ in range(2):
        job_asset("departures").move_into_state_store()
    expected = {
        DESIRED_STATE: REQUEST,
        REQUIREMENTS: REQUEST,
        BASE: "s3://jobs",
        OWNER: "flights/stream",
        ATTEMPT: f"{SINGLE}/1",
    }
    assert airflow.asset_states["adaptive://job/departures"] == expected
    assert not airflow.variables


def test_upgrade_that_is_interrupted_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = database(monkeypatch)
    with monkeypatch.context() as earlier:
        remove_state_store(earlier)
        store("departures", SINGLE).set(DESIRED_STATE, REQUEST)
    answers = airflow.answer
    for calls in range(1, 40):
        left = iter(range(calls))

        def answer(message: Any, left: Any = left) -> Any:
            if next(left, None) is None:
                raise ConnectionError
            return answers(message)

        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=answer))
        with suppress(ConnectionError):
            job_asset("departures").move_into_state_store()
    assert airflow.asset_states["adaptive://job/departures"] == {DESIRED_STATE: REQUEST, ATTEMPT: f"{SINGLE}/1"}
    assert not airflow.variables


def test_ids_that_are_too_long_for_a_variable_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    database(monkeypatch)
    remove_state_store(monkeypatch)
    with pytest.raises(ValueError, match=r"Variable 'airflow_adaptive:fleet:ddd.*use shorter ids"):
        job_asset(f"{'d' * 200}:task:{'j' * 60}").store.get(DESIRED_STATE)
