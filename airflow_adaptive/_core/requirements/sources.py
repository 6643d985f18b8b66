"""Resource requirements and the source that sets them: a user, a rescale policy, a calendar or the DAG of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from airflow_adaptive._core.scheduler.events import RequirementsChanged
from airflow_adaptive._core.scheduler.machine import default_requirements
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive._core.scheduler.state import SchedulerState

THE_DAG: Final = "the DAG"
"""Name of the declaring DAG in reasons."""

UNKNOWN_REQUESTER: Final = "unknown requester"
"""Name of the requester of an override whose record is missing."""

MAX_REASON_CHARACTERS: Final = 300
"""Longer reasons of a policy are cut before they are written to the journal."""


class RequirementsOrigin(StrEnum):
    """Kind of source that sets the resource requirements, in the order of increasing precedence."""

    DAG = "DAG"
    """The DAG declares the requirements."""
    CALENDAR = "CALENDAR"
    """The runs of a calendar's DAG set the requirements (`rescale_policy_dag`)."""
    POLICY = "POLICY"
    """The rescale policy of the job advises the requirements."""
    USER = "USER"
    """A user, or a program on behalf of a user, has set an override."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsSource:
    """Source that sets the resource requirements of a job.

    Attributes:
        origin: kind of the source.
        name: human-readable name of the source: "dag", "calendar", "load", or the name of a user.
        via: interface by which the requirements were set, "" if there is none.
        since: time from which the source has set these requirements, None if it is unknown.
        until: expiry of a user's override, or time of a policy's next change; None if there is none.
        reason: human-readable reason, "" without a reason.
    """

    origin: RequirementsOrigin
    name: str
    via: str = ""
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""

    @property
    def identity(self) -> tuple[Any, ...]:
        """Value that differs between two sources. The time of a policy's next change does not make another source."""
        return (self.origin, self.name, self.via, self.until if self.origin is RequirementsOrigin.USER else None)

    @property
    def description(self) -> str:
        """Name of the source with its reason, for the reason of a decision."""
        until = "" if self.until is None else f"until {self.until.isoformat()}"
        details = {
            RequirementsOrigin.DAG: (),
            RequirementsOrigin.CALENDAR: (self.via,),
            RequirementsOrigin.POLICY: (self.reason[:MAX_REASON_CHARACTERS],),
            RequirementsOrigin.USER: (self.via, until),
        }
        text = ", ".join(filter(None, details[self.origin]))
        name = THE_DAG if self.origin is RequirementsOrigin.DAG else self.name
        return f"{name} ({text})" if text else name


DECLARED: Final = RequirementsSource(origin=RequirementsOrigin.DAG, name="dag")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequirements:
    """Resource requirements that a job must have, and the source that sets them.

    Attributes:
        requirements: bounds of every vertex.
        source: source that sets the requirements.
        input_limit: why upper bounds are below those of the source, "" if they are not.
        gang: why lower bounds are above those of the source, "" if they are not.
    """

    requirements: Requirements
    source: RequirementsSource
    input_limit: str = ""
    gang: str = ""

    def event(self, state: SchedulerState, now: datetime) -> RequirementsChanged | None:
        """Return the event that changes the requirements of a job, None if the scheduler has accepted the same requirements."""
        if self.requirements == latest_requirements(state):
            return None
        by = filter(None, (self.source.description, self.input_limit, self.gang))
        return RequirementsChanged(at=now, requirements=self.requirements, by="; ".join(by))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRequirements:
    """Resource requirements that the scheduler of a job follows.

    Attributes:
        requirements: accepted requirements, including those that the scheduler has accepted and not yet declared.
        source: source that set the requirements, None if it is unknown.
    """

    requirements: Requirements
    source: RequirementsSource | None = None

    def is_from(self, origin: RequirementsOrigin) -> bool:
        """Return whether a source of this kind set the requirements."""
        return self.source is not None and self.source.origin is origin


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRequirements:
    """Limits that the deployment of a job declares.

    Attributes:
        requirements: declared bounds of every vertex; the bounds of reactive mode for a reactive job.
        max_parallelism: maximum parallelism of every vertex.
        reactive: whether the job is in reactive mode, in which only a user can set other bounds.
    """

    requirements: Requirements
    max_parallelism: Mapping[str, int]
    reactive: bool = False

    @classmethod
    def of(cls, state: SchedulerState) -> DeclaredRequirements:
        """Return the declared limits of the job that a scheduler runs."""
        return cls(
            requirements=default_requirements(state.job, state.options),
            max_parallelism=state.job.max_parallelism,
            reactive=state.options.reactive,
        )


def latest_requirements(state: SchedulerState) -> Requirements:
    """Return the newest requirements that the scheduler has accepted, declared or not."""
    return state.requirements if state.pending_requirements is None else state.pending_requirements.requirements
