"""The real API server's app with real logins on a database of its own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.airflow_versions import EARLIER, remove_state_store, stores
from tests.support.databases.fixtures import SQLITE

ENVIRONMENT = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,editor:user,viewer:viewer",
    "AIRFLOW__API_AUTH__JWT_SECRET": "a secret for tests, that only these tests use, at least 64 bytes, 0123456789",
}


@pytest.fixture(scope="session")
def shared_airflow_app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AirflowApp]:
    """One app for all tests, on the database that the option --database selects: it takes some seconds to make."""
    home: Path = tmp_path_factory.mktemp("shared_airflow_app")
    is_sqlite = request.config.getoption("database") == SQLITE
    environment = {
        **ENVIRONMENT,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": (
            f"sqlite:///{home}/airflow.db"
            if is_sqlite
            else request.getfixturevalue("postgresql").create_database("app")
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": f"{home}/passwords.json",
    }
    with mock.patch.dict(os.environ, environment):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Airflow's own, while it is imported and set up
            airflow_app = AirflowApp.begin()
        yield airflow_app
    airflow_app.end()


@pytest.fixture
def airflow_app(shared_airflow_app: AirflowApp) -> Iterator[AirflowApp]:
    """The app, with nothing in its database."""
    yield shared_airflow_app
    shared_airflow_app.clean()


@pytest.fixture(params=stores())
def either_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of jobs in the state store of Assets, and in Variables and XComs."""
    if request.param == EARLIER:
        remove_state_store(monkeypatch)
