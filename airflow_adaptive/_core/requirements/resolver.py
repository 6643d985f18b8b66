"""Resolves the requirements of one job in every cycle of its loop, and consults the rescale policy of the job.

The resolver keeps what a loop cannot read again: the active source and the time from which it is active, the last control requests that
were read, the limits that the drivers have reported, and the memory of the policy. The journal carries that state with the documents that it
writes anyway; only a change of the source, and the age of the policy's memory, cause a document of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.advice import (
    Advice,
    Advisor,
    PolicyAdvice,
    PolicyInput,
    QueryMetrics,
    limits_of,
)
from airflow_adaptive._core.requirements.control_requests import ControlRequests, with_known
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits
from airflow_adaptive._core.requirements.query_metrics import QueryGauge, state_partitions
from airflow_adaptive._core.requirements.resolution import (
    DECLARED,
    MAX_REASON_CHARACTERS,
    RequirementsOrigin,
    RequirementsSource,
    Resolution,
    base_requirements,
    is_overridden,
    latest_requirements,
    resolve,
)
from airflow_adaptive._core.scheduler import rescale_tiers
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements, are_accepted
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Deploying,
    Failing,
    Finished,
    Restarting,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

log = logging.getLogger(__name__)

ENDING: Final = (StopWithSavepoint, Canceling, Failing, Finished)
"""States of a job that stops or has ended; its policy is not consulted."""

MEMORY_REFRESH_INTERVAL: Final = timedelta(minutes=30)
"""Longest time after which the journal gets the memory of a policy again."""

MAX_REPORTED_PROBLEMS: Final = 16
"""Number of different problems of a policy that one loop reports; each is a document in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverInput:
    """Values that the loop passes to the requirements resolver.

    Attributes:
        state: state of the scheduler.
        control_requests: control requests as they were last read.
        status: status of the driver of the current epoch, None without a status.
        costs: measured duration of rescales, per tier.
        at: time by the clock. The journal's time may be ahead, and a calendar would be wrong by the difference.
        consult_policy: whether the policy is consulted in any case; else only if its advice is due.
    """

    state: SchedulerState
    control_requests: ControlRequests
    status: DriverStatus | None
    costs: Mapping[Tier, timedelta]
    at: datetime
    consult_policy: bool = True


class RequirementsResolver:
    """Resolves the requirements of one job."""

    def __init__(self, advisor: Advisor | None = None) -> None:
        """Create the resolver; resolve nothing yet.

        Args:
            advisor: rescale policy of the job, None without a policy.
        """
        self._tracker = AdviceTracker(advisor)
        self._source: RequirementsSource | None = None
        self._requests = ControlRequests()
        self._limits = NO_LIMITS

    def resolve(self, given: ResolverInput) -> Resolution:
        """Return the requirements that the job must have."""
        state = given.state
        self._limits = self._limits.observed(state.job, given.status)
        requests, is_ending = self._last_read(given.control_requests), isinstance(state.current, ENDING)
        is_held = is_overridden(state, requests, given.at)
        if is_ending and not is_held:
            return Resolution(requirements=latest_requirements(state), source=self._source or DECLARED)
        if not is_held:
            is_released = self._source is not None and self._source.origin is RequirementsOrigin.USER
            self._tracker.consult(given, base_requirements(state, requests, self._limits), required=is_released)
        resolved = resolve(state, requests, self._tracker.result, self._limits, self._source, given.at)
        self._source = replace(resolved.source, since=self._since(resolved, given))
        return replace(resolved, source=self._source)

    def _last_read(self, requests: ControlRequests) -> ControlRequests:
        """Return the requests; until the first successful read of this loop, those that the journal carried."""
        if requests.is_read:
            self._requests = with_known(requests, self._requests)
        return replace(self._requests, desired_state=requests.desired_state)

    def _since(self, resolved: Resolution, given: ResolverInput) -> datetime | None:
        """Return the time from which the source has set these requirements, None if it is unknown."""
        if latest_requirements(given.state) != resolved.requirements:
            return given.at
        if self._source is None:
            return None
        return self._source.since if self._source.identity == resolved.source.identity else given.at

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
        if self.limits != NO_LIMITS:
            snapshot["limits"] = encode(self.limits)
        memory = self._tracker.to_snapshot()
        if memory:
            snapshot["policy"] = memory
        return snapshot

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue with the state of an earlier loop. An invalid part is logged and ignored."""
        self._source = _restored(RequirementsSource, snapshot.get("source"))
        self._requests = _restored(ControlRequests, snapshot.get("requests")) or ControlRequests()
        self._limits = _restored(ReportedLimits, snapshot.get("limits")) or NO_LIMITS
        self._tracker.restore(snapshot.get("policy"))

    def forget_gangs(self) -> None:
        """Forget the gangs that earlier drivers have reported. The script of a new run may need none."""
        self._limits = replace(self._limits, gangs={})

    def take_log_entries(self) -> list[Reason]:
        """Hand over the new entries for the timeline, oldest first."""
        return self._tracker.take_log_entries()

    # ---- published state --------------------------------------------------------------------------------------------

    @property
    def requirements_source(self) -> RequirementsSource | None:
        """Active source, None while it is unknown."""
        return self._source

    @property
    def limits(self) -> ReportedLimits:
        """Limits that the drivers have reported."""
        return self._limits.lasting

    @property
    def policy(self) -> PolicyAdvice | None:
        """Result of the last consultation of the policy, None without a policy."""
        return self._tracker.result


class AdviceTracker:
    """Decides when to consult the policy of one job, and keeps its last advice, its problems and its memory.

    A problem of a policy never fails the job: the job keeps its requirements, and the problem is reported once.
    """

    def __init__(self, advisor: Advisor | None) -> None:
        """The policy is not consulted yet.

        Args:
            advisor: rescale policy of the job, None without a policy.
        """
        self._advisor = advisor
        self._gauge = QueryGauge()
        self._advice: Advice | None = None
        self._advised_at: datetime | None = None
        self._advised_since: datetime | None = None
        self._problem: str | None = None
        self._reported_problems: set[str] = set()
        self._reported_bounds: Requirements | None = None
        self._log_entries: list[Reason] = []

    @property
    def result(self) -> PolicyAdvice | None:
        """Result of the last consultation, None without a policy."""
        if self._advisor is None:
            return None
        return PolicyAdvice(
            policy=self._advisor.kind,
            dry_run=self._advisor.dry_run,
            advice=self._advice,
            advised_at=self._advised_at,
            advised_since=self._advised_since,
            problem=self._problem,
        )

    @property
    def has_memory(self) -> bool:
        """Whether the policy has a memory that must not grow old in the journal."""
        return self._advisor is not None

    def consult(self, given: ResolverInput, base: Requirements, *, required: bool) -> None:
        """Consult the policy if a consultation is due.

        Args:
            given: state of the job, and what was observed of it.
            base: requirements without a user and a policy.
            required: whether a consultation is due in any case.
        """
        if self._advisor is None or not (required or given.consult_policy or self._is_due(given.at)):
            return
        if given.status is not None and (reason := given.status.decommission.reason):
            self._keep(None, given.at)
            self._problem = f"the policy pauses: {reason}"
            return
        try:
            queries = self._gauge.read(given.state.job, given.status, given.at)
            advice = self._advisor.advise(_policy_input(given, base, queries))
            problem = None if advice is None else _violation(advice, given.state.job.max_parallelism)
        except Exception as error:  # noqa: BLE001  a policy may raise any exception, and must not fail the loop
            advice, problem = None, f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        self._keep(advice if problem is None else None, given.at)
        self._problem = problem
        self._report_problem()
        self._report_dry_run()

    def _is_due(self, now: datetime) -> bool:
        return self._advice is None or (self._advice.next_at is not None and self._advice.next_at <= now)

    def _keep(self, advice: Advice | None, at: datetime) -> None:
        previous = None if self._advice is None else self._advice.bounds
        if advice is None or advice.bounds != previous:
            self._advised_since = at
        self._advice, self._advised_at = advice, at

    # ---- timeline ---------------------------------------------------------------------------------------------------

    def take_log_entries(self) -> list[Reason]:
        """Hand over the new entries for the timeline, oldest first."""
        entries, self._log_entries = self._log_entries, []
        return entries

    def _report_dry_run(self) -> None:
        """Report what a dry run would set, once for the same bounds."""
        advisor, advice = self._advisor, self._advice
        if advisor is None or advice is None or not advisor.dry_run:
            return
        if advice.bounds != self._reported_bounds:
            self._reported_bounds = advice.bounds
            bounds = ", ".join(f"{name} {it.lower}-{it.upper}" for name, it in advice.bounds.items())
            reason = advice.reason[:MAX_REASON_CHARACTERS]
            text = f"dry run: {advice.source or advisor.kind} would set {bounds} ({reason})"
            self._log_entries.append(Reason(ReasonCode.POLICY_DRY_RUN, text))

    def _report_problem(self) -> None:
        problem = self._problem
        if problem is None or problem in self._reported_problems:
            return
        if len(self._reported_problems) < MAX_REPORTED_PROBLEMS:
            self._reported_problems.add(problem)
            log.warning("The rescale policy is not followed: %s", problem)
            text = f"the rescale policy is not followed, the job keeps its bounds: {problem[:MAX_REASON_CHARACTERS]}"
            self._log_entries.append(Reason(ReasonCode.POLICY_FAILED, text))

    # ---- journal ----------------------------------------------------------------------------------------------------

    def to_snapshot(self) -> Mapping[str, Any]:
        """Return the memory of the policy, JSON-compatible; empty without one."""
        return {} if self._advisor is None else self._advisor.to_snapshot()

    def restore(self, snapshot: Any) -> None:
        """Continue with the memory that an earlier loop wrote; an invalid memory is reported."""
        problem = None if self._advisor is None else self._advisor.restore(snapshot)
        if problem is not None:
            log.warning("%s", problem)
            self._log_entries.append(Reason(ReasonCode.POLICY_FAILED, problem))


def _violation(advice: Advice, max_parallelism: Mapping[str, int]) -> str | None:
    """Return why the job cannot have the advised bounds, None if it can."""
    if are_accepted(advice.bounds, max_parallelism):
        return None
    bounds = {name: (it.lower, it.upper) for name, it in advice.bounds.items()}
    return f"the job cannot have the advised bounds {bounds}: the maximum parallelism is {dict(max_parallelism)}"


def _policy_input(given: ResolverInput, base: Requirements, queries: Mapping[str, QueryMetrics]) -> PolicyInput:
    """Return the input of a policy.

    Args:
        given: input of the resolver.
        base: requirements without a user and a policy; for the policy, they are the declared ones.
        queries: metrics per query.
    """
    state = given.state
    return PolicyInput(
        at=given.at,
        requirements=latest_requirements(state),
        limits=limits_of(state.job, base),
        parallelism=active_parallelism(state),
        queries=queries,
        rescale_costs=given.costs,
        state_partitions=state_partitions(state.job, queries),
        tier=_next_tier(state),
    )


def active_parallelism(state: SchedulerState) -> Parallelism | None:
    """Return the parallelism on which the queries run. A plan that the driver has not activated does not count."""
    match state.current:
        case Deploying(active=False, previous_plan=plan) | Restarting(previous_plan=plan):
            return None if plan is None else plan.parallelism
        case _:
            return None if state.plan is None else state.plan.parallelism


def _next_tier(state: SchedulerState) -> Tier | None:
    """Return the rescale tier that one more slot per vertex would take, None without a plan."""
    plan = state.plan
    if plan is None or plan.parallelism.keys() != state.requirements.keys():
        return None
    return rescale_tiers.cheapest_allowed_tier(
        state, plan, {name: count + 1 for name, count in plan.parallelism.items()}
    )


def _restored(kind: Any, snapshot: Any) -> Any:
    try:
        return None if snapshot is None else decode(kind, snapshot)
    except SnapshotError as error:
        log.warning("The source of the requirements in the journal is invalid, and is resolved again: %s", error)
        return None
