"""A real Airflow on 127.0.0.1: API server, scheduler, triggerer and DAG processor, each in a process of its own.

The Airflow uses SQLite, the LocalExecutor, a generated password and free ports, and reads nothing from the user's own Airflow.
A guardian process (`guardian.py`) ends every process when the Airflow is stopped, and also when the owner process dies for any
reason. The module uses only Airflow's command line and REST API.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import httpx

from airflow_adaptive.local import guardian
from airflow_adaptive.local.cluster import HOST, free_port
from airflow_adaptive.local.guardian import Guard, spawn
from airflow_adaptive.local.waiting import wait_until

USERNAME = "admin"

HTTP_TIMEOUT_S = 30.0

START_TIMEOUT_S = 300.0
"""Maximum time until every component is healthy."""

STOP_GRACE_S = 3.0
"""Time for processes to end by themselves before they are killed."""

LOG_TAIL_CHARACTERS = 2000

DATABASE_FILE = "airflow.db"

PASSWORD_FILE = "simple_auth_manager_passwords.json.generated"
"""File of the simple auth manager. The simple auth manager generates a password only for a user without a password."""

Config = Mapping[str, Mapping[str, str]]
"""Airflow's configuration: section -> option -> value."""


class Component(StrEnum):
    """A process of Airflow. The value is the command that starts the process."""

    API_SERVER = "api-server"
    SCHEDULER = "scheduler"
    TRIGGERER = "triggerer"
    DAG_PROCESSOR = "dag-processor"


ARGUMENTS: Mapping[Component, tuple[str, ...]] = {
    Component.API_SERVER: ("--workers", "1"),
    # The log servers would bind all interfaces. They are not needed, because all components share one disk.
    Component.SCHEDULER: ("--skip-serve-logs",),
    Component.TRIGGERER: ("--skip-serve-logs",),
    Component.DAG_PROCESSOR: (),
}


class LocalAirflowError(RuntimeError):
    """Airflow cannot do what was requested. The message names the fix or contains the log."""


class LocalAirflow:
    """A context manager that starts, damages and stops an Airflow.

    Attributes:
        home: the AIRFLOW_HOME, with `airflow.cfg`, the database, and a log of each component in `logs/`.
        url: address of the web UI and the REST API.
        password: password of the only user, `admin`.
        python: interpreter that runs Airflow.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        *,
        config: Config | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Describe an Airflow. `start` starts the Airflow.

        Args:
            home: directory of all files; created if missing, otherwise reused.
            dags_folder: directory of the DAGs.
            config: options that override the defaults of this module.
            env: environment variables of all components, such as `AIRFLOW_CONN_...`, that override the caller's.
        """
        self.home = home.resolve()
        self.url = f"http://{HOST}:{free_port()}"
        self.password = secrets.token_urlsafe()
        self.python = sys.executable
        self._config = merged(default_config(self.home, dags_folder.resolve(), self.url), config or {})
        self._extra_environment = dict(env or {})
        self._mark = uuid.uuid4().hex
        self._guard: Guard | None = None
        self._processes: dict[Component, subprocess.Popen[bytes]] = {}
        self._started: dict[Component, datetime] = {}
        self._api: AirflowApi | None = None

    @property
    def api(self) -> AirflowApi:
        """A logged-in client of the REST API."""
        if self._api is None:
            raise LocalAirflowError("Airflow is not running: call start()")
        return self._api

    @property
    def password_file(self) -> Path:
        """The file that contains the password of the user `admin`."""
        return self.home / PASSWORD_FILE

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Create the database, start all components and wait until each component is healthy.

        Raises:
            LocalAirflowError: a component does not start. The message contains the end of the component's log.
        """
        if self._guard is not None:
            raise LocalAirflowError("this Airflow runs already: call stop() first")
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._prepare()
            self._migrate()
            for component in Component:
                self._spawn(component)
            self._wait_until_healthy(*Component)
            self._api = AirflowApi.log_in(self.url, USERNAME, self.password)
            undo.pop_all()

    def stop(self) -> None:
        """End all processes, including running tasks. Does nothing if the Airflow is stopped."""
        if self._guard is None:
            return
        if self._api is not None:
            self._api.close()
            self._api = None
        self._guard.end()
        for process in self._processes.values():
            process.wait()
        self._guard = None
        self._processes.clear()

    @property
    def _environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW_"))}
        return {
            **own,
            guardian.MARK_VARIABLE: self._mark,
            "AIRFLOW_HOME": str(self.home),
            "NO_PROXY": f"{HOST},localhost",
            "SPT_NOENV": "1",  # Otherwise setproctitle overwrites the environment, and the mark in it.
            **self._extra_environment,
        }

    def _prepare(self) -> None:
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        write_private(self.home / "airflow.cfg", as_text(self._config))
        write_private(self.password_file, json.dumps({USERNAME: self.password}))
        self._guard = Guard(self._mark, STOP_GRACE_S)

    def _migrate(self) -> None:
        process = self._run("db", "migrate")
        if process.wait(START_TIMEOUT_S) != 0:
            raise LocalAirflowError(f"the database cannot be created:\n{self._log_tail('db')}")
        if (file := self.home / DATABASE_FILE).exists():  # `config` may name another database.
            with closing(sqlite3.connect(file)) as database:
                database.execute(
                    "PRAGMA journal_mode = WAL"
                )  # The mode is persistent. Readers do not block the writer.

    def _spawn(self, component: Component) -> None:
        self._started[component] = datetime.now(UTC)
        self._processes[component] = self._run(component, *ARGUMENTS[component])

    def _run(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log(command).open("ab") as log:
            return spawn([self.python, "-m", "airflow", command, *arguments], log, self._environment, self.home)

    def _wait_until_healthy(self, *components: Component) -> None:
        def healthy_or_ended() -> bool:
            return self._ended(*components) is not None or self._healthy(*components)

        try:
            wait_until(healthy_or_ended, START_TIMEOUT_S, f"start of Airflow's {', '.join(components)}")
        except TimeoutError as error:
            raise LocalAirflowError(f"{error}; see the logs in {self.home / 'logs'}") from error
        if (ended := self._ended(*components)) is not None:
            raise LocalAirflowError(f"Airflow's {ended} ended; its log ends with:\n{self._log_tail(ended)}")

    def _ended(self, *components: Component) -> Component | None:
        return next((component for component in components if self._processes[component].poll() is not None), None)

    def _healthy(self, *components: Component) -> bool:
        with suppress(httpx.TransportError, httpx.HTTPStatusError, ValueError):
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=HTTP_TIMEOUT_S, trust_env=False)
            report = health.raise_for_status().json()
            return all(self._has_heartbeat(component, report) for component in components)
        return False

    def _has_heartbeat(self, component: Component, report: Mapping[str, Any]) -> bool:
        """Return whether the component has sent a heartbeat since its last start."""
        if component is Component.API_SERVER:
            return True  # The API server has answered the request.
        name = component.replace("-", "_")
        heartbeat: str | None = report[name][f"latest_{name}_heartbeat"]
        return heartbeat is not None and datetime.fromisoformat(heartbeat) >= self._started[component]

    def _log(self, command: str) -> Path:
        return self.home / "logs" / f"{command}.log"

    def _log_tail(self, command: str) -> str:
        return self._log(command).read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


def default_config(home: Path, dags_folder: Path, url: str) -> Config:
    """Return the configuration of a small Airflow for one user, which reacts quickly and sends nothing to the network."""
    return {
        "core": {
            "dags_folder": str(dags_folder),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": "4",
            "execution_api_server_url": f"{url}/execution/",
            "simple_auth_manager_users": f"{USERNAME}:admin",
            "hostname_callable": "socket.gethostname",  # The default queries the name servers.
            "fernet_key": "",
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{home / DATABASE_FILE}?timeout=30"},
        "api": {
            "host": HOST,
            "port": url.rpartition(":")[2],
            "base_url": url,
            "secret_key": secrets.token_urlsafe(),
        },
        "api_auth": {"jwt_secret": secrets.token_urlsafe()},
        "logging": {"base_log_folder": str(home / "logs"), "colored_console_log": "False"},
        "workers": {"min_heartbeat_interval": "1"},  # The default reports the end of a task up to 5 s late.
        "scheduler": {"scheduler_idle_sleep_time": "0.2", "scheduler_heartbeat_sec": "2"},
        "triggerer": {"job_heartbeat_sec": "2"},
        "dag_processor": {"refresh_interval": "5", "min_file_process_interval": "60", "parsing_processes": "1"},
        "usage_data_collection": {"enabled": "False"},
    }


def merged(config: Config, override: Config) -> Config:
    """Return the options of both configurations. `override` takes precedence."""
    return {section: {**config.get(section, {}), **override.get(section, {})} for section in {**config, **override}}


def as_text(config: Config) -> str:
    """Format the configuration as `airflow.cfg`. Each `%` is escaped as `%%` because Airflow interpolates values."""
    lines: list[str] = []
    for section, options in config.items():
        lines += [f"[{section}]", *(f"{name} = {value.replace('%', '%%')}" for name, value in options.items()), ""]
    return "\n".join(lines)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read at any time."""
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)


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
