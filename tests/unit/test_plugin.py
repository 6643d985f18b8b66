"""Airflow finds the plugin, and only its API server pays for it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, version
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from airflow_adaptive.plugin import AdaptivePlugin
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.repository import ROOT


def test_plugin_is_found_by_its_entry_point() -> None:
    (ours,) = [entry for entry in entry_points(group="airflow.plugins") if entry.name == "airflow_adaptive"]
    assert ours.load() is AdaptivePlugin


@pytest.mark.long
def test_other_processes_import_no_fastapi_code_of_ours() -> None:
    """Every process of Airflow imports plugins; what Airflow itself imports is its own affair."""
    code = (
        "import sys; import airflow_adaptive.plugin as plugin; plugin.AdaptivePlugin().external_views;"
        "print([name for name in sys.modules if name.startswith(('airflow_adaptive.plugin', 'airflow_adaptive._web'))])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout.splitlines()[-1] == "['airflow_adaptive.plugin']"


def test_airflow_lists_the_pages_and_nothing_is_wrong(airflow_app: AirflowApp) -> None:
    client = airflow_app.client("admin")
    assert client.get("/api/v2/plugins/importErrors").json()["import_errors"] == []
    (plugin,) = [one for one in client.get("/api/v2/plugins").json()["plugins"] if one["name"] == "airflow_adaptive"]
    views = {view["destination"]: view["href"] for view in plugin["external_views"]}
    assert views == {
        "nav": "adaptive/ui/",
        "task_instance": "adaptive/ui/?dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}",
    }


@pytest.mark.parametrize("view", AdaptivePlugin.external_views)
def test_pages_are_found_behind_a_prefix(view: dict[str, str]) -> None:
    assert not view["href"].startswith("/")
    assert not view["url_route"].startswith("/")


# ---- a version of Airflow that does not fit -------------------------------------------------------------------------


@pytest.fixture
def unavailable_client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Client of the app of a plugin whose REST API cannot be imported, because Airflow has moved an internal module."""
    from starlette.testclient import TestClient  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "airflow_adaptive._web.api.app", None)
    (found,) = AdaptivePlugin().fastapi_apps
    assert found["url_prefix"] == "/adaptive"
    return TestClient(found["app"])


def test_page_explains_an_error_of_the_import(unavailable_client: Any, caplog: pytest.LogCaptureFixture) -> None:
    page = unavailable_client.get("/ui/")
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "The page of adaptive jobs is not available" in page.text
    assert version("apache-airflow-core") in page.text
    assert "ModuleNotFoundError" in page.text
    assert "cannot be loaded" in caplog.get_records("setup")[-1].message


def test_rest_api_explains_an_error_of_the_import(unavailable_client: Any) -> None:
    problem = unavailable_client.put("/api/v1/jobs/departures/resource-requirements", json={})
    assert (problem.status_code, problem.headers["content-type"]) == (503, "application/problem+json")
    assert problem.json()["type"] == "urn:airflow-adaptive:problem:unavailable"


def test_error_of_the_app_does_not_stop_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal function of Airflow has another signature, so the creation of the app fails."""
    from airflow_adaptive._web.api import app  # noqa: PLC0415

    monkeypatch.setattr(app, "create_app", lambda: 1 / 0)
    (found,) = AdaptivePlugin().fastapi_apps
    assert found["app"] is not None


def test_error_of_the_timetable_does_not_stop_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow_adaptive.timetables.rescale_policy", None)
    assert AdaptivePlugin().timetables == []


def test_version_of_airflow_has_an_upper_bound() -> None:
    """The plugin uses internal modules of Airflow, which the next minor version may move."""
    (airflow,) = [
        name
        for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        if name.startswith("apache-airflow>")
    ]
    tested = SpecifierSet(airflow.removeprefix("apache-airflow"))
    assert version("apache-airflow-core") in tested
    assert "3.4.0" not in tested
