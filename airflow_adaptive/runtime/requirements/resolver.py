"""Whose bounds a job has: a person's, else its rescale policy's, else a calendar's of its own, else its DAG's.

Theory: each of them says a level, not an edge: what the job is to have as long as nobody above says otherwise. So it does not
matter which of them spoke last, and a loop that is killed finds the same answer again. Only what can't be looked up goes into the
job's log: whose bounds are in force and since when, a person's bounds (should the inbox not be readable when the next loop begins),
and what the policy remembers. It goes there with documents that are written anyway; a document of its own tells that
somebody else's bounds hold, and keeps the policy's memory young.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.ports import ControlRequests
from airflow_adaptive.runtime.requirements.advice import Advice, Advisor, Override, PolicyInput, limits_of
from airflow_adaptive.runtime.requirements.control_requests import is_override_cleared, is_override_expired
from airflow_adaptive.runtime.requirements.query_metrics import QueryGauge, state_partitions
from airflow_adaptive.runtime.requirements.sources import (
    DECLARED,
    MAX_REASON_CHARACTERS,
    RequirementsOrigin,
    RequirementsSource,
    ResolvedRequirements,
    base_bounds,
    newest,
    persons_bounds,
)
from airflow_adaptive.scheduler import rescale_tiers
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import (
    Parallelism,
    Requirements,
    are_accepted,
)
from airflow_adaptive.scheduler.snapshot import decode, encode
from airflow_adaptive.scheduler.state import (
    Canceling,
    Deploying,
    Failing,
    Finished,
    Restarting,
    SchedulerState,
    StopWithSavepoint,
)

log = logging.getLogger(__name__)

KEEP_YOUNG: Final = timedelta(minutes=30)
"""At least so often what a policy remembers is written down."""

MOST_PROBLEMS: Final = 16
"""So many different problems of a policy a loop tells: each is a document in the job's log."""

NOTHING_YET: Final = "it has nothing to say yet: the bounds stay as they are"

ENDING = StopWithSavepoint | Canceling | Failing | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is looked at.

    Attributes:
        state: of the scheduler.
        inbox: what is asked.
        report: of the driver of the current epoch, None without one.
        costs: how long rescales took, by rung.
        at: what the clock shows; not the log's time, by which a calendar would be wrong.
        asks: whether the policy is asked now; else its last advice holds, unless there is a reason to ask.
    """

    state: SchedulerState
    control_requests: ControlRequests
    report: DriverStatus | None
    costs: Mapping[Tier, timedelta]
    at: datetime
    asks: bool = True


class RequirementsResolver:
    """Whose bounds one job has."""

    def __init__(self, advisor: Advisor | None = None) -> None:
        """Nothing was looked at yet.

        Args:
            advisor: the job's own rescale policy, None without one.
        """
        self._advisor = advisor
        self._gauge = QueryGauge()
        self._standing: RequirementsSource | None = None
        self._person: Override | None = None
        self._kept: ControlRequests = ControlRequests()
        self._advice: Advice | None = None
        self._advised_at: datetime | None = None
        self._advised_since: datetime | None = None
        self._problem: str | None = None
        self._problems: set[str] = set()
        self._told_dry: Requirements | None = None
        self.news: list[str] = []
        """What is to be told in the timeline, oldest first; whoever tells it takes it out."""

    # ---- the log ----------------------------------------------------------------------------------------------------

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs when what `told` gives has news that can't wait."""
        return () if self._standing is None or self._standing.kind is RequirementsOrigin.DAG else self._standing.mark

    @property
    def is_policys(self) -> bool:
        """Whether the bounds that hold, or held when the log was written, are a policy's."""
        return self._standing is not None and self._standing.kind is RequirementsOrigin.POLICY

    @property
    def has_memory(self) -> bool:
        """Whether a policy remembers something that grows old in the log."""
        return self._advisor is not None

    def told(self) -> dict[str, Any]:
        """What the next loop must know, for a document; empty for a job that nobody but its DAG has a say in."""
        told: dict[str, Any] = {}
        if self._standing is not None and self._standing.kind is not RequirementsOrigin.DAG:
            told["standing"] = encode(self._standing)
        if self._kept.requirements or self._kept.calendar:
            told["asked"] = encode(replace(self._kept, desired_state=ControlRequests().desired_state))
        memory = {} if self._advisor is None else self._advisor.told()
        if memory:
            told["policy"] = memory
        return told

    def recall(self, told: Mapping[str, Any]) -> None:
        """Go on with what another loop told; what can't be read is begun anew, with a word."""
        self._standing = _recalled(RequirementsSource, told.get("standing"))
        self._kept = _recalled(ControlRequests, told.get("asked")) or ControlRequests()
        unread = None if self._advisor is None else self._advisor.recall(told.get("policy"))
        if unread is not None:
            log.warning("%s", unread)
            self.news.append(unread)

    # ---- a look -----------------------------------------------------------------------------------------------------

    def rule(self, look: Look) -> ResolvedRequirements | None:
        """What the job is to have, None if that is what it has."""
        control_requests = self._inbox(look.control_requests)
        person, before = persons_bounds(look.state, control_requests, look.at), self._person
        self._person = None if person is None else _override(person.standing)
        if isinstance(look.state.current, ENDING):
            return None if person is None else self._noted(look, person)
        base = base_bounds(look.state, control_requests)
        if self._advisor is not None:
            self._ask(self._advisor, look, base, anew=before != self._person)
        ruling = person or self._policys(look.state, base) or self._fallback(look, control_requests, base)
        return self._noted(look, ruling)

    def _inbox(self, control_requests: ControlRequests) -> ControlRequests:
        """What is asked; as the log has it until that could be read."""
        if control_requests.is_read:
            self._kept = control_requests
        return replace(self._kept, desired_state=control_requests.desired_state)

    def _ask(self, advisor: Advisor, look: Look, base: ResolvedRequirements, *, anew: bool) -> None:
        """Hear the policy; what goes wrong leaves everything as it is, and is told once."""
        due = self._advice is None or (self._advice.next_at is not None and self._advice.next_at <= look.at)
        if not (look.asks or anew or due):
            return
        try:
            advice = advisor.advise(self._observed(look, base))
            problem = None if advice is None else _refusal(advice, look.state)
        except Exception as error:  # noqa: BLE001  a policy may raise what it likes, and must not cost the job its loop
            advice, problem = None, f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        self._heard(advisor, advice if problem is None else None, look.at)
        self._complain(problem)

    def _heard(self, advisor: Advisor, advice: Advice | None, at: datetime) -> None:
        before = None if self._advice is None else self._advice.bounds
        if advice is None or advice.bounds != before:
            self._advised_since = at
        self._advice, self._advised_at = advice, at
        if advice is None or not advisor.dry_run or self._person is not None or advice.bounds == self._told_dry:
            return
        self._told_dry = advice.bounds
        bounds = ", ".join(f"{name} {it.lower}-{it.upper}" for name, it in advice.bounds.items())
        reason = advice.reason[:MAX_REASON_CHARACTERS]
        self.news.append(f"dry run: {advice.source or advisor.kind} would set {bounds} ({reason})")

    def _complain(self, problem: str | None) -> None:
        if problem is not None and problem not in self._problems and len(self._problems) < MOST_PROBLEMS:
            self._problems.add(problem)
            log.warning("The rescale policy is not followed: %s", problem)
            said = problem[:MAX_REASON_CHARACTERS]
            self.news.append(f"the rescale policy is not followed, the job goes on as it is: {said}")
        self._problem = problem

    def _observed(self, look: Look, base: ResolvedRequirements) -> PolicyInput:
        state = look.state
        queries = self._gauge.read(state.job, look.report, look.at)
        return PolicyInput(
            at=look.at,
            requirements=newest(state),
            limits=limits_of(state.job, base.requirements),
            parallelism=in_force(state),
            queries=queries,
            rescale_costs=look.costs,
            state_partitions=state_partitions(state.job, queries),
            override=self._person,
            tier=_tier(state),
        )

    def _policys(self, state: SchedulerState, base: ResolvedRequirements) -> ResolvedRequirements | None:
        """What the policy wants; None without one that acts."""
        if self._advisor is None or self._advisor.dry_run or state.options.reactive:
            return None
        advice = self._advice
        if advice is not None:
            source = advice.source or self._advisor.kind
            standing = RequirementsSource(
                kind=RequirementsOrigin.POLICY, source=source, until=advice.next_at, reason=advice.reason
            )
            return ResolvedRequirements(requirements=advice.bounds, standing=standing)
        return self._without_advice(state, base, self._advisor.kind)

    def _without_advice(self, state: SchedulerState, base: ResolvedRequirements, policy: str) -> ResolvedRequirements:
        """What a policy leaves the job that has nothing to say yet, or has failed: what it has, unless that was never the policy's."""
        bounds, standing = newest(state), self._standing
        persons = standing is not None and standing.kind is RequirementsOrigin.USER
        is_astray = persons if self._problem is not None else not _is_within(bounds, base.requirements)
        if is_astray or bounds == base.requirements:
            return base
        if standing is None or persons:
            standing = RequirementsSource(kind=RequirementsOrigin.POLICY, source=policy, reason=NOTHING_YET)
        return ResolvedRequirements(requirements=bounds, standing=standing)

    def _fallback(
        self, look: Look, control_requests: ControlRequests, base: ResolvedRequirements
    ) -> ResolvedRequirements | None:
        """Without a policy: what is declared, if somebody's bounds do not hold any more; else all stays as it is."""
        gone = is_override_cleared(control_requests) or is_override_expired(control_requests, look.at)
        return base if gone or self.is_policys or control_requests.calendar else None

    def _noted(self, look: Look, ruling: ResolvedRequirements | None) -> ResolvedRequirements | None:
        """The ruling with since when it holds."""
        if ruling is None:
            declared = newest(look.state) == default_requirements(look.state.job, look.state.options)
            if declared and (self._standing is None or self._standing.kind is not RequirementsOrigin.DAG):
                self._standing = DECLARED
            return None
        before, now = self._standing, ruling.standing
        same = before is not None and before.mark == now.mark and newest(look.state) == ruling.requirements
        since = before.since if same and before is not None else look.at
        self._standing = replace(now, since=since)
        return replace(ruling, standing=self._standing)

    # ---- what people see --------------------------------------------------------------------------------------------

    @property
    def bounds_by(self) -> Mapping[str, Any] | None:
        """Whose bounds hold, JSON-able; None while that is not known."""
        standing = self._standing
        if standing is None:
            return None
        return {
            "kind": standing.kind.value,
            "source": standing.source,
            "via": standing.via or None,
            "since": _text(standing.since),
            "until": _text(standing.until),
            "reason": standing.reason,
        }

    @property
    def policy(self) -> Mapping[str, Any] | None:
        """The job's own policy, and what it advises, JSON-able; None without one."""
        if self._advisor is None:
            return None
        return {
            "kind": self._advisor.kind,
            "dry_run": self._advisor.dry_run,
            "acts": self.is_policys and self._advice is not None,
            "advice": None if self._advice is None else self._advised(self._advice),
            "problem": self._problem,
        }

    def _advised(self, advice: Advice) -> Mapping[str, Any]:
        return {
            "at": _text(self._advised_at),
            "since": _text(self._advised_since),
            "bounds": {name: {"lower": it.lower, "upper": it.upper} for name, it in advice.bounds.items()},
            "source": advice.source,
            "reason": advice.reason,
            "next_at": _text(advice.next_at),
        }


def undated(policy: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What `RequirementsResolver.policy` gave, but when it was advised last."""
    if policy is None or policy["advice"] is None:
        return policy
    return {**policy, "advice": {**policy["advice"], "at": None}}


def in_force(state: SchedulerState) -> Parallelism | None:
    """The parallelism on which the queries run; what is on its way is not in force."""
    match state.current:
        case Deploying(in_force=False, before=plan) | Restarting(before=plan):
            return None if plan is None else plan.parallelism
        case _:
            return None if state.plan is None else state.plan.parallelism


def _tier(state: SchedulerState) -> Tier | None:
    """The rung that one slot more would take."""
    plan = state.plan
    if plan is None or plan.parallelism.keys() != state.requirements.keys():
        return None
    return rescale_tiers.tier(state, plan, {name: count + 1 for name, count in plan.parallelism.items()})


def _override(standing: RequirementsSource) -> Override:
    return Override(by=standing.source, until=standing.until)


def _refusal(advice: Advice, state: SchedulerState) -> str | None:
    """Why the job can't have what is advised, None if it can."""
    if are_accepted(advice.bounds, state.job.max_parallelism):
        return None
    bounds = {name: (it.lower, it.upper) for name, it in advice.bounds.items()}
    most = dict(state.job.max_parallelism)
    return f"it wants bounds that the job can't have: {bounds}; the most are {most}"


def _is_within(bounds: Requirements, outer: Requirements) -> bool:
    return all(outer[name].lower <= it.lower and it.upper <= outer[name].upper for name, it in bounds.items())


def _recalled(kind: Any, told: Any) -> Any:
    """A value that another loop told, None if there is none, or it can't be read."""
    try:
        return None if told is None else decode(kind, told)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        log.warning("Whose bounds hold can't be read in the log, and is found out anew: %s", error)
        return None


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
