"""Resolves the resource requirements of a job. Precedence of the sources: user > policy > calendar > DAG.

Theory: every source sets a level and not an edge: the requirements that the job must have as long as no source with a higher
precedence sets others. The order in which the sources have set their requirements does not matter, so a loop that is killed
resolves the same requirements again. The limits that the drivers report bound the requirements of every source.

`resolve` is a pure function. The control loop, the REST API and the command line use it, so that a user reads the bounds that the job then has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from airflow_adaptive._core.requirements.advice import PublishedPolicy
from airflow_adaptive._core.requirements.control_requests import (
    ControlRequests,
    is_override_cleared,
    is_override_expired,
)
from airflow_adaptive._core.requirements.limits import ReportedLimits
from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.machine import default_requirements
from airflow_adaptive._core.scheduler.requirements import Requirements, accept
from airflow_adaptive._core.scheduler.state import SchedulerState

THE_DAG: Final = "the DAG"
"""Name of the declaring DAG in reasons."""

UNKNOWN_REQUESTER: Final = "unknown requester"
"""Name of the requester of an override whose record is missing."""

NO_ADVICE_YET: Final = "the policy has no advice yet, so the bounds do not change"

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
class Resolution:
    """Resource requirements that a job must have, and the source that sets them.

    Attributes:
        requirements: bounds of every vertex.
        source: source that sets the requirements.
        limited: why the bounds are not those of the source, "" if they are.
        refused: why requested requirements cannot apply, "" if they can. The author of the request did not get an answer.
    """

    requirements: Requirements
    source: RequirementsSource
    limited: str = ""
    refused: str = ""


def resolve(
    state: SchedulerState,
    requests: ControlRequests,
    consult: Callable[[Requirements], PublishedPolicy | None],
    limits: ReportedLimits,
    source: RequirementsSource | None,
    now: datetime,
) -> Resolution:
    """Return the requirements that a job must have.

    Args:
        state: state of the scheduler, with what the deployment declares and the requirements that the job has.
        requests: control requests of users and calendars.
        consult: returns the result of the last consultation of the job's policy, None for a job without a policy. It is called if no override of a
            user holds, with the requirements without a policy.
        limits: limits that the drivers of the job have reported.
        source: source of the requirements that the job has, None if it is unknown.
        now: time by the clock. The journal's time may be ahead, and a calendar would be wrong by the difference.
    """
    override, refused = _override(state, requests, now)
    if override is not None:
        return _limited(override, state, limits)
    base, ignored = _base(state, requests)
    resolved = _limited(base, state, limits)
    advice = consult(resolved.requirements)
    if advice is not None and not advice.dry_run and not state.options.reactive:
        resolved = _limited(_advised(advice, base, resolved, state, source), state, limits)
    return replace(resolved, refused=refused or ignored)


def latest_requirements(state: SchedulerState) -> Requirements:
    """Return the newest requirements that the scheduler has accepted, declared or not."""
    return state.requirements if state.pending_requirements is None else state.pending_requirements.requirements


def declared_requirements(state: SchedulerState) -> Requirements:
    """Return what the deployment of a job declares; for a reactive job, the bounds of reactive mode."""
    return default_requirements(state.job, state.options)


def _override(state: SchedulerState, requests: ControlRequests, now: datetime) -> tuple[Resolution | None, str]:
    """Return the user's override, None if it is missing, cleared, expired or refused; and why it is refused."""
    if not requests.requirements or is_override_cleared(requests) or is_override_expired(requests, now):
        return None, ""
    requester = requests.requester
    source = RequirementsSource(
        origin=RequirementsOrigin.USER,
        name=requester.requested_by or UNKNOWN_REQUESTER,
        via=requester.via,
        until=requester.expires_at,
    )
    return _accepted(state, requests.requirements, source)


def _base(state: SchedulerState, requests: ControlRequests) -> tuple[Resolution, str]:
    """Return the calendar's requirements, else the declared ones; and why the calendar's are refused."""
    refused = ""
    if requests.calendar and not state.options.reactive:
        requester = requests.calendar_requester
        source = RequirementsSource(
            origin=RequirementsOrigin.CALENDAR, name="calendar", via=requester.requested_by, until=requester.expires_at
        )
        calendar, refused = _accepted(state, requests.calendar, source)
        if calendar is not None:
            return calendar, ""
    return Resolution(requirements=declared_requirements(state), source=DECLARED), refused


def _accepted(
    state: SchedulerState, requested: Requirements, source: RequirementsSource
) -> tuple[Resolution | None, str]:
    try:
        accepted = accept(requested, declared_requirements(state), state.job.max_parallelism)
    except RequirementsError as error:
        return None, f"{error} They are ignored."
    return Resolution(requirements=accepted, source=source), ""


def _advised(
    result: PublishedPolicy,
    base: Resolution,
    limited: Resolution,
    state: SchedulerState,
    active: RequirementsSource | None,
) -> Resolution:
    """Return what the policy advises. A policy without advice leaves the active requirements unless they are not its own."""
    if (advice := result.advice) is not None:
        name = advice.source or result.kind
        by = RequirementsSource(origin=RequirementsOrigin.POLICY, name=name, until=advice.next_at, reason=advice.reason)
        return Resolution(requirements=advice.bounds, source=by)
    latest, is_override = latest_requirements(state), active is not None and active.origin is RequirementsOrigin.USER
    is_stale = is_override if result.problem is not None else not _is_within(latest, base.requirements)
    if is_stale or latest in (base.requirements, limited.requirements):
        return base
    if active is None or is_override:
        active = RequirementsSource(origin=RequirementsOrigin.POLICY, name=result.kind, reason=NO_ADVICE_YET)
    return Resolution(requirements=latest, source=active)


def _limited(resolved: Resolution, state: SchedulerState, limits: ReportedLimits) -> Resolution:
    """Return the requirements within the limits; an alignment of a policy's advice may use all declared bounds."""
    is_advice = resolved.source.origin is RequirementsOrigin.POLICY
    ceiling = declared_requirements(state) if is_advice else resolved.requirements
    bounds, reason = limits.applied(resolved.requirements, state.job, ceiling, state.options.source_alignment)
    return replace(resolved, requirements=bounds, limited=reason)


def _is_within(bounds: Requirements, outer: Requirements) -> bool:
    return all(outer[name].lower <= it.lower and it.upper <= outer[name].upper for name, it in bounds.items())
