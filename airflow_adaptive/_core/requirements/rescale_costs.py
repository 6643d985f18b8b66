"""Duration of the rescales of a job according to its history. Rescale policies use the duration to plan ahead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.state import Deploying, Restarting, WaitingForResources
from airflow_adaptive._core.scheduler.timeline import Rescale, TerminatedReason, TriggerCause

RECENT: Final = 10
"""Number of rescales per tier that count; older rescales do not represent the current job and cluster."""

UNDER_WAY: Final = frozenset(state.__name__ for state in (Deploying, Restarting, WaitingForResources))
"""States in which a rescale is in progress. Before these states, the rescale only waits, and the wait may be long."""

MAX_WAIT: Final = timedelta(seconds=30)
"""Part of the wait before a rescale that counts: for the end of a batch, or for the cooldown."""


def rescale_costs(rescales: Iterable[Rescale]) -> Mapping[Tier, timedelta]:
    """Return the longest duration of the newest rescales per tier, from the cause until the new parallelism was active.

    Args:
        rescales: rescales that have ended, oldest first.
    """
    durations: dict[Tier, list[timedelta]] = {}
    for rescale in rescales:
        if rescale.tier is not None and _counts(rescale):
            durations.setdefault(rescale.tier, []).append(_cost(rescale))
    return {tier: max(costs[-RECENT:]) for tier, costs in durations.items()}


def _counts(rescale: Rescale) -> bool:
    """Return whether a rescale changed the parallelism of a running job. A recovery from a failure contains a backoff."""
    is_change = rescale.vertices.before is not None and rescale.vertices.before != rescale.vertices.after
    is_requested = rescale.trigger_cause in (TriggerCause.UPDATE_REQUIREMENT, TriggerCause.NEW_RESOURCE_AVAILABLE)
    return is_change and is_requested and rescale.terminated_reason is TerminatedReason.SUCCEEDED


def _cost(rescale: Rescale) -> timedelta:
    spans = [(span.state in UNDER_WAY, span.left - span.entered) for span in rescale.states]
    carried_out = sum((length for under_way, length in spans if under_way), timedelta(0))
    waited = sum((length for under_way, length in spans if not under_way), timedelta(0))
    return carried_out + min(waited, MAX_WAIT)
