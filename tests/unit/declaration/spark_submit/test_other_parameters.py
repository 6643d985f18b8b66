"""A DAG that was written for `SparkSubmitOperator`."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_adaptive.declaration.spark_submit.other_parameters import INSTEAD
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
