"""The commands without Airflow's command line."""

from __future__ import annotations

import json

import pytest

from airflow_adaptive.__main__ import main
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.published_documents import executing, place


def test_module_runs_the_commands(airflow_app: AirflowApp, capsys: pytest.CaptureFixture[str]) -> None:
    place(airflow_app, executing())
    main(["requirements", "get", "departures", "-o", "json"])
    assert json.loads(capsys.readouterr().out)
    main(["suspend", "departures"])
    assert "departures" in capsys.readouterr().out


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["explode"])
    assert end.value.code == 2
    assert "invalid choice: 'explode'" in capsys.readouterr().err
