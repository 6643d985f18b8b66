"""Executors whose containers cannot be created."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive.spark.kubernetes.driver.executor_start import can_work, executors_error
from airflow_adaptive.spark.kubernetes.driver.pod_template import EXECUTOR_CONTAINER

RUNNING: dict[str, Any] = {"running": {}}
NEW: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
NO_IMAGE: dict[str, Any] = {"waiting": {"reason": "ErrImagePull", "message": "spark:9: not found"}}
REGISTRY_IS_DOWN: dict[str, Any] = {"waiting": {"reason": "ErrImagePull", "message": "connection refused"}}


def executors(*states: dict[str, Any], first: int = 1) -> dict[str, Any]:
    """Executors with these states, numbered from `first`."""
    return {
        str(number): {
            "metadata": {"name": f"exec-{number}"},
            "status": {"containerStatuses": [{"name": EXECUTOR_CONTAINER, "image": "spark:9", "state": state}]},
        }
        for number, state in enumerate(states, start=first)
    }


def test_the_first_executor_that_cannot_start_is_named_with_its_image():
    assert executors_error(executors(RUNNING, NO_IMAGE, NO_IMAGE)).startswith(
        "executor exec-2 cannot start: the image 'spark:9' cannot be pulled: ErrImagePull: spark:9: not found"
    )


@pytest.mark.parametrize("state", [RUNNING, NEW, REGISTRY_IS_DOWN])
def test_executors_that_may_start_are_no_error(state: dict[str, Any]):
    assert executors_error(executors(state)) == ""
    assert can_work(executors(NO_IMAGE, state))


def test_a_driver_whose_first_executors_cannot_start_cannot_work():
    assert not can_work(executors(NO_IMAGE))
    assert not can_work(executors(NO_IMAGE, NO_IMAGE))


def test_a_driver_without_executors_may_get_some():
    assert executors_error({}) == ""
    assert can_work({})


def test_a_driver_that_had_executors_before_may_get_them_again():
    assert can_work(executors(NO_IMAGE, NO_IMAGE, first=2))
