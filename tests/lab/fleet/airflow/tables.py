"""The rows of Airflow's metadata database that the simulation needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_adaptive._core.view import TaskKey


class TaskState(StrEnum):
    """State of a task instance (airflow-core, `TaskInstanceState`)."""

    QUEUED = "queued"
    RUNNING = "running"
    DEFERRED = "deferred"
    UP_FOR_RETRY = "up_for_retry"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class TaskInstance:
    """A task instance, which runs a job.

    Attributes:
        key: key of the task instance.
        state: state of the task instance, None before its first run and after it was cleared.
        try_number: number of the newest try.
        max_tries: number of retries.
        run: number of the newest execution in a worker; an older execution has no effect any more.
        trigger_id: trigger for which the task instance waits.
        event: event with which the task instance resumes, None if it starts.
        xcoms: XComs of the newest try.
    """

    key: TaskKey
    state: TaskState | None = None
    try_number: int = 0
    max_tries: int = 0
    run: int = 0
    trigger_id: int | None = None
    event: Mapping[str, Any] | None = None
    xcoms: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Trigger:
    """A trigger.

    Attributes:
        trigger_id: number of the trigger.
        task: key of the task instance that waits for the trigger.
        arguments: arguments of the trigger, as JSON.
        triggerer: name of the triggerer to which the trigger is assigned.
    """

    trigger_id: int
    task: TaskKey
    arguments: str
    triggerer: str | None = None
