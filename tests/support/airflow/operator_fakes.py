"""Helpers of the tests of `AdaptiveSparkOperator`."""

import asyncio
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action, Directive, JournalDocument, encode_document, journal_name
from airflow_adaptive._core.scheduler.machine import create
from airflow_adaptive._core.scheduler.snapshot import to_json
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.support.airflow.airflow_versions import TaskDeferred

TASK = TaskKey(dag_id="d", task_id="departures", run_id="r")
"""The task instance of `FakeInstance`."""


def staged(operator) -> JobSpec:
    declared = operator._declared
    declared.check()
    return asyncio.run(declared.stage("attempt"))


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


def begin_log(tmp_path: Path, spec: JobSpec, attempt: str = "", state: SchedulerState | None = None) -> Path:
    """The loop of this job wrote its first document."""
    directive = Directive(epoch=0, nonce="n", version=0, action=Action.STOP, plan=None)
    scheduler = to_json(state or create(spec.graph, spec.options))
    document = JournalDocument(
        job="departures", number=1, at="", owner=f"{attempt}#1", directive=directive, scheduler=scheduler
    )
    log = tmp_path / "jobs" / "departures" / "journal"
    log.mkdir(parents=True, exist_ok=True)
    (log / journal_name(1)).write_bytes(encode_document(document))
    return log
