"""Reads the published state of a job, and waits until the job reaches one of several states."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive._airflow.process.job_control import JobControl
from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._airflow.process.published_summary import PublishedSummary
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._engine.clock import SystemClock

log = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(seconds=5)
"""Interval between two reads of the published state. Each read takes Airflow 12-30 ms."""

ENDED: Final = tuple(outcome.value for outcome in Outcome)
"""States of a job that has ended."""


async def wait_for_state(job: str, states: Sequence[str], until: datetime) -> dict[str, Any]:
    """Wait until the job is in one of the states, or until the deadline passes.

    Args:
        job: id of the job.
        states: names of states, or outcomes of a job that has ended.
        until: deadline.

    Returns:
        `status` ("reached" or "timeout"), and the `job`, its `state` and its `parallelism` at that time.
    """
    control, clock = JobControl(job), SystemClock()
    while True:
        summary = await read_summary(control)
        state, parallelism = (None, None) if summary is None else (summary.status, summary.parallelism)
        result = {"job": job, "state": state, "parallelism": parallelism}
        if state in states:
            return {"status": "reached", **result}
        if clock.now() >= until:
            return {"status": "timeout", **result}
        left = max((until - clock.now()).total_seconds(), 0.0)
        await clock.sleep(min(POLL_INTERVAL.total_seconds(), left))


async def read_summary(control: JobControl) -> PublishedSummary | None:
    """Return the published summary of a job; None if nothing is published, or if Airflow does not answer."""
    try:
        return await ProcessResources.current().store_access.read(control.summary)
    except (AirflowRuntimeError, StoreUnavailableError) as error:
        log.warning("Airflow does not answer: %s", error)
        return None
