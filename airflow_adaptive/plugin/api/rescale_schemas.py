"""Bodies about rescales: names and meaning are those of Flink 2.3's REST API (FLIP-487); what is ours comes after them."""

from __future__ import annotations

from pydantic import Field

from airflow_adaptive.plugin.api.schemas import Answer


class RescaleConfig(Answer):
    """Flink: JobRescaleConfigInfo."""

    rescaleHistoryMax: int
    schedulerExecutionMode: str | None
    submissionResourceWaitTimeoutInMillis: int = Field(description="-1: for ever.")
    submissionResourceStabilizationTimeoutInMillis: int
    slotIdleTimeoutInMillis: int
    executingCooldownTimeoutInMillis: int
    executingResourceStabilizationTimeoutInMillis: int
    maximumDelayForTriggeringRescaleInMillis: int
    rescaleOnFailedCheckpointCount: int
    scalingIntervalMaxInMillis: int | None
    minParallelismIncrease: int
    belowLowerBound: str


class VertexRescale(Answer):
    """Flink: VertexParallelismRescaleInfo."""

    jobVertexId: str
    jobVertexName: str
    slotSharingGroupId: str
    slotSharingGroupName: str
    desiredParallelism: int
    sufficientParallelism: int
    preRescaleParallelism: int | None
    postRescaleParallelism: int | None


class GroupRescale(Answer):
    """Flink: SlotSharingGroupRescaleInfo, without resource profiles: all executors of a job are alike."""

    slotSharingGroupId: str
    slotSharingGroupName: str
    desiredSlots: int
    minimalRequiredSlots: int
    preRescaleSlots: int | None
    postRescaleSlots: int | None


class SchedulerStateSpan(Answer):
    """Flink: SchedulerStateSpan."""

    state: str
    enterTimestampInMillis: int
    leaveTimestampInMillis: int
    durationInMillis: int
    stringifiedException: str | None = None


class RescaleDetails(Answer):
    """Flink: JobRescaleDetails; number, tier, downtime and failure are ours."""

    rescaleUuid: str
    resourceRequirementsUuid: str
    rescaleAttemptId: int
    vertices: dict[str, VertexRescale]
    slots: dict[str, GroupRescale]
    schedulerStates: list[SchedulerStateSpan] | None = Field(description="In the details only, as in Flink.")
    startTimestampInMillis: int
    endTimestampInMillis: int | None
    terminalState: str | None
    triggerCause: str
    terminatedReason: str | None
    number: int
    tier: str | None
    downtimeInMillis: int | None
    failure: str | None


class RescaleCounts(Answer):
    """Flink: RescalesCounts."""

    ignored: int
    inProgress: int
    completed: int
    failed: int


class LatestRescales(Answer):
    """Flink: LatestRescales."""

    completed: RescaleDetails | None
    failed: RescaleDetails | None
    ignored: RescaleDetails | None


class RescalesOverview(Answer):
    """Flink: JobRescalesOverview."""

    rescalesCounts: RescaleCounts
    latest: LatestRescales


class Statistics(Answer):
    """Flink: StatsSummaryDto, milliseconds."""

    min: int
    max: int
    avg: int
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


class RescalesSummary(Answer):
    """Flink: JobRescalesSummary; the downtime is ours. Statistics of nothing are null."""

    rescalesCounts: RescaleCounts
    rescalesDurationStatsInMillis: Statistics | None
    completedRescalesDurationStatsInMillis: Statistics | None
    ignoredRescalesDurationStatsInMillis: Statistics | None
    failedRescalesDurationStatsInMillis: Statistics | None
    downtimeStatsInMillis: Statistics | None
