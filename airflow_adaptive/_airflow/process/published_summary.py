"""The published summary of a job, decoded for tasks and triggers.

The REST API and the command line decode the whole summary (`_core.view.Summary`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_adaptive._core.scheduler.snapshot import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSummary:
    """The fields of a summary (`_core.view`) that other tasks use.

    Attributes:
        job: id of the job.
        job_type: job type, None if it is unknown.
        state: name of the scheduler's state.
        since: ISO time at which the scheduler entered the state, None if it is unknown.
        outcome: how the job ended, None before its end.
        cause: root cause of the failure of the job, None without a failure.
        parallelism: vertex -> parallelism of the newest plan, None without a plan.
        vertices: names of the vertices.
        restarts: number of restarts.
        rescales: number of rescales.
        attempt: attempt of the task that runs the job.
        last_transition_at: ISO time of the newest state transition, None without a transition.
        last_transition_reason: reason of the newest state transition, None without a transition.
        lag_alert_since: ISO time at which the lag exceeded `lag_alert_threshold`, None if the lag does not exceed it.
        lag_alert_lag_s: lag at that time in seconds, None if the lag does not exceed the threshold.
    """

    job: str | None = None
    job_type: str | None = None
    state: str
    since: str | None = None
    outcome: str | None = None
    cause: str | None = None
    parallelism: Mapping[str, int] | None = None
    vertices: tuple[str, ...] = ()
    restarts: int = 0
    rescales: int = 0
    attempt: str | None = None
    last_transition_at: str | None = None
    last_transition_reason: str | None = None
    lag_alert_since: str | None = None
    lag_alert_lag_s: float | None = None

    @property
    def status(self) -> str:
        """The state of a job, or the outcome of a job that has ended."""
        return self.outcome or self.state


def decode_summary(document: Any, end: Mapping[str, Any] | None = None) -> PublishedSummary | None:
    """Decode a published summary. Return None for a document that is not a summary; the state store can contain anything.

    Args:
        document: the document that the loop has published.
        end: fields of the summary with which the task has reported the end of the job, None before that.
    """
    try:
        if end is not None and not (document or {}).get("outcome"):
            document = {**(document or {}), **end}
        transition, alert = document.get("last_transition") or {}, document.get("lag_alert") or {}
        derived = {
            "vertices": list(document.get("requirements") or ()),
            "last_transition_at": transition.get("at"),
            "last_transition_reason": transition.get("reason"),
            "lag_alert_since": alert.get("since"),
            "lag_alert_lag_s": alert.get("lag_s"),
        }
        summary: PublishedSummary = decode(PublishedSummary, {**document, **derived})
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    return summary
