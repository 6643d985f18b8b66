"""What people see of a job: small and JSON-able."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.runtime.journal.history import History
from airflow_adaptive.runtime.publishing.urls import Urls
from airflow_adaptive.scheduler.history.failures import root_cause
from airflow_adaptive.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive.scheduler.snapshot import encode, to_json
from airflow_adaptive.scheduler.state import Finished, SchedulerState
from airflow_adaptive.scheduler.transition_table import STATES

STATE_NAMES: Final = tuple(state.__name__ for state in STATES)
"""What `state` may be in a view, in the order of a job's life."""

SHOWN_FAILURES = 5
"""How many failures people see at hand; the job's log has more."""


def view(
    state: SchedulerState, history: History, urls: Urls, attempt: str, report: DriverStatus | None = None
) -> Mapping[str, Any]:
    """Where the job stands and how it came there.

    Args:
        state: of the scheduler.
        history: what the log tells of the past.
        urls: where to look further.
        attempt: of the task that runs it.
        report: of the driver of the current epoch, None without one.
    """
    plan = state.plan
    since = getattr(state.current, "since", None)
    return {
        "job": state.job.job,
        "job_type": state.job.job_type.value,
        "attempt": attempt,
        "state": state.name,
        "since": None if since is None else since.isoformat(),
        "outcome": state.current.outcome.value if isinstance(state.current, Finished) else None,
        "cause": root_cause(state),
        "parallelism": None if plan is None else encode(plan.parallelism),
        "requirements": {name: {"lower": it.lower, "upper": it.upper} for name, it in state.requirements.items()},
        "slots": {"held": state.held_slots, "available": state.available_slots},
        "epoch": state.epoch,
        "submission_id": None if state.driver is None else state.driver.submission_id,
        "restarts": state.num_restarts,
        "rescales": state.num_rescales,
        "urls": asdict(urls),
        **history.shown(state),
        "failures": [_shown(record) for record in state.failures[-SHOWN_FAILURES:]],
        "scheduler": to_json(state),
        "driver": driver_view(report),
    }


def driver_view(report: DriverStatus | None) -> Mapping[str, Any]:
    """What a driver reports of itself; empty without one."""
    if report is None:
        return {}
    return {
        "at": report.at,
        "state": report.state.value,
        "version": report.version,
        "parallelism": dict(report.parallelism),
        "executors": [asdict(executor) for executor in report.executors],
        "queries": [asdict(query) for query in report.queries],
    }


def _shown(record: FailureRecord) -> dict[str, Any]:
    concurrent = [failure.summary for failure in record.concurrent]
    return {**encode(record), "failure": record.failure.summary, "concurrent": concurrent}
