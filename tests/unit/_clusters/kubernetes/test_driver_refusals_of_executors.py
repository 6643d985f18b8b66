"""Executors whose containers cannot be created."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.driver_refusals import can_work, executor_failure, spark_container
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


def failed_executor(**status: Any) -> dict[str, Any]:
    failed = executor_pod(1)
    failed["status"] = {"phase": "Failed", **status}
    return failed


def ended(name: str, code: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, **fields}}}


@pytest.mark.parametrize(
    ("executor", "cause", "output"),
    [
        (
            failed_executor(
                initContainerStatuses=[
                    ended("a", 0),
                    ended("b", 3, reason="Error", message="looking for db\n\nno db\n"),
                ]
            ),
            "the container 'b' of an executor ended with exit code 3",
            "looking for db | no db",
        ),
        (
            failed_executor(containerStatuses=[ended("spark", 137, reason="OOMKilled")]),
            "the container 'spark' of an executor ended with exit code 137 (OOMKilled): raise spark.executor.memoryOverhead",
            "",
        ),
        (
            failed_executor(reason="Evicted", message="low on memory", containerStatuses=[ended("spark", 137)]),
            "the container 'spark' of an executor ended with exit code 137: Evicted: low on memory",
            "",
        ),
        (failed_executor(reason="OutOfcpu", message="no cpu"), "an executor has failed: OutOfcpu: no cpu", ""),
        (failed_executor(), "an executor has failed: for an unknown reason", ""),
    ],
    ids=["init container", "memory", "eviction", "refused by the node", "unknown"],
)
def test_an_executor_that_failed_has_a_cause(executor: dict[str, Any], cause: str, output: str) -> None:
    assert executor_failure(executor) == (cause, output)
