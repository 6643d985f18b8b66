"""Helpers of the tests of `AdaptiveSparkOperator`."""

import asyncio

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger


def staged(operator) -> JobSpec:
    return asyncio.run(operator._declared.stage("attempt"))


class FakeInstance:
    """The task instance of a context."""

    dag_id, task_id, run_id = "d", "departures", "r"

    def __init__(self, map_index: int | None = -1, try_number: int = 1, max_tries: int = 0) -> None:
        self.map_index = map_index
        self.try_number = try_number
        self.max_tries = max_tries
        self.pushed: dict[str, str] = {}

    def xcom_push(self, key: str, value: str) -> None:
        self.pushed[key] = value


def deferral(call, *arguments) -> AdaptiveJobTrigger:
    with pytest.raises(TaskDeferred) as raised:
        call(*arguments)
    assert raised.value.method_name == "execute_complete"
    assert isinstance(raised.value.trigger, AdaptiveJobTrigger)
    return raised.value.trigger
