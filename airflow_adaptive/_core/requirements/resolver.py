"""Resolves the resource requirements of a job. Precedence of the sources: user > policy > calendar > DAG.

Theory: every source sets a level and not an edge: the requirements that the job must have as long as no source with a higher
precedence sets others. The order in which the sources have set their requirements does not matter, so a loop that is killed
resolves the same requirements again. `resolve` is a pure function. The control loop, the REST API and the command line use it.

`RequirementsResolver` keeps what a loop cannot read again: the active source and the time from which it is active, the last control
requests that were read, and the state of the policy (`advice_tracker`). The journal carries that state with the documents that it
writes anyway; only a change of the source, and the age of the policy's memory, cause a document of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from airflow_adaptive._core.requirements.advice import Advice, Advisor, Override, PolicyAdvice
from airflow_adaptive._core.requirements.advice_tracker import AdviceTracker
from airflow_adaptive._core.requirements.control_requests import (
    Bounds,
    ControlRequests,
    Requester,
    is_override_cleared,
    is_override_expired,
)
from airflow_adaptive._core.requirements.gangs import Gangs
from airflow_adaptive._core.requirements.input_limits import InputLimits
from airflow_adaptive._core.requirements.policy_input import ResolverInput
from airflow_adaptive._core.requirements.sources import (
    DECLARED,
    UNKNOWN_REQUESTER,
    ActiveRequirements,
    DeclaredRequirements,
    RequirementsOrigin,
    RequirementsSource,
    ResolvedRequirements,
    latest_requirements,
)
from airflow_adaptive._core.scheduler.errors import RequirementsError, SnapshotError
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements, accept
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._core.scheduler.state import Canceling, Failing, Finished, StopWithSavepoint
from airflow_adaptive._core.scheduler.timeline import Reason

log = logging.getLogger(__name__)

NO_ADVICE_YET: Final = "the policy has no advice yet, so the bounds do not change"

ENDING: Final = (StopWithSavepoint, Canceling, Failing, Finished)
"""States of a job that stops or has ended; its policy is not consulted."""


# ---- pure -----------------------------------------------------------------------------------------------------------


def resolve(
    requests: ControlRequests,
    advice: PolicyAdvice | None,
    declared: DeclaredRequirements,
    active: ActiveRequirements,
    now: datetime,
) -> ResolvedRequirements | None:
    """Return the requirements that a job must have, None if the active requirements stay.

    Args:
        requests: control requests of users and calendars.
        advice: result of the last consultation of the job's policy, None for a job without a policy.
        declared: declared limits of the job.
        active: requirements that the job has now.
        now: time by the clock. The journal's time may be ahead, and a calendar would be wrong by the difference.
    """
    override = user_override(requests, declared, now)
    if override is not None:
        return override
    base = base_requirements(requests, declared)
    if advice is not None and not advice.dry_run and not declared.reactive:
        return _advised(advice, base, active)
    is_released = is_override_cleared(requests) or is_override_expired(requests, now)
    return base if is_released or active.is_from(RequirementsOrigin.POLICY) or requests.calendar else None


def user_override(
    requests: ControlRequests, declared: DeclaredRequirements, now: datetime
) -> ResolvedRequirements | None:
    """Return the user's override, None if it is missing, cleared, expired or not acceptable for the job."""
    if not requests.requirements or is_override_cleared(requests) or is_override_expired(requests, now):
        return None
    return _accepted(requests.requirements, declared, _user(requests.requester))


def base_requirements(requests: ControlRequests, declared: DeclaredRequirements) -> ResolvedRequirements:
    """Return the requirements without a user and a policy: the calendar's if the job accepts them, else the declared ones."""
    calendar = _accepted(requests.calendar, declared, _calendar(requests.calendar_requester))
    if calendar is not None and not declared.reactive:
        return calendar
    return ResolvedRequirements(requirements=declared.requirements, source=DECLARED)


def _advised(result: PolicyAdvice, base: ResolvedRequirements, active: ActiveRequirements) -> ResolvedRequirements:
    """Return what the policy advises. A policy without advice leaves the active requirements unless they are not its own."""
    if result.advice is not None:
        return ResolvedRequirements(requirements=result.advice.bounds, source=_policy(result.policy, result.advice))
    is_override = active.is_from(RequirementsOrigin.USER)
    is_stale = is_override if result.problem is not None else not _is_within(active.requirements, base.requirements)
    if is_stale or active.requirements == base.requirements:
        return base
    source = active.source
    if source is None or is_override:
        source = RequirementsSource(origin=RequirementsOrigin.POLICY, name=result.policy, reason=NO_ADVICE_YET)
    return ResolvedRequirements(requirements=active.requirements, source=source)


def _policy(policy: str, advice: Advice) -> RequirementsSource:
    return RequirementsSource(
        origin=RequirementsOrigin.POLICY,
        name=advice.source or policy,
        until=advice.next_at,
        reason=advice.reason,
    )


def _user(requester: Requester) -> RequirementsSource:
    return RequirementsSource(
        origin=RequirementsOrigin.USER,
        name=requester.requested_by or UNKNOWN_REQUESTER,
        via=requester.via,
        until=requester.expires_at,
    )


def _calendar(requester: Requester) -> RequirementsSource:
    return RequirementsSource(
        origin=RequirementsOrigin.CALENDAR, name="calendar", via=requester.requested_by, until=requester.expires_at
    )


def _accepted(
    requested: Bounds, declared: DeclaredRequirements, source: RequirementsSource
) -> ResolvedRequirements | None:
    bounds = {name: ParallelismRange(*pair) for name, pair in requested.items()}
    try:
        accepted = accept(bounds, declared.requirements, declared.max_parallelism)
    except RequirementsError:
        return None  # the loop logs the reason (`observation.events.ignored_overrides`)
    return ResolvedRequirements(requirements=accepted, source=source)


def _is_within(bounds: Requirements, outer: Requirements) -> bool:
    return all(outer[name].lower <= it.lower and it.upper <= outer[name].upper for name, it in bounds.items())


# ---- stateful -------------------------------------------------------------------------------------------------------


def _with_known(read: ControlRequests, known: ControlRequests) -> ControlRequests:
    """Return the requests that were read, with the known ones in place of missing ones."""
    if not read.requirements:
        read = replace(read, requirements=known.requirements, requester=known.requester)
    if not read.calendar:
        read = replace(read, calendar=known.calendar, calendar_requester=known.calendar_requester)
    return read


class RequirementsResolver:
    """Resolves the requirements of one job in every cycle of its loop."""

    def __init__(self, advisor: Advisor | None = None) -> None:
        """Create the resolver; resolve nothing yet.

        Args:
            advisor: rescale policy of the job, None without a policy.
        """
        self._tracker = AdviceTracker(advisor)
        self._source: RequirementsSource | None = None
        self._requests = ControlRequests()
        self._input_limits = InputLimits()
        self._gangs = Gangs()

    def resolve(self, given: ResolverInput) -> ResolvedRequirements | None:
        """Return the requirements that the job must have, None if the active requirements stay."""
        self._input_limits.observe(given.state.job, given.status)
        self._gangs.observe(given.status)
        requests, declared = self._last_read(given.control_requests), DeclaredRequirements.of(given.state)
        override = user_override(requests, declared, given.at)
        is_new = self._tracker.set_override(None if override is None else _override(override.source))
        if isinstance(given.state.current, ENDING):
            return self._activate(given, declared, override)
        base = base_requirements(requests, declared)
        self._tracker.consult(given, self._limit(given, base).requirements, required=is_new)
        active = ActiveRequirements(requirements=latest_requirements(given.state), source=self._source)
        return self._activate(given, declared, resolve(requests, self._tracker.result, declared, active, given.at))

    def _last_read(self, requests: ControlRequests) -> ControlRequests:
        """Return the requests; until the first successful read of this loop, those that the journal carried.

        A user who clears an override stores a document, so a missing request was lost with the store, for example because Airflow's database
        was restored from a backup.
        """
        if requests.is_read:
            self._requests = _with_known(requests, self._requests)
        return replace(self._requests, desired_state=requests.desired_state)

    def _activate(
        self, given: ResolverInput, declared: DeclaredRequirements, resolved: ResolvedRequirements | None
    ) -> ResolvedRequirements | None:
        """Remember the source, and the time from which it has set these requirements."""
        resolved = self._limited(given, declared, resolved)
        if resolved is None:
            is_declared = latest_requirements(given.state) == declared.requirements
            if is_declared and (self._source is None or self._source.origin is not RequirementsOrigin.DAG):
                self._source = DECLARED
            return None
        previous = self._source
        is_same = previous is not None and previous.identity == resolved.source.identity
        is_unchanged = is_same and latest_requirements(given.state) == resolved.requirements
        since = previous.since if is_unchanged and previous is not None else given.at
        self._source = replace(resolved.source, since=since)
        return replace(resolved, source=self._source)

    def _limited(
        self, given: ResolverInput, declared: DeclaredRequirements, resolved: ResolvedRequirements | None
    ) -> ResolvedRequirements | None:
        """Apply the input limits and the gangs, also to the declared requirements, which `resolve` does not return while they are active."""
        if isinstance(given.state.current, ENDING):
            return resolved
        wanted = resolved or ResolvedRequirements(requirements=declared.requirements, source=DECLARED)
        limited = self._limit(given, wanted)
        return None if resolved is None and limited.requirements == latest_requirements(given.state) else limited

    def _limit(self, given: ResolverInput, resolved: ResolvedRequirements) -> ResolvedRequirements:
        declared, alignment = DeclaredRequirements.of(given.state), given.state.options.source_alignment
        limited = self._input_limits.apply(resolved, declared.requirements, alignment)
        return self._gangs.apply(limited, given.state.job)

    # ---- journal ----------------------------------------------------------------------------------------------------

    @property
    def source_identity(self) -> tuple[Any, ...]:
        """Value that differs when the source differs from the source in the last snapshot, so a new snapshot is due."""
        is_declared = self._source is None or self._source.origin is RequirementsOrigin.DAG
        return () if self._source is None or is_declared else self._source.identity

    @property
    def is_policy_active(self) -> bool:
        """Whether a policy set the active requirements, or those of the snapshot that was restored."""
        return self._source is not None and self._source.origin is RequirementsOrigin.POLICY

    @property
    def has_policy_memory(self) -> bool:
        """Whether a policy has a memory that must not grow old in the journal."""
        return self._tracker.has_memory

    def to_snapshot(self) -> dict[str, Any]:
        """Return the state for the next loop, JSON-compatible; empty if only the DAG sets requirements."""
        snapshot: dict[str, Any] = {}
        if self._source is not None and self._source.origin is not RequirementsOrigin.DAG:
            snapshot["source"] = encode(self._source)
        if self._requests.requirements or self._requests.calendar:
            snapshot["requests"] = encode(replace(self._requests, desired_state=ControlRequests().desired_state))
        limits = self._input_limits.to_snapshot()
        if limits:
            snapshot["input_limits"] = limits
        gangs = self._gangs.to_snapshot()
        if gangs:
            snapshot["gangs"] = gangs
        memory = self._tracker.to_snapshot()
        if memory:
            snapshot["policy"] = memory
        return snapshot

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue with the state of an earlier loop. An invalid part is logged and ignored."""
        self._source = _restored(RequirementsSource, snapshot.get("source"))
        self._requests = _restored(ControlRequests, snapshot.get("requests")) or ControlRequests()
        self._input_limits.restore(snapshot.get("input_limits"))
        self._gangs.restore(snapshot.get("gangs"))
        self._tracker.restore(snapshot.get("policy"))

    def forget_gangs(self) -> None:
        """Forget the gangs that earlier drivers have reported. The script of a new run may need none."""
        self._gangs = Gangs()

    def take_log_entries(self) -> list[Reason]:
        """Hand over the new entries for the timeline, oldest first."""
        return self._tracker.take_log_entries()

    # ---- published state --------------------------------------------------------------------------------------------

    @property
    def requirements_source(self) -> RequirementsSource | None:
        """Active source, None while it is unknown."""
        return self._source

    @property
    def policy(self) -> PolicyAdvice | None:
        """Result of the last consultation of the policy, None without a policy."""
        return self._tracker.result


def _override(source: RequirementsSource) -> Override:
    return Override(by=source.name, until=source.until)


def _restored(kind: Any, snapshot: Any) -> Any:
    try:
        return None if snapshot is None else decode(kind, snapshot)
    except SnapshotError as error:
        log.warning("The source of the requirements in the journal is invalid, and is resolved again: %s", error)
        return None
