"""A DAG that was written for `SparkSubmitOperator`."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_adaptive._airflow.declaration.spark_submit import INSTEAD
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator

OURS = signature(AdaptiveSparkOperator.__init__).parameters
THEIRS = set(signature(SparkSubmitOperator.__init__).parameters) - {"self", "kwargs"}


def make(**parameters: Any) -> AdaptiveSparkOperator:
    required: dict[str, Any] = {"task_id": "t", "job": "j", "application": "/job.py", "job_directory": "file:///jobs"}
    return AdaptiveSparkOperator(**required | parameters)


def test_each_parameter_exists_or_has_an_advice() -> None:
    assert THEIRS - set(OURS) == set(INSTEAD) & THEIRS
    assert not set(INSTEAD) & set(OURS)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_advice_is_an_error_of_the_dag_file(name: str) -> None:
    with pytest.raises(TypeError, match=f"^AdaptiveSparkOperator has no parameter '{name}': (leave it out|use )"):
        make(**{name: None})


def test_one_error_contains_all_parameters() -> None:
    with pytest.raises(TypeError, match="'num_executors': use parallelism.*; 'verbose': leave it out"):
        make(num_executors=2, verbose=True)


def test_templates_include_those_of_spark_submit_operator() -> None:
    assert set(SparkSubmitOperator.template_fields) - set(INSTEAD) <= set(AdaptiveSparkOperator.template_fields)


def test_error_of_a_rewritten_dag_names_missing_parameters_with_their_meaning_and_those_without_an_equivalent() -> None:
    """The user has replaced the name of the operator only."""
    rewritten: dict[str, Any] = {"task_id": "submit", "application": "/job.py", "num_executors": 2}
    with pytest.raises(TypeError) as raised:
        AdaptiveSparkOperator(**rewritten)
    error = str(raised.value)
    assert (
        "needs 'job': the id of the job, for example job='departures'; needs 'job_directory': the URI of a folder"
        in error
    )
    assert "has no parameter 'num_executors': use parallelism" in error
    assert "application" not in error


def test_default_args_supply_required_parameters() -> None:
    with DAG("flights", schedule=None, default_args={"job_directory": "file:///jobs", "application": "/job.py"}):
        arguments: dict[str, Any] = {"task_id": "t", "job": "j"}
        assert AdaptiveSparkOperator(**arguments).job_directory == "file:///jobs"


def test_partial_task_with_a_parameter_without_an_equivalent_names_what_to_use() -> None:
    with DAG("flights", schedule=None), pytest.raises(TypeError, match="'num_executors': use parallelism"):
        AdaptiveSparkOperator.partial(task_id="t", application="/job.py", num_executors=2)
