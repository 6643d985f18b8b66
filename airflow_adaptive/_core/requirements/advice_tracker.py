"""Consults the rescale policy of one job, and keeps the last result."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive._core.requirements.advice import Advice, Advisor, Override, PolicyAdvice
from airflow_adaptive._core.requirements.policy_input import ResolverInput, policy_input
from airflow_adaptive._core.requirements.query_metrics import QueryGauge
from airflow_adaptive._core.requirements.sources import MAX_REASON_CHARACTERS
from airflow_adaptive._core.scheduler.requirements import Requirements, are_accepted
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

log = logging.getLogger(__name__)

MEMORY_REFRESH_INTERVAL: Final = timedelta(minutes=30)
"""Longest time after which the journal gets the memory of a policy again."""

MAX_REPORTED_PROBLEMS: Final = 16
"""Number of different problems of a policy that one loop reports; each is a document in the journal."""


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
        self._override: Override | None = None
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

    def set_override(self, override: Override | None) -> bool:
        """Remember the user's override; return whether it differs from the previous one, so that a consultation is due."""
        previous, self._override = self._override, override
        return previous != override

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
            advice = self._advisor.advise(policy_input(given, base, queries, self._override))
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
        """Report what a dry run would set, once for the same bounds, and only while no override makes it irrelevant."""
        advisor, advice = self._advisor, self._advice
        if advisor is None or advice is None or not advisor.dry_run or self._override is not None:
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
