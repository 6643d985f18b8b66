"""Functions that the routes share."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

from airflow_adaptive.plugin.data.errors import not_found
from airflow_adaptive.plugin.data.metadata_database.jobs import Job
from airflow_adaptive.plugin.data.published_state import PublishedState
from airflow_adaptive.ports import Requester
from airflow_adaptive.scheduler.state import SchedulerState

VIA = "REST"
"""Interface of the requests."""


def published_state(job: Job, published: PublishedState) -> SchedulerState:
    """Return the state of the scheduler.

    Raises:
        RequestRefusedError: the job has not published the state (404).
    """
    if published.state is None:
        raise not_found(f"Job {job.name!r} has not published its state yet, or uses another version of the format.")
    return published.state


def requester(user: BaseUser) -> Requester:
    """Return the user as the requester of a change."""
    return Requester(requested_by=user.get_name(), via=VIA)
