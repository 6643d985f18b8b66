"""Advisors: the form in which a loop consults a rescale policy.

The journal carries the memory of the policy from loop to loop. A policy travels as text in the arguments of a trigger, which Airflow stores in
clear text and which outlive versions of the code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, PolicyMemory, limits_of
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledMemory, ScheduledPolicy
from airflow_adaptive.autoscaling.combined import CombinedMemory, CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadMemory, LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError

Policy = ScheduledPolicy | LoadPolicy | CombinedPolicy

MEMORIES: Final[Mapping[type, type]] = {
    ScheduledPolicy: ScheduledMemory,
    LoadPolicy: LoadMemory,
    CombinedPolicy: CombinedMemory,
}
"""Classes of policies that a job may have -> class of the memory of the policy."""

MAX_MEMORY_AGE: Final = timedelta(hours=1)
"""An older memory is discarded, because the load in the meantime is unknown."""

MAX_CLOCK_STEP_BACK: Final = timedelta(seconds=5)
"""A clock that is set back by more than this makes the memory a memory of the future, which is discarded."""


def policy_to_text(policy: Policy) -> str:
    """Return a policy as text."""
    return json.dumps(encode(policy), separators=(",", ":"))


def policy_from_text(text: str) -> Policy:
    """Return the policy that `policy_to_text` encoded.

    Raises:
        RescalePolicyError: this version does not know the policy.
    """
    try:
        policy: Policy = decode(Policy, json.loads(text))
    except (RecursionError, ValueError) as error:
        if isinstance(error.__cause__, RescalePolicyError):
            raise error.__cause__ from None
        violation = f"this version cannot read the policy ({error}): deploy the job again"
        raise RescalePolicyError("rescale policy", [violation]) from error
    return policy


def require(policy: object, graph: JobGraph, *, reactive: bool = False) -> None:
    """Check that a job can follow a policy.

    Args:
        policy: declared policy.
        graph: graph of the job.
        reactive: whether the job is in reactive mode.

    Raises:
        RescalePolicyError: the job cannot follow the policy; the message lists every violation.
    """
    if not isinstance(policy, Policy):
        kinds = " or a ".join(kind.__name__ for kind in MEMORIES)
        found = f"the class: write {policy.__name__}()" if isinstance(policy, type) else f"a {type(policy).__name__}"
        raise RescalePolicyError("job", [f"rescale_policy must be a {kinds}, not {found}"])
    if reactive:
        violation = "rescale_policy has no effect on a job in reactive mode, which takes all available slots: remove one of the two"
        raise RescalePolicyError("job", [violation])
    calendar = policy.calendar if isinstance(policy, CombinedPolicy) else policy
    if isinstance(calendar, ScheduledPolicy):
        calendar.require(limits_of(graph, graph.requirements))


class PolicyAdvisor:
    """Advisor (`_core.requirements.advice.Advisor`) that consults a policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy: Any = policy

    @property
    def kind(self) -> str:
        """See `Advisor`."""
        return type(self._policy).__name__

    @property
    def dry_run(self) -> bool:
        """See `Advisor`."""
        return bool(self._policy.dry_run)

    def recall(self, memory: PolicyMemory) -> PolicyMemory | None:
        """See `Advisor`."""
        if memory.kind != self.kind:
            return None
        try:
            return replace(memory, content=decode(MEMORIES[type(self._policy)], memory.content))
        except SnapshotError as error:
            raise ValueError(f"the memory of the policy is invalid and is discarded ({error})") from error

    def advise(
        self, memory: PolicyMemory | None, policy_input: PolicyInput
    ) -> tuple[PolicyMemory | None, Advice | None]:
        """See `Advisor`. A memory of long ago or of the future is discarded."""
        is_known = memory is not None and -MAX_CLOCK_STEP_BACK <= policy_input.at - memory.at <= MAX_MEMORY_AGE
        content, advice = self._policy.advise(
            memory.content if memory is not None and is_known else self._policy.remember(), policy_input
        )
        return PolicyMemory(kind=self.kind, at=policy_input.at, content=content), advice


class UnreadablePolicy:
    """Advisor in place of a policy that this version cannot read. The job keeps its bounds, and the problem is reported."""

    kind: Final = "unreadable"
    dry_run: Final = False

    def __init__(self, error: RescalePolicyError) -> None:
        """Nothing happens before the first consultation.

        Args:
            error: error that every consultation raises.
        """
        self._error = error

    def recall(self, memory: PolicyMemory) -> PolicyMemory | None:
        """See `Advisor`."""
        return None

    def advise(
        self, memory: PolicyMemory | None, policy_input: PolicyInput
    ) -> tuple[PolicyMemory | None, Advice | None]:
        """Raise `RescalePolicyError`."""
        raise self._error


def advisor(text: str | None) -> PolicyAdvisor | UnreadablePolicy | None:
    """Return the advisor for the policy of a deployment, None without a policy."""
    if text is None:
        return None
    try:
        return PolicyAdvisor(policy_from_text(text))
    except RescalePolicyError as error:
        return UnreadablePolicy(error)
