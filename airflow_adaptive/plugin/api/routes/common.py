"""What the routes share."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

from airflow_adaptive.plugin.api.problems import not_found
from airflow_adaptive.plugin.data.metadata_database import Job
from airflow_adaptive.plugin.data.published_state import Mirrored
from airflow_adaptive.ports import Requester
from airflow_adaptive.scheduler.state import SchedulerState

VIA = "REST"


def shown_state(job: Job, seen: Mirrored) -> SchedulerState:
    """The scheduler's state. Raises `ProblemError` (404) if the job has not shown it."""
    if seen.state is None:
        raise not_found(f"Job {job.name!r} has not shown this yet, or in another version's form.")
    return seen.state


def requester(user: BaseUser) -> Requester:
    """Return the user as the requester of a change."""
    return Requester(requested_by=user.get_name(), via=VIA)
