"""Bodies about rescales with the names of Flink 2.3's REST API (FLIP-487). The additional fields follow Flink's fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from airflow_adaptive._web.data.documents import Document

MILLISECOND: Final = timedelta(milliseconds=1)

WholeMillis = Annotated[int, BeforeValidator(lambda duration: duration // MILLISECOND)]
Millis = Annotated[float, BeforeValidator(lambda duration: round(duration / MILLISECOND, 3))]
"""Durations in milliseconds, read from `timedelta`."""


class RescaleConfig(Document):
    """Flink: JobRescaleConfigInfo."""

    rescaleHistoryMax: int
    schedulerExecutionMode: str | None
    submissionResourceWaitTimeoutInMillis: int = Field(description="-1 means no timeout.")
    submissionResourceStabilizationTimeoutInMillis: int
    slotIdleTimeoutInMillis: int
    executingCooldownTimeoutInMillis: int
    executingResourceStabilizationTimeoutInMillis: int
    maximumDelayForTriggeringRescaleInMillis: int
    rescaleOnFailedCheckpointCount: int
    scalingIntervalMaxInMillis: int | None
    minParallelismIncrease: int
    belowLowerBound: str


class VertexRescale(Document):
    """Flink: VertexParallelismRescaleInfo."""

    jobVertexId: str
    jobVertexName: str
    slotSharingGroupId: str
    slotSharingGroupName: str
    desiredParallelism: int
    sufficientParallelism: int
    preRescaleParallelism: int | None
    postRescaleParallelism: int | None


class GroupRescale(Document):
    """Flink: SlotSharingGroupRescaleInfo, without resource profiles, because all executors of a job are equal."""

    slotSharingGroupId: str
    slotSharingGroupName: str
    desiredSlots: int
    minimalRequiredSlots: int
    preRescaleSlots: int | None
    postRescaleSlots: int | None


class SchedulerStateSpan(Document):
    """Flink: SchedulerStateSpan."""

    state: str
    enterTimestampInMillis: int
    leaveTimestampInMillis: int
    durationInMillis: int
    stringifiedException: str | None = None


class RescaleDetails(Document):
    """Flink: JobRescaleDetails; the fields from number on are additions."""

    rescaleUuid: str
    resourceRequirementsUuid: str
    rescaleAttemptId: int
    vertices: dict[str, VertexRescale]
    slots: dict[str, GroupRescale]
    schedulerStates: list[SchedulerStateSpan] | None = Field(
        description="Only in the details of a rescale, as in Flink."
    )
    startTimestampInMillis: int
    endTimestampInMillis: int | None
    terminalState: str | None
    triggerCause: str
    terminatedReason: str | None
    number: int
    tier: str | None
    downtimeInMillis: int | None
    failure: str | None


class RescaleCounts(Document):
    """Flink: RescalesCounts."""

    ignored: int
    inProgress: int = Field(validation_alias="in_progress")
    completed: int
    failed: int


class LatestRescales(Document):
    """Flink: LatestRescales."""

    completed: RescaleDetails | None
    failed: RescaleDetails | None
    ignored: RescaleDetails | None


class RescalesOverview(Document):
    """Flink: JobRescalesOverview."""

    rescalesCounts: RescaleCounts
    latest: LatestRescales


class Statistics(Document):
    """Flink: StatsSummaryDto, in milliseconds."""

    min: WholeMillis
    max: WholeMillis
    avg: WholeMillis
    p50: Millis
    p90: Millis
    p95: Millis
    p99: Millis
    p999: Millis


class RescalesSummary(Document):
    """Flink: JobRescalesSummary; the downtime is an addition. Statistics without rescales are null."""

    rescalesCounts: RescaleCounts
    rescalesDurationStatsInMillis: Statistics | None
    completedRescalesDurationStatsInMillis: Statistics | None
    ignoredRescalesDurationStatsInMillis: Statistics | None
    failedRescalesDurationStatsInMillis: Statistics | None
    downtimeStatsInMillis: Statistics | None
