"""Functions that the routes share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, TypeVar

from airflow_adaptive._airflow.internals import BaseUser
from airflow_adaptive._core.requirements.control_requests import Requester
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import Urls
from airflow_adaptive._web.api.schemas import JobDetails, JobItem
from airflow_adaptive._web.api.security import Right
from airflow_adaptive._web.data.errors import not_found
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.published_state import PublishedState

VIA = "REST"
"""Interface of the requests."""


IN_THE_LOG: Final = "The task log contains the reason."
"""Text for users who may not read task logs, instead of the text of an exception."""

Item = TypeVar("Item", bound=JobItem)


def visible(item: Item, rights: Collection[Right]) -> Item:
    """Return the fields of a job that a user with these rights may see. The other fields are null."""
    hidden: dict[str, Any] = {}
    if Right.TASK not in rights:
        hidden |= {"task": None, "attempt": None}
    if Right.LOGS not in rights:
        hidden |= {"cause": None, "urls": Urls(), "last_transition": None}
        hidden |= {"cluster_problem": item.cluster_problem and IN_THE_LOG}
        if isinstance(item, JobDetails) and item.policy is not None and item.policy.problem is not None:
            hidden["policy"] = replace(item.policy, problem=IN_THE_LOG)
    if Right.HISTORY not in rights:
        hidden |= {"last_transition": None}
    return replace(item, **hidden) if hidden else item


def published_state(job: Job, published: PublishedState) -> SchedulerState:
    """Return the state of the scheduler. Raises `RequestRefusedError`: the job has not published the state (404)."""
    if published.state is None:
        raise not_found(
            published.problem
            or f"Job {job.name!r} has not published its state yet, or uses another version of the format."
        )
    return published.state


def requester(user: BaseUser) -> Requester:
    """Return the user as the requester of a change."""
    return Requester(requested_by=user.get_name(), via=VIA)
