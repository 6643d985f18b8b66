"""The documents of a job in Airflow: one behavior in the state store of Assets, and in Variables and XComs before Airflow 3.3."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from airflow import settings
from airflow.sdk.api.client import Client
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import comms, task_runner
from airflow.sdk.execution_time.comms import ErrorResponse
from sqlalchemy import event

from airflow_adaptive._airflow.store.asset_store import FINISH_TIMEOUT, AirflowJobStore
from airflow_adaptive._airflow.store.job_asset import JobStateStore, job_asset, job_name
from airflow_adaptive._airflow.store.job_owner import GATES, claim_name, record_attempt, recorded_attempt
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, BASE, OWNER
from airflow_adaptive._airflow.store.variables_and_xcoms import variable_key
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE, HANDLED, REQUIREMENTS
from airflow_adaptive._core.view import METRICS, SUMMARY, TaskKey, Urls
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.fleet.airflow.database import MetadataDatabase
from tests.lab.fleet.airflow.tables import TaskInstance
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.airflow_versions import EARLIER, needs_state_store, remove_state_store, stores
from tests.support.airflow.rest_api import get
from tests.unit._airflow.store.test_asset_store import VIEW, after_reads

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


@needs_state_store
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
    record_attempt("departures", f"{SINGLE}/2")
    asyncio.run(publish())
    assert recorded_attempt("departures") == f"{SINGLE}/2", "a newer attempt was recorded"
    assert len(airflow.variables) == 1


def test_ids_that_are_too_long_for_a_variable_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    database(monkeypatch)
    remove_state_store(monkeypatch)
    with pytest.raises(ValueError, match=r"Variable 'airflow_adaptive:fleet:ddd.*use shorter ids"):
        job_asset(f"{'d' * 200}:task:{'j' * 60}").store.get(DESIRED_STATE)


TASK = TaskKey(dag_id="flights", task_id="stream", run_id="r")
MOST = 2.0
"""Cost of the documents before Airflow 3.3, of one on 3.3."""


@cache
def api_server() -> Any:
    """Return the transport to the API server of this process, which stays until the end of the process: Airflow does not close its sockets."""
    from airflow.api_fastapi.execution_api.app import InProcessExecutionAPI  # noqa: PLC0415  Airflow 3.1 warns when it is imported.

    return InProcessExecutionAPI().transport


class Supervisor:
    """Executes the calls of the Task SDK on the API server.

    Attributes:
        calls: number of calls.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._client = Client(base_url="http://in-process.invalid./", token="", transport=api_server())
        self._lock = threading.Lock()

    def send(self, message: Any) -> Any:
        with self._lock:
            self.calls += 1
            del task_runner.SUPERVISOR_COMMS  # The API server has none.
            try:
                return self._answer(message)
            finally:
                task_runner.SUPERVISOR_COMMS = self  # type: ignore[assignment]

    def _answer(self, message: Any) -> Any:
        client = self._client
        task = [getattr(message, name, None) for name in ("dag_id", "run_id", "task_id", "key")]
        match message:
            case comms.GetVariable(key=key):
                return client.variables.get(key)
            case comms.PutVariable(key=key, value=value, description=description):
                return client.variables.set(key, value, description)
            case comms.GetXCom(map_index=index):
                return comms.XComResult(key=message.key, value=client.xcoms.get(*task, index).value)
            case comms.SetXCom(value=value, map_index=index):
                return client.xcoms.set(*task, value, index)
            case comms.GetAssetStateStoreByName(name=name, key=key):
                return client.asset_state_store.get(key, name=name)
            case comms.SetAssetStateStoreByName(name=name, key=key, value=value):
                client.asset_state_store.set(key, value, name=name)
                return comms.OKResponse(ok=True)
            case _:
                raise LookupError(type(message).__name__)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the statements of all engines."""
    found: Counter[str] = Counter()

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found[statement.split(maxsplit=1)[0]] += 1

    assert settings.async_engine is not None
    engines = (settings.engine, settings.async_engine.sync_engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", count)
    try:
        yield found
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", count)


async def run_for_two_minutes(supervisor: Supervisor) -> tuple[int, int]:
    """Run the store of a job whose state changes every 20 s, and return the number of calls and statements."""
    clock = ManualClock()
    store = AirflowJobStore("departures", TASK, clock, StoreAccess(clock))
    view = replace(VIEW, attempt=f"{TASK}/1")
    record_attempt("departures", view.attempt)
    supervisor.calls = 0
    with counted() as statements:
        for cycle in range(60):
            await after_reads(store)
            if cycle % 10 == 0:
                await store.publish(replace(view, restarts=cycle))
                await store._view_writer.finish(FINISH_TIMEOUT)
            if cycle % 5 == 0:
                await store.publish_metrics(
                    {"metrics/10": {"points": [[cycle] * 12] * 100}, "driver": {"at": str(cycle)}}
                )
                await store._metrics_writer.finish(FINISH_TIMEOUT)
            await clock.sleep(2)
        await store.finish()
        store.close()
    return supervisor.calls, statements.total()


@needs_state_store
def test_documents_cost_at_most_twice_as_much_as_in_the_state_store(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = []
    for is_earlier in (False, True):
        airflow_app.clean()
        airflow_app.declare("departures")
        airflow_app.run(run_id=TASK.run_id)
        with monkeypatch.context() as version:
            if is_earlier:
                remove_state_store(version)
            supervisor = Supervisor()
            version.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
            calls, statements = asyncio.run(run_for_two_minutes(supervisor))
            del task_runner.SUPERVISOR_COMMS
            pages = []
            for path in ("/jobs", "/jobs/departures"):
                get(airflow_app, path)
                with counted() as found:
                    assert "Executing" in str(get(airflow_app, path))
                pages.append(found.total())
            task_runner.SUPERVISOR_COMMS = supervisor  # type: ignore[assignment]
        costs.append((calls, statements, *pages))
    sys.stdout.write(f"calls, statements, statements of the list, of a job: 3.3 {costs[0]}, before {costs[1]}\n")
    for state_store, earlier in zip(*costs, strict=True):
        assert earlier <= MOST * state_store
