"""The types of the operator's arguments are those of the table of options and of Airflow."""

from __future__ import annotations

from inspect import signature

from airflow.sdk import DAG, BaseOperator

from airflow_adaptive._airflow.declaration.operator_arguments import OperatorArguments, SchedulerOptions
from airflow_adaptive._core.scheduler.config.options import OPTIONS
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
            task_id="t", job="j", application="/j.py", job_directory="file:///jobs", reactive=True
        )
    assert job.options == {"stop_timeout": "3 s", "reactive": True}
