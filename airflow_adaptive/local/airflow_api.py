"""A small client of Airflow's REST API (v2), which starts, observes and changes DAG runs, and of the plugin's REST API."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Self

import httpx

TIMEOUT_S = 60.0
"""Timeout of a request. An API server with one worker is slow while the machine is busy."""

CONNECT_RETRIES = 3


class AirflowApi:
    """The actions of a user in Airflow's UI as methods. Every method raises `httpx.HTTPError` if the request fails.

    Attributes:
        url: address of the API server.
    """

    def __init__(self, url: str, token: str) -> None:
        """Create a client with a token. `log_in` creates a client with a user name and a password."""
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
        """Create a client for a user of Airflow's simple auth manager.

        Args:
            url: address of the API server, such as `http://127.0.0.1:8080`.
            username: name of the user.
            password: password of the user.
        """
        credentials = {"username": username, "password": password}
        answer = httpx.post(f"{url}/auth/token", json=credentials, timeout=TIMEOUT_S, trust_env=False)
        return cls(url, answer.raise_for_status().json()["access_token"])

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def has_dag(self, dag_id: str) -> bool:
        """Return whether Airflow has parsed the DAG."""
        return self._find(f"/api/v2/dags/{dag_id}") is not None

    def import_errors(self) -> list[str]:
        """Return the file and the stack trace of every DAG file that cannot be parsed."""
        errors = self._request("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace']}" for error in errors]

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Unpause a DAG and start a DAG run.

        Args:
            dag_id: ID of the DAG, which must have been parsed.
            conf: configuration of the DAG run; overrides the DAG's params.

        Returns:
            The ID of the DAG run.
        """
        self.unpause(dag_id)
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a DAG run: queued, running, success or failed."""
        return str(self._request("GET", _run(dag_id, run_id))["state"])

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:
        """Return the value of an XCom, None if the XCom does not exist."""
        entry = self._find(f"{_task(dag_id, run_id, task_id)}/xcomEntries/{key}?deserialize=true")
        return None if entry is None else entry["value"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """Return the log of an attempt and of its triggers, one event per line; "" if the attempt does not exist."""
        log = self._find(f"{_task(dag_id, run_id, task_id)}/logs/{try_number}?full_content=true")
        return "" if log is None else "\n".join(line for entry in log["content"] for line in _log_lines(entry))

    def suspend_job(self, job: str) -> None:
        """Request a graceful stop of an adaptive job. The job can be resumed afterwards."""
        self._request("POST", f"/adaptive/api/v1/jobs/{job}/suspend", {})

    def _find(self, path: str) -> Any:
        """Send a GET request and return the response, None if the resource does not exist (404)."""
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
    """Return the event and, if the entry contains an exception, the exception and its causes."""
    exceptions = entry.get("error_detail") or ()
    return [entry["event"], *(f"{error['exc_type']}: {error['exc_value']}" for error in exceptions)]
