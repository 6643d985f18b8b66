"""One real Airflow that is started, used, damaged and stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from airflow_adaptive.local import guardian
from airflow_adaptive.local.airflow import (
    AirflowApi,
    Component,
    LocalAirflowError,
)
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest

TIMEOUT_S = 240.0

ECHO = dedent(
    """
    from airflow.sdk import DAG, Asset, task

    with DAG("echo", schedule=None, params={"fail": False}):

        @task(inlets=[Asset("echoed")])
        def say(params=None, inlet_events=None):
            if params["fail"]:
                raise ValueError("told to fail")
            return {"words": [1, "two"]}

        say()
    """
)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowUnderTest]:
    """A real Airflow with one DAG."""
    directory = tmp_path_factory.mktemp("airflow")
    dags = directory / "dags"
    dags.mkdir()
    (dags / "echo.py").write_text(ECHO)
    (dags / "broken.py").write_text("from airflow.sdk import DAG, nothing_of_that_name\n")
    with AirflowUnderTest(directory / "home", dags) as running:
        wait_until(lambda: running.api.has_dag("echo"), TIMEOUT_S, "DAG 'echo'")
        yield running


def run_to_its_end(api: AirflowApi, conf: dict[str, object]) -> tuple[str, str]:
    run_id = api.trigger("echo", conf)
    wait_until(lambda: api.run_state("echo", run_id) in {"success", "failed"}, TIMEOUT_S, f"end of {run_id}")
    return run_id, api.run_state("echo", run_id)


@pytest.mark.long
class TestRunningAirflow:
    def test_run_succeeds_with_its_xcom_and_log(self, airflow: AirflowUnderTest) -> None:
        run_id, state = run_to_its_end(airflow.api, {})
        assert state == airflow.api.task_state("echo", run_id, "say") == "success"
        assert airflow.api.xcom("echo", run_id, "say", "return_value") == {"words": [1, "two"]}
        assert airflow.api.xcom("echo", run_id, "say", "nothing") is None
        assert "Returned value was" in airflow.api.task_log("echo", run_id, "say")

    def test_cleared_task_runs_again(self, airflow: AirflowUnderTest) -> None:
        run_id, state = run_to_its_end(airflow.api, {"fail": True})
        assert state == "failed"
        assert "ValueError: told to fail" in airflow.api.task_log("echo", run_id, "say")
        assert airflow.api.task_log("echo", run_id, "say", try_number=2) == ""
        airflow.api.clear_task("echo", run_id, "say")
        wait_until(lambda: airflow.api.try_number("echo", run_id, "say") == 2, TIMEOUT_S, "second attempt")

    def test_broken_dag_is_reported(self, airflow: AirflowUnderTest) -> None:
        errors = wait_until(airflow.api.import_errors, TIMEOUT_S, "import error")
        assert ["nothing_of_that_name" in error for error in errors] == [True]

    def test_asset_state_is_read_back(self, airflow: AirflowUnderTest) -> None:
        assert airflow.api.asset_state("echoed", "desired_state") is None
        airflow.api.set_asset_state("echoed", "desired_state", {"value": "suspended"})
        assert airflow.api.asset_state("echoed", "desired_state") == {"value": "suspended"}
        with pytest.raises(LookupError, match="'unknown'"):
            airflow.api.set_asset_state("unknown", "desired_state", {"value": "suspended"})

    def test_login_without_the_password_is_rejected(self, airflow: AirflowUnderTest) -> None:
        assert httpx.get(f"{airflow.url}/api/v2/dags", timeout=TIMEOUT_S).status_code == 401
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            AirflowApi.log_in(airflow.url, "admin", "guessed")

    def test_runs_go_on_when_a_killed_component_was_restarted(self, airflow: AirflowUnderTest) -> None:
        airflow.kill(Component.SCHEDULER)
        airflow.restart(Component.SCHEDULER)
        _, state = run_to_its_end(airflow.api, {})
        assert state == "success"


def test_component_that_does_not_start_is_reported_with_its_log_and_nothing_is_left(tmp_path: Path) -> None:
    broken = AirflowUnderTest(tmp_path / "home", tmp_path, config={"core": {"executor": "NoSuchExecutor"}})
    with pytest.raises(LocalAirflowError, match="NoSuchExecutor"):
        broken.start()
    assert guardian.marked(broken._mark) == []
