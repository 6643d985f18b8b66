"""Bounds that a job may have, and whose they are: a person's, a policy's, a calendar's or its DAG's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from airflow_adaptive.ports import ControlRequests, Requester
from airflow_adaptive.runtime.requirements.control_requests import is_override_cleared, is_override_expired
from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements, accept
from airflow_adaptive.scheduler.state import SchedulerState

THE_DAG: Final = "the DAG"
"""Whose the declared bounds are, in reasons."""

SOMEBODY: Final = "somebody"
"""Who has set bounds, if that is not told."""

MAX_REASON_CHARACTERS: Final = 300
"""Of a longer reason the beginning goes into the log."""


class RequirementsOrigin(StrEnum):
    """Whose bounds they are."""

    DAG = "DAG"
    """As declared."""
    CALENDAR = "CALENDAR"
    """Set by the runs of a DAG that is a calendar (`rescale_policy_dag`)."""
    POLICY = "POLICY"
    """Advised by the job's own rescale policy."""
    USER = "USER"
    """Set by a person, or by what acts for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsSource:
    """Whose bounds hold.

    Attributes:
        kind: see `RequirementsOrigin`.
        source: who, for people: "dag", "calendar", "load", or a name.
        via: by what way they were set, "" for none.
        since: when they came to hold, None if that is not known.
        until: when a person's bounds expire, or a policy's change by themselves; None for never.
        reason: in plain words, "" without one.
    """

    kind: RequirementsOrigin
    source: str
    via: str = ""
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs when somebody else's bounds hold; a policy's next change by itself is no news."""
        return (self.kind, self.source, self.via, self.until if self.kind is RequirementsOrigin.USER else None)

    @property
    def signature(self) -> str:
        """Whose and why, for the reason of a decision."""
        until = "" if self.until is None else f"until {self.until.isoformat()}"
        words = {
            RequirementsOrigin.DAG: (),
            RequirementsOrigin.CALENDAR: (self.via,),
            RequirementsOrigin.POLICY: (self.reason[:MAX_REASON_CHARACTERS],),
            RequirementsOrigin.USER: (self.via, until),
        }
        said = ", ".join(filter(None, words[self.kind]))
        name = THE_DAG if self.kind is RequirementsOrigin.DAG else self.source
        return f"{name} ({said})" if said else name


DECLARED: Final = RequirementsSource(kind=RequirementsOrigin.DAG, source="dag")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequirements:
    """What the job is to have, and whose word that is."""

    requirements: Requirements
    standing: RequirementsSource


def newest(state: SchedulerState) -> Requirements:
    """The bounds in force, or about to be."""
    return state.requirements if state.declaration is None else state.declaration.requirements


def persons_bounds(
    state: SchedulerState, control_requests: ControlRequests, now: datetime
) -> ResolvedRequirements | None:
    """What a person has set, None if nothing is, or it was lifted, has expired or can't hold."""
    if (
        not control_requests.requirements
        or is_override_cleared(control_requests)
        or is_override_expired(control_requests, now)
    ):
        return None
    return _accepted(state, control_requests.requirements, _asked(RequirementsOrigin.USER, control_requests.requester))


def base_bounds(state: SchedulerState, control_requests: ControlRequests) -> ResolvedRequirements:
    """What holds without a person and a policy: a calendar's bounds if it can have them, else the declared ones."""
    calendars = _accepted(
        state, control_requests.calendar, _asked(RequirementsOrigin.CALENDAR, control_requests.calendar_requester)
    )
    if calendars is not None and not state.options.reactive:
        return calendars
    return ResolvedRequirements(requirements=default_requirements(state.job, state.options), standing=DECLARED)


def _asked(kind: RequirementsOrigin, requester: Requester) -> RequirementsSource:
    source = "calendar" if kind is RequirementsOrigin.CALENDAR else requester.requested_by or SOMEBODY
    via = requester.requested_by if kind is RequirementsOrigin.CALENDAR else requester.via
    return RequirementsSource(kind=kind, source=source, via=via, until=requester.expires_at)


def _accepted(
    state: SchedulerState, asked: Mapping[str, tuple[int, int]], standing: RequirementsSource
) -> ResolvedRequirements | None:
    bounds = {name: ParallelismRange(*pair) for name, pair in asked.items()}
    try:
        accepted = accept(bounds, default_requirements(state.job, state.options), state.job.max_parallelism)
    except RequirementsError:
        return None  # `observe.refusal` says why
    return ResolvedRequirements(requirements=accepted, standing=standing)
