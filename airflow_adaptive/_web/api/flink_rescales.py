"""Converts rescales to the bodies of Flink 2.3's REST API (FLIP-487).

Flink identifies rescales by UUIDs. This module derives stable UUIDs from the numbers of the rescales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from airflow_adaptive._core.scheduler.history.rescale_summary import summarize
from airflow_adaptive._core.scheduler.resource_checks import max_trigger_delay
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.timeline import Amounts, Rescale, TerminalState
from airflow_adaptive._web.api import rescale_schemas as schemas

NO_TIMEOUT = -1
"""Flink's value for no timeout."""


def config(state: SchedulerState) -> schemas.RescaleConfig:
    """Return the options that decide when a job rescales."""
    options = state.options
    wait, interval_max = options.resource_wait_timeout, options.scaling_interval_max
    return schemas.RescaleConfig(
        rescaleHistoryMax=options.history_size,
        schedulerExecutionMode="REACTIVE" if options.reactive else None,
        submissionResourceWaitTimeoutInMillis=NO_TIMEOUT if wait is None else _millis(wait),
        submissionResourceStabilizationTimeoutInMillis=_millis(options.resource_stabilization_timeout),
        slotIdleTimeoutInMillis=_millis(options.slot_idle_timeout),
        executingCooldownTimeoutInMillis=_millis(options.scaling_interval_min),
        executingResourceStabilizationTimeoutInMillis=_millis(options.executing_stabilization_timeout),
        maximumDelayForTriggeringRescaleInMillis=_millis(max_trigger_delay(state)),
        rescaleOnFailedCheckpointCount=options.max_failed_batches,
        scalingIntervalMaxInMillis=None if interval_max is None else _millis(interval_max),
        minParallelismIncrease=options.min_parallelism_increase,
        belowLowerBound=options.below_lower_bound.value,
    )


def history(job: str, rescales: Sequence[Rescale], groups: Mapping[str, str]) -> list[schemas.RescaleDetails]:
    """Return rescales, newest first, without the states of the scheduler.

    Args:
        job: id of the job.
        rescales: oldest first.
        groups: vertex -> slot sharing group.
    """
    return [details(job, rescale, groups, with_states=False) for rescale in reversed(rescales)]


def overview(job: str, rescales: Sequence[Rescale], groups: Mapping[str, str]) -> schemas.RescalesOverview:
    """Return the number of rescales, and the latest rescale of each terminal state."""
    latest = {rescale.terminal_state: rescale for rescale in rescales}
    by_state = {
        state.value.lower(): details(job, latest[state], groups, with_states=False) if state in latest else None
        for state in TerminalState
    }
    counts = schemas.RescaleCounts.model_validate(summarize(rescales))
    return schemas.RescalesOverview(rescalesCounts=counts, latest=schemas.LatestRescales(**by_state))


def summary(rescales: Sequence[Rescale]) -> schemas.RescalesSummary:
    """Return the statistics of rescales."""
    totals = summarize(rescales)
    return schemas.RescalesSummary.model_validate(
        {
            "rescalesCounts": totals,
            "rescalesDurationStatsInMillis": totals.duration,
            "completedRescalesDurationStatsInMillis": totals.completed_duration,
            "ignoredRescalesDurationStatsInMillis": totals.ignored_duration,
            "failedRescalesDurationStatsInMillis": totals.failed_duration,
            "downtimeStatsInMillis": totals.downtime,
        }
    )


def find(job: str, rescales: Sequence[Rescale], name: str) -> Rescale | None:
    """Return the rescale with this UUID or number, None if it does not exist."""
    return next((r for r in rescales if name in (str(r.number), str(rescale_uuid(job, r.number)))), None)


def details(
    job: str, rescale: Rescale, groups: Mapping[str, str], *, with_states: bool = True
) -> schemas.RescaleDetails:
    """One rescale. As in Flink, only the details contain the states of the scheduler."""
    return schemas.RescaleDetails(
        rescaleUuid=str(rescale_uuid(job, rescale.number)),
        resourceRequirementsUuid=str(_uuid(job, "requirements", rescale.requirements)),
        rescaleAttemptId=rescale.attempt,
        vertices=_vertices(rescale.vertices, groups),
        slots=_slots(rescale.groups),
        schedulerStates=_spans(rescale) if with_states else None,
        startTimestampInMillis=_epoch(rescale.start),
        endTimestampInMillis=None if rescale.end is None else _epoch(rescale.end),
        terminalState=rescale.terminal_state,
        triggerCause=rescale.trigger_cause,
        terminatedReason=rescale.terminated_reason,
        number=rescale.number,
        tier=None if rescale.tier is None else rescale.tier.name,
        downtimeInMillis=None if rescale.downtime is None else _millis(rescale.downtime),
        failure=rescale.failure,
    )


def rescale_uuid(job: str, number: int) -> UUID:
    """Return the UUID of a rescale."""
    return _uuid(job, "rescale", number)


def _uuid(job: str, kind: str, number: int) -> UUID:
    return uuid5(NAMESPACE_URL, f"airflow-adaptive:{job}/{kind}/{number}")


def _vertices(amounts: Amounts, groups: Mapping[str, str]) -> dict[str, schemas.VertexRescale]:
    return {
        name: schemas.VertexRescale(
            jobVertexId=name,
            jobVertexName=name,
            slotSharingGroupId=groups.get(name, ""),
            slotSharingGroupName=groups.get(name, ""),
            **_values(amounts, name, "desiredParallelism", "sufficientParallelism", "Parallelism"),
        )
        for name in amounts.desired
    }


def _slots(amounts: Amounts) -> dict[str, schemas.GroupRescale]:
    return {
        name: schemas.GroupRescale(
            slotSharingGroupId=name,
            slotSharingGroupName=name,
            **_values(amounts, name, "desiredSlots", "minimalRequiredSlots", "Slots"),
        )
        for name in amounts.desired
    }


def _values(amounts: Amounts, name: str, desired: str, sufficient: str, unit: str) -> dict[str, Any]:
    return {
        desired: amounts.desired[name],
        sufficient: amounts.sufficient.get(name, 0),
        f"preRescale{unit}": (amounts.before or {}).get(name),
        f"postRescale{unit}": (amounts.after or {}).get(name),
    }


def _spans(rescale: Rescale) -> list[schemas.SchedulerStateSpan]:
    return [
        schemas.SchedulerStateSpan(
            state=span.state,
            enterTimestampInMillis=_epoch(span.entered),
            leaveTimestampInMillis=_epoch(span.left),
            durationInMillis=_millis(span.left - span.entered),
        )
        for span in rescale.states
    ]


def _millis(duration: timedelta) -> int:
    return duration // schemas.MILLISECOND


def _epoch(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
