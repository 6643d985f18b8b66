"""The documents of a job in Airflow: one behavior in the state store of Assets, and in Variables and XComs before Airflow 3.3."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_adaptive._airflow.internals import has
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.job_asset import (
    GATES,
    JobStateStore,
    claim_name,
    job_asset,
    job_name,
    record,
    recorded,
)
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, BASE, OWNER
from airflow_adaptive._airflow.store.variables_and_xcoms import variable_key
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE, HANDLED, REQUIREMENTS
from airflow_adaptive._core.view import METRICS, SUMMARY, TaskKey, Urls
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.publishing.publisher import job_view
from airflow_adaptive.triggers.job_state import AdaptiveJobEventTrigger
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.fleet.airflow.database import MetadataDatabase
from tests.lab.fleet.airflow.tables import TaskInstance
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_versions import EARLIER, needs_state_store, remove_state_store, stores

POSITION = {"rescales": 2, "restarts": 3, "attempt": "d/t/r/1", "outcome": None}

REQUEST = {"value": "suspended", "by": "alice", "via": "REST", "at": "2026-01-31T17:00:00+00:00"}
SINGLE = TaskKey(dag_id="flights", task_id="stream", run_id="r/1")
MAPPED = [TaskKey(dag_id="flights", task_id="copies", run_id="r/1", map_index=index) for index in range(2)]


@pytest.fixture(params=stores())
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
    record(name, ATTEMPT, f"{task}/1")
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


@needs_state_store
def test_upgrade_to_airflow_3_3_keeps_requests_and_records(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = database(monkeypatch)
    with monkeypatch.context() as earlier:
        remove_state_store(earlier)
        found = store("departures", SINGLE)
        claim_name("departures", "flights/stream", None)
        for key, document in {DESIRED_STATE: REQUEST, BASE: "s3://jobs", SUMMARY: {"state": "Executing"}}.items():
            found.set(key, document)
        asyncio.run(AdaptiveJobEventTrigger("departures", ["RESCALED"])._save(POSITION))
        assert airflow.variables
    job_asset("departures").store.set(REQUIREMENTS, REQUEST)  # accepted after the upgrade
    for _ in range(2):
        job_asset("departures").move_into_state_store()
    assert asyncio.run(AdaptiveJobEventTrigger("departures", ["RESCALED"])._restore()) == POSITION
    expected = {
        "position/RESCALED": POSITION,
        DESIRED_STATE: REQUEST,
        REQUIREMENTS: REQUEST,
        BASE: "s3://jobs",
        OWNER: "flights/stream",
        ATTEMPT: f"{SINGLE}/1",
    }
    assert airflow.asset_states["adaptive://job/departures"] == expected
    assert not airflow.variables


@needs_state_store
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


@pytest.mark.parametrize("other", [None, "42", '{"at": "2026-01-31T17:00:00+00:00", "document": {}}', "of another job"])
def test_value_of_a_secrets_backend_of_the_api_server_is_no_document(
    monkeypatch: pytest.MonkeyPatch, other: str | None
) -> None:
    airflow = database(monkeypatch)
    remove_state_store(monkeypatch)
    for found in (store("departures", SINGLE), store("arrivals", SINGLE)):
        found.set(DESIRED_STATE, REQUEST)
    (key,) = [key for key in airflow.variables if key.endswith(f"arrivals:{DESIRED_STATE}")]
    airflow.variables[variable_key("adaptive://job/departures", DESIRED_STATE)] = (
        airflow.variables[key] if other == "of another job" else other
    )
    with pytest.raises(StoreUnavailableError, match=r"departures:desired_state'.*variables_lookup_pattern"):
        job_asset("departures").store.get(DESIRED_STATE)


def test_secrets_backend_of_a_worker_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    database(monkeypatch)
    remove_state_store(monkeypatch)
    monkeypatch.setattr("airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", pytest.fail)
    found = store("departures", SINGLE)
    found.set(DESIRED_STATE, REQUEST)
    assert found.get(DESIRED_STATE) == REQUEST


@pytest.mark.parametrize("is_raised", [False, True])
def test_variable_that_airflow_cannot_read_now_is_not_missing(monkeypatch: pytest.MonkeyPatch, is_raised: bool) -> None:
    remove_state_store(monkeypatch)

    def answer(_: Any) -> ErrorResponse:
        error = ErrorResponse(error=ErrorType.API_SERVER_ERROR)
        if is_raised:
            raise AirflowRuntimeError(error)
        return error

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=answer), raising=False)
    with pytest.raises(AirflowRuntimeError):
        job_asset("departures").store.get(DESIRED_STATE)


def test_loop_publishes_again_after_a_downgrade_that_lost_all_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = database(monkeypatch)
    remove_state_store(monkeypatch)
    clock = ManualClock()

    async def publish() -> None:
        loop = AirflowJobStore("departures", SINGLE, clock, StoreAccess(clock))
        history = History(FakeJobDirectory(), "departures", 10)
        await loop.publish(job_view(Scenario().given_executing(2).state, history, Urls(), f"{SINGLE}/1"))
        await loop.finish()
        loop.close()

    asyncio.run(publish())
    assert job_asset("departures").store.get(SUMMARY)["state"] == "Executing"
    record("departures", ATTEMPT, f"{SINGLE}/2")
    asyncio.run(publish())
    assert recorded("departures", ATTEMPT) == f"{SINGLE}/2", "a newer attempt was recorded"
    assert len(airflow.variables) == 1


def test_ids_too_long_for_a_variable_are_named_before_airflow_3_3_only(airflow: MetadataDatabase) -> None:
    asset = job_asset(f"{'d' * 200}:task:{'j' * 60}")
    asset.move_into_state_store()
    is_refused = not has("AssetStateStoreAccessor")
    refused = pytest.raises(ValueError, match=r"Variable 'airflow_adaptive:fleet:ddd.*use shorter ids")
    with refused if is_refused else nullcontext():
        assert asset.store.get(DESIRED_STATE) is None


def test_documents_take_at_most_twice_as_many_calls_as_in_the_state_store(
    airflow: MetadataDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call for each document in the state store; a reader of a published document also reads the attempt, which names its XComs."""
    calls: list[Any] = []
    found = store("departures", SINGLE)

    def counted(message: Any) -> Any:
        calls.append(message)
        return airflow.answer(message)

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=counted))
    for key in (SUMMARY, f"{METRICS}10", DESIRED_STATE, REQUIREMENTS, HANDLED):
        for call in (partial(found.set, key, REQUEST), partial(found.get, key)):
            calls.clear()
            call()
            assert len(calls) == 1
        calls.clear()
        assert job_asset("departures").store.get(key) == REQUEST
        assert len(calls) <= 2
