"""The real API server's app with real logins on a database of its own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.support.airflow_app import AirflowWorld

ENVIRONMENT = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,editor:user,viewer:viewer",
    "AIRFLOW__API_AUTH__JWT_SECRET": "a secret for tests, of which nobody else knows anything at all 0123456789",
}


@pytest.fixture(scope="session")
def airflow_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowWorld]:
    """One app for all tests: it takes some seconds to make."""
    home: Path = tmp_path_factory.mktemp("airflow_world")
    environment = {
        **ENVIRONMENT,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": f"{home}/passwords.json",
    }
    with mock.patch.dict(os.environ, environment):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Airflow's own, while it is imported and set up
            world = AirflowWorld.begin()
        yield world
    world.end()


@pytest.fixture
def world(airflow_world: AirflowWorld) -> Iterator[AirflowWorld]:
    """The app, with nothing in its database."""
    yield airflow_world
    airflow_world.clean()
