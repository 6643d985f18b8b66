"""A small client of Airflow's public REST API (v2): start runs, follow them, interfere with them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import httpx

TIMEOUT_S = 30.0
"""Of one request: an api-server with one worker is slow while the machine is busy."""

CONNECT_RETRIES = 3


class AirflowApi:
    """What a person does in Airflow's UI, as methods. Every method raises `httpx.HTTPError` if Airflow does not do it.

    Attributes:
        url: of the api-server.
    """

    def __init__(self, url: str, token: str) -> None:
        """Take note of where Airflow is and what opens it; see `log_in`."""
        self.url = url
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            transport=httpx.HTTPTransport(retries=CONNECT_RETRIES, trust_env=False),
            timeout=TIMEOUT_S,
            trust_env=False,
        )

    @classmethod
    def log_in(cls, url: str, username: str, password: str) -> Self:
        """A client for a user of Airflow's simple auth manager.

        Args:
            url: of the api-server, such as `http://127.0.0.1:8080`.
            username: of the user.
            password: of the user.
        """
        credentials = {"username": username, "password": password}
        answer = httpx.post(f"{url}/auth/token", json=credentials, timeout=TIMEOUT_S, trust_env=False)
        return cls(url, answer.raise_for_status().json()["access_token"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release connections."""
        self._client.close()

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG was parsed and is known."""
        return self._find(f"/api/v2/dags/{dag_id}") is not None

    def import_errors(self) -> list[str]:
        """File and stack trace of every DAG file that can't be parsed."""
        errors = self._request("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace']}" for error in errors]

    def unpause(self, dag_id: str) -> None:
        """Let a DAG run when its schedule says so."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Unpause a DAG and start a run of it.

        Args:
            dag_id: of the DAG; it must have been parsed.
            conf: the run's configuration; overrides the DAG's params.

        Returns:
            The run's id.
        """
        self.unpause(dag_id)
        body = {"logical_date": None, "conf": dict(conf or {})}
        run_id: str = self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        return run_id

    def run_states(self, dag_id: str) -> list[str]:
        """States of all runs of a DAG."""
        return [run["state"] for run in self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]]

    def run_state(self, dag_id: str, run_id: str) -> str:
        """State of a DAG run: queued, running, success or failed."""
        state: str = self._request("GET", _run(dag_id, run_id))["state"]
        return state

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """State of a task instance, None before it was scheduled."""
        state: str | None = self._request("GET", _task(dag_id, run_id, task_id))["state"]
        return state

    def try_number(self, dag_id: str, run_id: str, task_id: str) -> int:
        """Number of the task instance's newest attempt, from 1; 0 before the first."""
        number: int = self._request("GET", _task(dag_id, run_id, task_id))["try_number"]
        return number

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:
        """Value of an XCom, None if there is none under this key."""
        entry = self._find(f"{_task(dag_id, run_id, task_id)}/xcomEntries/{key}?deserialize=true")
        return None if entry is None else entry["value"]

    def xcoms(self, dag_id: str, run_id: str, task_id: str) -> list[Any]:
        """Keys and values of all XComs."""
        entries = self._request("GET", f"{_task(dag_id, run_id, task_id)}/xcomEntries?limit=1000")["xcom_entries"]
        keys = [entry["key"] for entry in entries]
        return [(key, self.xcom(dag_id, run_id, task_id, key)) for key in keys]

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """Extra links of a task instance, as its page shows them: name -> address."""
        links: dict[str, str | None] = self._request("GET", f"{_task(dag_id, run_id, task_id)}/links")["extra_links"]
        return links

    def fail_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a task instance as failed, as a person does; Airflow ends it if it runs or is deferred."""
        self._request("PATCH", _task(dag_id, run_id, task_id), {"new_state": "failed"})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task instance, as a person does: it runs again, whatever its state."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self._request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """Log of an attempt and of its triggers, one event a line; "" if there was no such attempt."""
        log = self._find(f"{_task(dag_id, run_id, task_id)}/logs/{try_number}?full_content=true")
        return "" if log is None else "\n".join(line for entry in log["content"] for line in _log_lines(entry))

    def asset_state(self, asset: str, key: str) -> Any:
        """Value under `key` of an asset's state store, None if there is none.

        Raises:
            LookupError: no DAG names the asset.
        """
        entry = self._find(f"/api/v2/assets/{self._asset_id(asset)}/state-store/{key}")
        return None if entry is None else entry["value"]

    def set_asset_state(self, asset: str, key: str, value: Any) -> None:
        """Write a JSON value, not null, to an asset's state store.

        Raises:
            LookupError: no DAG names the asset.
        """
        self._request("PUT", f"/api/v2/assets/{self._asset_id(asset)}/state-store/{key}", {"value": value})

    def _asset_id(self, name: str) -> int:
        found = self._request("GET", f"/api/v2/assets?name_pattern={name}")["assets"]
        for asset in found:  # the pattern also finds names that merely contain it
            if asset["name"] == name:
                asset_id: int = asset["id"]
                return asset_id
        raise LookupError(f"no asset {name!r} on {self.url}: it must be an inlet or outlet of a task of an active DAG")

    def _find(self, path: str) -> Any:
        """The answer to a GET, None if there is no such thing."""
        response = self._client.get(path)
        return None if response.status_code == HTTPStatus.NOT_FOUND else response.raise_for_status().json()

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        response = self._client.request(method, path, json=body).raise_for_status()
        return response.json() if response.content else None


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_run(dag_id, run_id)}/taskInstances/{task_id}"


def _log_lines(entry: Mapping[str, Any]) -> list[str]:
    """An event and, if it is about an exception, that one and its causes."""
    exceptions = entry.get("error_detail") or ()
    return [entry["event"], *(f"{error['exc_type']}: {error['exc_value']}" for error in exceptions)]
