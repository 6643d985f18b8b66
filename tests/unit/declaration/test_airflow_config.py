"""Section `[adaptive]` of airflow.cfg."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_adaptive.declaration.airflow_config import configured_options
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.errors import OptionError
from airflow_adaptive.scheduler.policies.restart_backoff import FixedDelay


def test_deployment_that_sets_nothing_has_the_defaults() -> None:
    assert Options.of(configured_options()) == Options()


def test_deployment_sets_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__STOP_TIMEOUT", "7 s")
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__RESTART_STRATEGY", '{"type": "fixed-delay", "attempts": 3}')
    options = Options.of(configured_options())
    assert options.stop_timeout == timedelta(seconds=7)
    assert options.restart_strategy == FixedDelay(attempts=3)


def test_broken_mapping_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__RESTART_STRATEGY", '{"type": ')
    with pytest.raises(OptionError, match=r"\[adaptive\] restart_strategy"):
        configured_options()


def test_defaults_that_airflow_reports_do_not_hide_those_of_a_reactive_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__REACTIVE", "true")
    assert Options.of(configured_options()).resource_wait_timeout is None
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__RESOURCE_WAIT_TIMEOUT", "7 min")
    assert Options.of(configured_options()).resource_wait_timeout == timedelta(minutes=7)


def test_misspelled_option_names_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__STOP_TIMOUT", "7 s")
    message = r"^\[adaptive\] in airflow.cfg has no option 'stop_timout': did you mean 'stop_timeout'\?$"
    with pytest.raises(OptionError, match=message):
        configured_options()
