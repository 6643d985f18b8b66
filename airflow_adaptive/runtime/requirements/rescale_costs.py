"""How long rescales of a job take, as its history tells: what a rescale policy reckons with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.state import Deploying, Restarting, WaitingForResources
from airflow_adaptive.scheduler.timeline import Rescale, TerminatedReason, TriggerCause

RECENT: Final = 10
"""Of each rung so many rescales count: what the job and the cluster were like long ago says little."""

UNDER_WAY: Final = frozenset(state.__name__ for state in (Deploying, Restarting, WaitingForResources))
"""States in which a rescale is carried out; before, it waits for its time, and that may be long."""

MOST_WAITED: Final = timedelta(seconds=30)
"""So much of the wait for its time counts: a batch to end, the cooldown."""


def rescale_costs(rescales: Iterable[Rescale]) -> Mapping[Tier, timedelta]:
    """The longest of the newest rescales by rung, from their cause until their parallelism was in force.

    Args:
        rescales: that have ended, oldest first.
    """
    taken: dict[Tier, list[timedelta]] = {}
    for rescale in rescales:
        if rescale.tier is not None and _counts(rescale):
            taken.setdefault(rescale.tier, []).append(_cost(rescale))
    return {tier: max(costs[-RECENT:]) for tier, costs in taken.items()}


def _counts(rescale: Rescale) -> bool:
    """Whether it brought a job that ran to another parallelism; what mends a failure waits for its backoff, too."""
    ran = rescale.vertices.before is not None and rescale.vertices.before != rescale.vertices.after
    wished = rescale.trigger_cause in (TriggerCause.UPDATE_REQUIREMENT, TriggerCause.NEW_RESOURCE_AVAILABLE)
    return ran and wished and rescale.terminated_reason is TerminatedReason.SUCCEEDED


def _cost(rescale: Rescale) -> timedelta:
    spans = [(span.state in UNDER_WAY, span.left - span.entered) for span in rescale.states]
    carried_out = sum((length for under_way, length in spans if under_way), timedelta(0))
    waited = sum((length for under_way, length in spans if not under_way), timedelta(0))
    return carried_out + min(waited, MOST_WAITED)
