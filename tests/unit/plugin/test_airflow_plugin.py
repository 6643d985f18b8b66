"""Airflow finds the plugin, and only its API server pays for it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from airflow_adaptive.plugin.airflow_plugin import AdaptivePlugin
from tests.support.airflow.airflow_app import AirflowApp


def test_plugin_is_found_by_its_entry_point() -> None:
    (ours,) = [entry for entry in entry_points(group="airflow.plugins") if entry.name == "airflow_adaptive"]
    assert ours.load() is AdaptivePlugin


def test_other_processes_import_no_fastapi_code_of_ours() -> None:
    """Every process of Airflow imports plugins; what Airflow itself imports is its own affair."""
    code = (
        "import sys; import airflow_adaptive.plugin.airflow_plugin as plugin; plugin.AdaptivePlugin().external_views;"
        "print([name for name in sys.modules if name.startswith('airflow_adaptive.plugin')])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout.splitlines()[-1] == "['airflow_adaptive.plugin', 'airflow_adaptive.plugin.airflow_plugin']"


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
