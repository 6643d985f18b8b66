"""Resolves the requirements of one job in every cycle of its loop, and consults the rescale policy of the job.

`ResolverMemory` is what a loop cannot read again. The journal carries it with the documents that it writes anyway; only a change of the source,
and the age of the policy's memory, cause a document of their own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.advice import (
    Advice,
    Advisor,
    PolicyInput,
    PolicyMemory,
    PublishedAdvice,
    PublishedPolicy,
    QueryGauge,
    QueryMetrics,
    limits_of,
    state_partitions,
)
from airflow_adaptive._core.requirements.control_requests import ControlRequests, with_known
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits
from airflow_adaptive._core.requirements.resolution import (
    DECLARED,
    MAX_REASON_CHARACTERS,
    RequirementsOrigin,
    RequirementsSource,
    Resolution,
    latest_requirements,
    resolve,
)
from airflow_adaptive._core.scheduler import rescale_tiers
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements, are_accepted
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Restarting,
    SchedulerState,
)
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

log = logging.getLogger(__name__)

MEMORY_REFRESH_INTERVAL: Final = timedelta(minutes=30)
"""Longest time after which the journal gets the memory of a policy again."""

MAX_MEMORY_BYTES: Final = 64 << 10
"""A larger memory of a policy is not kept, because every document in the journal would contain it."""

MAX_REPORTED_PROBLEMS: Final = 16
"""Number of different problems of a policy that one loop reports; each is a document in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverMemory:
    """What the resolver remembers from cycle to cycle, and from loop to loop.

    Attributes:
        source: active source and the time from which it is active, None while it is unknown.
        requests: the last control requests that were read.
        limits: limits that the drivers have reported.
        policy: memory of the rescale policy, None before its first consultation.
    """

    source: RequirementsSource | None = None
    requests: ControlRequests = ControlRequests()
    limits: ReportedLimits = NO_LIMITS
    policy: PolicyMemory | None = None

    @property
    def source_identity(self) -> tuple[Any, ...]:
        """Value that differs when the source differs from the source in the newest document, so that a new document is due."""
        source = self.lasting_source
        return () if source is None else source.identity

    @property
    def lasting_source(self) -> RequirementsSource | None:
        """Source that the next loop must know, None if the DAG or an unknown source sets the requirements."""
        return None if self._is_from(RequirementsOrigin.DAG) else self.source

    @property
    def is_policy_active(self) -> bool:
        """Whether a policy set the active requirements."""
        return self._is_from(RequirementsOrigin.POLICY)

    @property
    def is_overridden(self) -> bool:
        """Whether an override of a user set the active requirements."""
        return self._is_from(RequirementsOrigin.USER)

    @property
    def lasting(self) -> ResolverMemory:
        """What the next loop needs."""
        policy = self.policy
        if policy is not None and len(json.dumps(encode(policy))) > MAX_MEMORY_BYTES:
            policy = None
        requests = replace(self.requests, desired_state=ControlRequests().desired_state)
        limits = self.limits.lasting
        return ResolverMemory(source=self.lasting_source, requests=requests, limits=limits, policy=policy)

    def _is_from(self, origin: RequirementsOrigin) -> bool:
        return self.source is not None and self.source.origin is origin


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
        memory: what the previous cycle, or an earlier loop, remembered.
    """

    state: SchedulerState
    control_requests: ControlRequests
    status: DriverStatus | None
    costs: Mapping[Tier, timedelta]
    at: datetime
    consult_policy: bool = True
    memory: ResolverMemory = ResolverMemory()


class RequirementsResolver:
    """Resolves the requirements of one job, decides when to consult its rescale policy, and keeps the last advice.

    A problem of a policy never fails the job: the job keeps its requirements, and the problem is reported once.
    """

    def __init__(self, advisor: Advisor | None = None) -> None:
        """Create the resolver of a job with this rescale policy; None for a job without one."""
        self._advisor = advisor
        self._gauge = QueryGauge()
        self._advice: PublishedAdvice | None = None
        self._problem: str | None = None
        self._reported_problems: set[str] = set()
        self._reported_bounds: Requirements | None = None
        self._log_entries: list[Reason] = []

    @property
    def policy(self) -> PublishedPolicy | None:
        """Result of the last consultation of the policy, None without a policy."""
        if self._advisor is None:
            return None
        kind, dry_run = self._advisor.kind, self._advisor.dry_run
        return PublishedPolicy(kind=kind, dry_run=dry_run, advice=self._advice, problem=self._problem)

    def recall(self, memory: ResolverMemory) -> ResolverMemory:
        """Return the memory of an earlier loop with the memory of the policy; an invalid one is reported."""
        if memory.policy is None or self._advisor is None:
            return replace(memory, policy=None)
        try:
            return replace(memory, policy=self._advisor.recall(memory.policy))
        except ValueError as error:
            log.warning("%s", error)
            self._log_entries.append(Reason(ReasonCode.POLICY_FAILED, f"{error}"))
            return replace(memory, policy=None)

    def resolve(self, given: ResolverInput) -> tuple[Resolution, ResolverMemory]:
        """Return the requirements that the job must have, and what to remember."""
        state, memory = given.state, _observed(given)
        requests = replace(memory.requests, desired_state=given.control_requests.desired_state)

        def consult(base: Requirements) -> PublishedPolicy | None:
            nonlocal memory
            if not state.traits.ends:
                policy_given = replace(given, memory=memory)
                memory = replace(memory, policy=self._consult(policy_given, base, required=memory.is_overridden))
            return self.policy

        resolved = resolve(state, requests, consult, memory.limits, memory.source, given.at)
        if state.traits.ends and resolved.source.origin is not RequirementsOrigin.USER:
            return Resolution(requirements=latest_requirements(state), source=memory.source or DECLARED), memory
        source = replace(resolved.source, since=_since(resolved, state, memory.source, given.at))
        return replace(resolved, source=source), replace(memory, source=source)

    # ---- the policy -------------------------------------------------------------------------------------------------

    def _consult(self, given: ResolverInput, base: Requirements, *, required: bool) -> PolicyMemory | None:
        """Consult the policy if a consultation is required or due; return its memory."""
        if self._advisor is None or not (required or given.consult_policy or self._is_due(given.at)):
            return given.memory.policy
        if given.status is not None and (reason := given.status.decommission.reason):
            self._keep(None, given.at)
            self._problem = f"the policy pauses: {reason}"
            return given.memory.policy
        memory = given.memory.policy
        try:
            queries = self._gauge.read(given.state.job, given.status, given.at)
            memory, advice = self._advisor.advise(memory, _policy_input(given, base, queries))
            problem = None if advice is None else _violation(advice, given.state.job.max_parallelism)
        except Exception as error:  # noqa: BLE001  a policy may raise any exception, and must not fail the loop
            advice, problem = None, f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        self._keep(advice if problem is None else None, given.at)
        self._problem = problem
        self._report_problem()
        self._report_dry_run()
        return memory

    def _is_due(self, now: datetime) -> bool:
        return self._advice is None or (self._advice.next_at is not None and self._advice.next_at <= now)

    def _keep(self, advice: Advice | None, at: datetime) -> None:
        before, self._advice = self._advice, None
        if advice is not None:
            since = at if before is None or before.bounds != advice.bounds else before.since
            self._advice = PublishedAdvice(
                bounds=advice.bounds,
                reason=advice.reason,
                next_at=advice.next_at,
                source=advice.source,
                at=at,
                since=since,
            )

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


def _observed(given: ResolverInput) -> ResolverMemory:
    """Return the memory after an observation. Until the first successful read of a loop, the requests are those of an earlier loop."""
    memory, read = given.memory, given.control_requests
    requests = with_known(read, memory.requests) if read.is_read else memory.requests
    return replace(memory, requests=requests, limits=memory.limits.observed(given.state.job, given.status))


def _since(
    resolved: Resolution, state: SchedulerState, previous: RequirementsSource | None, now: datetime
) -> datetime | None:
    """Return the time from which the source has set these requirements, None if it is unknown."""
    if latest_requirements(state) != resolved.requirements:
        return now
    if previous is None:
        return None
    return previous.since if previous.identity == resolved.source.identity else now


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
