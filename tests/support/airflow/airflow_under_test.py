"""An embedded Airflow that tests damage, and a client with the actions and observations that only tests need."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from airflow_adaptive._airflow.internals import has
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
from airflow_adaptive._airflow.store.variables_and_xcoms import decode, encode, variable_key, xcom_key
from airflow_adaptive._core.view import TaskKey, is_published
from airflow_adaptive.local.airflow import AirflowApi, Component, Config, LocalAirflow, LocalAirflowError, _task, merged

RESTART_GRACE_S = 30.0
"""Time for a component to end by itself. The triggerer needs 10 s to stop its triggers."""


class AirflowObserver(AirflowApi):
    """More actions of a user, and observations. Every method raises `httpx.HTTPError` if the request fails."""

    def __init__(self, api: AirflowApi) -> None:
        """Use the connections of a logged-in client."""
        self.url, self._client = api.url, api._client

    def run_states(self, dag_id: str) -> list[str]:
        """Return the states of all runs of a DAG."""
        return [run["state"] for run in self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]]

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """Return the state of a task instance, None before the task instance is scheduled."""
        state: str | None = self._request("GET", _task(dag_id, run_id, task_id))["state"]
        return state

    def try_number(self, dag_id: str, run_id: str, task_id: str) -> int:
        """Return the number of the task instance's newest attempt, counted from 1; 0 before the first attempt."""
        return int(self._request("GET", _task(dag_id, run_id, task_id))["try_number"])

    def xcoms(self, dag_id: str, run_id: str, task_id: str) -> list[Any]:
        """Return the keys and values of all XComs."""
        entries = self._request("GET", f"{_task(dag_id, run_id, task_id)}/xcomEntries?limit=1000")["xcom_entries"]
        keys = [entry["key"] for entry in entries]
        return [(key, self.xcom(dag_id, run_id, task_id, key)) for key in keys]

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """Return the extra links of a task instance as a mapping of name to address."""
        links: dict[str, str | None] = self._request("GET", f"{_task(dag_id, run_id, task_id)}/links")["extra_links"]
        return links

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task instance as failed, success or skipped. Airflow ends a running or deferred task instance."""
        self._request("PATCH", _task(dag_id, run_id, task_id), {"new_state": state})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task instance in any state, so that it runs again."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self._request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def asset_state(self, asset: str, key: str) -> Any:
        """Return the value of a key in an asset's state store, None if the key does not exist.

        Before Airflow 3.3, the value is the document of a job in a Variable, or in an XCom of the task of the job.

        Raises:
            LookupError: no DAG names the asset.
        """
        asset_id = self._asset_id(asset)
        if has("AssetStateStoreAccessor"):
            entry = self._find(f"/api/v2/assets/{asset_id}/state-store/{key}")
            return None if entry is None else entry["value"]
        if not is_published(key):
            entry = self._find(_variable(asset, key))
            decoded = None if entry is None else decode(variable_key(asset, key), entry["value"])
            return None if decoded is None else decoded[0]
        task = TaskKey.of_attempt(str(self.asset_state(asset, ATTEMPT)))
        return None if task is None else self.xcom(task.dag_id, task.run_id, task.task_id, xcom_key(key))

    def asset_events(self, dag_id: str) -> list[str]:
        """Return the URIs of the Assets for which tasks of a DAG have emitted events."""
        found = self._request("GET", f"/api/v2/assets/events?source_dag_id={dag_id}")["asset_events"]
        return [str(event["uri"]) for event in found]

    def set_asset_state(self, asset: str, key: str, value: Any) -> None:
        """Write a JSON value other than null to an asset's state store; before Airflow 3.3, to the Variable of a request.

        Raises:
            LookupError: no DAG names the asset.
        """
        asset_id = self._asset_id(asset)
        if has("AssetStateStoreAccessor"):
            self._request("PUT", f"/api/v2/assets/{asset_id}/state-store/{key}", {"value": value})
            return
        variable = {"key": variable_key(asset, key), "value": encode(variable_key(asset, key), value)}
        if self._find(_variable(asset, key)) is None:
            self._request("POST", "/api/v2/variables", variable)
        else:
            self._request("PATCH", _variable(asset, key), variable)

    def _asset_id(self, name: str) -> int:
        found = self._request("GET", f"/api/v2/assets?name_pattern={name}")["assets"]
        for asset in found:  # The pattern also matches names that only contain the pattern.
            if asset["name"] == name:
                return int(asset["id"])
        raise LookupError(f"no asset {name!r} on {self.url}: it must be an inlet or outlet of a task of an active DAG")


def _variable(asset: str, key: str) -> str:
    return f"/api/v2/variables/{variable_key(asset, key)}"


class AirflowUnderTest(LocalAirflow):
    """An Airflow whose components tests kill and restart."""

    @property
    def api(self) -> AirflowObserver:
        """A logged-in client of the REST API."""
        return AirflowObserver(super().api)

    def configure(self, config: Config) -> None:
        """Change options of `airflow.cfg` for the next start."""
        self._config = merged(self._config, config)

    def command(self, *words: str) -> None:
        """Run a command of Airflow's command line, such as `db clean`.

        Raises:
            LocalAirflowError: the command fails. The message contains the end of its output.
        """
        command = [self.python, "-m", "airflow", *words]
        ran = subprocess.run(command, env=self._environment, check=False, capture_output=True, text=True)
        if ran.returncode:
            raise LocalAirflowError(f"{' '.join(words)} failed:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")

    def kill(self, component: Component) -> None:
        """Kill a component and its child processes (SIGKILL), as if the container of the component died."""
        process = self._process(component)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @contextmanager
    def hanging(self, component: Component) -> Iterator[None]:
        """Let a component and its child processes accept connections and answer nothing (SIGSTOP)."""
        process = self._process(component)
        os.killpg(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGCONT)

    def restart(self, component: Component) -> None:
        """Stop a component gracefully if it still runs, start it again and wait until it is healthy.

        Raises:
            LocalAirflowError: the component does not start. The message contains the end of the component's log.
        """
        process = self._process(component)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(RESTART_GRACE_S)
        self.kill(component)
        self._spawn(component)
        self._wait_until_healthy(component)

    def restart_if_ended(self, component: Component) -> None:
        """Start a component again if it has ended, as its process manager does in production.

        Raises:
            LocalAirflowError: the component does not start. The message contains the end of the component's log.
        """
        if self._process(component).poll() is not None:
            self.restart(component)

    def _process(self, component: Component) -> subprocess.Popen[bytes]:
        try:
            return self._processes[component]
        except KeyError:
            raise LocalAirflowError(f"{component} was not started: call start()") from None
