"""A rescale policy as a loop asks it: with its memory of one job, which survives the loop in the job's log.

A policy travels as text: in a trigger's arguments, which are stored in clear and outlive versions of the code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledMemory, ScheduledPolicy
from airflow_adaptive.autoscaling.combined import CombinedMemory, CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadMemory, LoadPolicy
from airflow_adaptive.autoscaling.policy import Advice, PolicyInput, RescalePolicyError
from airflow_adaptive.runtime.requirements.advice import limits_of
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.snapshot import decode, encode

Policy = ScheduledPolicy | LoadPolicy | CombinedPolicy

MEMORIES: Final[Mapping[type, type]] = {
    ScheduledPolicy: ScheduledMemory,
    LoadPolicy: LoadMemory,
    CombinedPolicy: CombinedMemory,
}
"""Kinds of policies that a job may have, each with its memory."""

MAX_MEMORY_BYTES: Final = 64 << 10
"""A memory that is larger is not kept: each document of the job's log would have it."""

OUT_OF_DATE: Final = timedelta(hours=1)
"""After so long without a look the memory is begun anew: nobody knows what was needed meanwhile."""

BACKWARDS: Final = timedelta(seconds=5)
"""A clock that is set back by more makes the memory one of the future: it is begun anew."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading raises that a version wrote which knew other fields, or somebody by hand."""


def written(policy: Policy) -> str:
    """The policy as text."""
    return json.dumps(encode(policy), separators=(",", ":"))


def read(text: str) -> Policy:
    """The policy that `written` gave.

    Raises:
        RescalePolicyError: it is none that this version knows.
    """
    try:
        policy: Policy = decode(Policy, json.loads(text))
    except RescalePolicyError:
        raise
    except UNREADABLE as error:
        finding = f"it can't be read by this version ({type(error).__name__}: {error}): deploy the job again"
        raise RescalePolicyError("rescale policy", [finding]) from error
    return policy


def require(policy: object, graph: JobGraph, *, reactive: bool = False) -> None:
    """See that a job can have the policy.

    Args:
        policy: as declared.
        graph: of the job.
        reactive: whether the job takes all slots that there are.

    Raises:
        RescalePolicyError: it can't; lists everything that is wrong.
    """
    if not isinstance(policy, ScheduledPolicy | LoadPolicy | CombinedPolicy):
        kinds = " or a ".join(kind.__name__ for kind in MEMORIES)
        raise RescalePolicyError("job", [f"rescale_policy is a {type(policy).__name__}: give a {kinds}"])
    if reactive:
        finding = (
            "rescale_policy is given for a reactive job, which takes all slots that there are: leave one of the two out"
        )
        raise RescalePolicyError("job", [finding])
    calendar = policy.calendar if isinstance(policy, CombinedPolicy) else policy
    if isinstance(calendar, ScheduledPolicy):
        calendar.require(limits_of(graph, graph.requirements))


class PolicyAdvisor:
    """`runtime.requirements.advice.Advisor` over a policy."""

    def __init__(self, policy: Policy) -> None:
        """Nothing is remembered yet."""
        self._policy: Any = policy
        self._memory: Any = policy.remember()
        self._asked: datetime | None = None

    @property
    def kind(self) -> str:
        """See `Advisor`."""
        return type(self._policy).__name__

    @property
    def dry_run(self) -> bool:
        """See `Advisor`."""
        return bool(self._policy.dry_run)

    def restore(self, snapshot: Any) -> str | None:
        """See `Advisor`; the memory of another kind of policy is nothing to go on with."""
        self._begin_anew()
        if not isinstance(snapshot, Mapping) or snapshot.get("kind") != self.kind:
            return None
        try:
            memory = decode(MEMORIES[type(self._policy)], snapshot["memory"])
            self._asked = decode(datetime, snapshot["at"])
        except UNREADABLE as error:
            return f"the policy's memory can't be read, and is begun anew ({type(error).__name__}: {error})"
        self._memory = memory
        return None

    def to_snapshot(self) -> Mapping[str, Any]:
        """See `Advisor`; nothing before it was asked, or if it is too much for the log."""
        if self._asked is None:
            return {}
        snapshot = {"kind": self.kind, "at": self._asked.isoformat(), "memory": encode(self._memory)}
        return snapshot if len(json.dumps(snapshot)) <= MAX_MEMORY_BYTES else {}

    def advise(self, seen: PolicyInput) -> Advice | None:
        """See `Advisor`."""
        asked, self._asked = self._asked, seen.at
        if asked is not None and not -BACKWARDS <= seen.at - asked <= OUT_OF_DATE:
            self._begin_anew()
            self._asked = seen.at
        memory, advice = self._policy.advise(self._memory, seen)
        self._memory = memory
        found: Advice | None = advice
        return found

    def _begin_anew(self) -> None:
        self._memory, self._asked = self._policy.remember(), None


class UnreadablePolicy:
    """An advisor in place of a policy that this version can't read: the job goes on as it is, and people are told."""

    kind: Final = "unreadable"
    dry_run: Final = False

    def __init__(self, error: RescalePolicyError) -> None:
        """Take note."""
        self._error = error

    def restore(self, snapshot: Any) -> str | None:
        """See `Advisor`."""
        return None

    def to_snapshot(self) -> Mapping[str, Any]:
        """See `Advisor`."""
        return {}

    def advise(self, seen: PolicyInput) -> Advice | None:
        """Raises `RescalePolicyError`."""
        raise self._error


def advisor(text: str | None) -> PolicyAdvisor | UnreadablePolicy | None:
    """The advisor that a deployment asks for, None if it asks for none."""
    if text is None:
        return None
    try:
        return PolicyAdvisor(read(text))
    except RescalePolicyError as error:
        return UnreadablePolicy(error)
