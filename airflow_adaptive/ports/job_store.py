"""The port of Airflow's stores: control requests and published state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_adaptive.runtime.publishing.job_view import JobView


class DesiredState(StrEnum):
    """State that users and programs request for the job (as `job.state` of the Flink Kubernetes operator)."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The author of a request for resource requirements.

    Attributes:
        requested_by: name of the author, "" if unknown.
        via: interface of the request, for display: "REST", "CLI", "task"; "" if unknown.
        expires_at: when the requirements expire, None if they apply until they are cleared.
    """

    requested_by: str = ""
    via: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequests:
    """All control requests of a job. They are levels, not edges: reading them again gives the same values.

    Attributes:
        desired_state: see `DesiredState`.
        requirements: vertex -> (lower bound, upper bound) that a user has set, empty without any. The value -1 for all bounds
            clears the override.
        requester: author of `requirements`.
        calendar: likewise, bounds of a calendar that is a DAG of its own; `requirements` take precedence.
        calendar_requester: the calendar.
        is_read: whether the requests were read since the loop began; before that they are defaults.
        age: time since the read of the requests began, or since the loop began if the requests were not read.
    """

    desired_state: DesiredState = DesiredState.RUNNING
    requirements: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    requester: Requester = Requester()
    calendar: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    calendar_requester: Requester = Requester()
    is_read: bool = field(default=True, compare=False)
    age: timedelta = field(default=timedelta(0), compare=False)


class JobStore(Protocol):
    """Control requests and published state of a job. The store is never the truth: the journal is."""

    async def control_requests(self) -> ControlRequests:
        """Return the newest known control requests, without waiting for a store that does not answer."""
        ...

    async def publish(self, view: JobView) -> None:
        """Publish the view of the job: state, parallelism, transitions, decisions and rescales."""
        ...

    async def publish_metrics(self, metrics: Mapping[str, object]) -> None:
        """Publish the newest job metrics: documents by key. A store may skip some of them while many jobs run."""
        ...

    async def published_metrics(self) -> Mapping[str, object]:
        """Return the job metrics that any loop published last, when the store answers."""
        ...
