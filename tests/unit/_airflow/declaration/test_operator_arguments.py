"""The options of the scheduler: in the signature of the operator and in section `[adaptive]` of airflow.cfg."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from inspect import signature
from typing import Final

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.configuration import AirflowSDKConfigParser

from airflow_adaptive._airflow.declaration import operator_arguments
from airflow_adaptive._airflow.declaration.operator_arguments import (
    OperatorArguments,
    SchedulerOptions,
    configured_options,
    is_deferral_off,
)
from airflow_adaptive._core.scheduler.config.options import OPTIONS, Options
from airflow_adaptive._core.scheduler.errors import OptionError
from airflow_adaptive._core.scheduler.policies.restart_backoff import FixedDelay
from airflow_adaptive.operators import AdaptiveSparkOperator

BASE = {*signature(BaseOperator.__init__).parameters} - {"self", "kwargs"}


def test_every_option_has_a_type() -> None:
    assert {*SchedulerOptions.__annotations__} == {*OPTIONS}


def test_every_argument_of_airflow_has_a_type() -> None:
    assert {*OperatorArguments.__annotations__} - {*OPTIONS} == BASE


def test_options_are_parameters_of_the_constructor() -> None:
    parameters = signature(AdaptiveSparkOperator.__init__).parameters
    assert {name: parameters[name].default for name in OPTIONS} == {it.name: it.default for it in OPTIONS.values()}


def test_only_options_that_are_set_reach_the_job() -> None:
    with DAG("flights", default_args={"stop_timeout": "3 s"}):
        job = AdaptiveSparkOperator(
            task_id="t", job="j", application="/j.py", job_directory="file:///jobs", parallelism=4, reactive=True
        )
    assert job.options == {"stop_timeout": "3 s", "reactive": True}


DEFAULT_DEFERRABLE: Final = "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"


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


GENERATED = "[operators]\ndefault_owner = airflow\ndefault_deferrable = false\ndefault_queue = default\n"
"""A part of the airflow.cfg that Airflow generates."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Use the text as airflow.cfg."""
    monkeypatch.delenv(DEFAULT_DEFERRABLE, raising=False)

    def read(text: str) -> None:
        parser = AirflowSDKConfigParser()
        parser.read_string(text)
        monkeypatch.setattr(operator_arguments, "conf", parser)
        operator_arguments._did_administrator_write.cache_clear()

    yield read
    operator_arguments._did_administrator_write.cache_clear()


@pytest.mark.parametrize(
    ("text", "is_off"),
    [
        ("", False),
        (GENERATED, False),
        ("[operators]\ndefault_deferrable = False\n", True),
        ("[operators]\ndefault_deferrable = True\n", False),
        ("[operators]\ndefault_owner = data-team\ndefault_deferrable = False\n", True),
        (GENERATED.replace("owner = airflow", "owner = data-team"), False),
        ("[operators]\ndefault_owner = data-team\n", False),
    ],
)
def test_file_turns_deferral_off_if_the_administrator_wrote_the_option(
    read: Callable[[str], None], text: str, is_off: bool
) -> None:
    read(text)
    assert is_deferral_off() is is_off


@pytest.mark.parametrize(("value", "is_off"), [("false", True), ("true", False)])
def test_environment_variable_takes_precedence_over_a_generated_file(
    read: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, value: str, is_off: bool
) -> None:
    read(GENERATED)
    monkeypatch.setenv(DEFAULT_DEFERRABLE, value)
    assert is_deferral_off() is is_off
