"""What the routes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from sqlalchemy.orm import Session

from airflow_adaptive.plugin import store
from airflow_adaptive.plugin.mirrored import Mirrored
from airflow_adaptive.plugin.problems import not_found
from airflow_adaptive.plugin.store import Asker, Job
from airflow_adaptive.scheduler.state import SchedulerState

VIA = "REST"


def mirrored(job: Job, session: Session, keys: Iterable[str] | None = None) -> Mirrored:
    """What the job shows; `keys` if not all documents are needed."""
    return all_mirrored([job], session, keys)[0]


def all_mirrored(jobs: Sequence[Job], session: Session, keys: Iterable[str] | None = None) -> list[Mirrored]:
    """What each of these jobs shows."""
    ids = [job.asset_id for job in jobs]
    found, written = store.documents(ids, keys, session), store.revisions(ids, session)
    return [Mirrored(documents=found[asset_id], revisions=written[asset_id]) for asset_id in ids]


def shown_state(job: Job, seen: Mirrored) -> SchedulerState:
    """The scheduler's state. Raises `ProblemError` (404) if the job has not shown it."""
    if seen.state is None:
        raise not_found(f"Job {job.name!r} has not shown this yet, or in another version's form.")
    return seen.state


def asker(user: BaseUser) -> Asker:
    """The user as one who asks."""
    return Asker(name=user.get_name(), via=VIA)
