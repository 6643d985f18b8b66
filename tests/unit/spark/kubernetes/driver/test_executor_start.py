"""Executors whose containers cannot be created."""

from __future__ import annotations

import pytest

from airflow_adaptive.spark.kubernetes.driver.executor_start import can_work, spark_container
from tests.support.kubernetes.client.pods import executor_pod


@pytest.mark.parametrize(
    ("executors", "errors", "expected"),
    [
        ([], 0, True),
        (["1"], 0, True),
        (["1", "2"], 1, True),
        (["1"], 1, False),
        (["1", "2"], 2, False),
        (["2", "3"], 2, True),  # Executor 1 has ended, so its image was available before.
    ],
)
def test_a_driver_whose_first_executors_cannot_start_cannot_work(
    executors: list[str], errors: int, expected: bool
) -> None:
    assert can_work(executors, errors) is expected


def test_the_container_of_spark_may_have_the_name_of_a_pod_template() -> None:
    executor = executor_pod(1)
    assert spark_container(executor) == "spark-kubernetes-executor"
    executor["spec"]["containers"] = [{"name": "sidecar"}, {**executor["spec"]["containers"][0], "name": "main"}]
    assert spark_container(executor) == "main"
    assert spark_container({"spec": {}}) == "spark-kubernetes-executor"
