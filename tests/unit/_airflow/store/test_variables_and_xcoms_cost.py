"""What the documents of a job cost in Variables and XComs, beside the state store of Assets: calls, and statements of the real API server."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from airflow import settings
from airflow.sdk.api.client import Client
from airflow.sdk.execution_time import comms, task_runner
from sqlalchemy import event

from airflow_adaptive._airflow.store.asset_store import FINISH_TIMEOUT, AirflowJobStore
from airflow_adaptive._airflow.store.job_owner import record_attempt
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.view import TaskKey
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.airflow_versions import needs_state_store, remove_state_store
from tests.support.airflow.rest_api import get
from tests.unit._airflow.store.test_asset_store import VIEW, after_reads

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
