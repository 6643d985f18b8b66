"""A timetable with a run at each change of the advice of a scheduled policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

from airflow_adaptive._airflow.internals import AirflowTimetableInvalid
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.failure_code import DECLARATION
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive.autoscaling.calendar.changes import last_change, upcoming_changes
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy

LONGEST_LEAD = timedelta(days=1)

_INSTANT = timedelta(microseconds=1)


class RescalePolicyTimetable(Timetable):
    """Schedules a run at the exact time of each change of the bounds that a policy advises.

    Without catchup, one run replaces all missed runs. The timetable does not know the declared bounds of the job. If these bounds cancel a
    change out, the run sets the bounds that are active already.
    """

    def __init__(self, policy: ScheduledPolicy, lead: timedelta | None = None) -> None:
        """Assign.

        Args:
            policy: the scheduled policy.
            lead: time by which larger bounds are set early; None for the lead of a policy without measured rescales.
        """
        self.policy = policy
        self.lead = policy.lead({}) if lead is None else lead
        names = ", ".join(window.when.name for window in policy.windows)
        self.description = f"Changes of the rescale policy: {names} ({policy.zone})"

    @property
    def summary(self) -> str:
        """Summary for the list of DAGs."""
        return f"Rescale policy ({self.policy.zone})"

    def validate(self) -> None:
        """Validate the lead.

        Raises:
            AirflowTimetableInvalid: the lead is negative or longer than one day.
        """
        if not timedelta(0) <= self.lead <= LONGEST_LEAD:
            raise AirflowTimetableInvalid(f"lead {self.lead} must be from 0 to 1 day [{DECLARATION}]")

    def serialize(self) -> dict[str, Any]:
        """Return the policy and the lead as JSON."""
        return {"policy": encode(self.policy), "lead": self.lead.total_seconds()}

    @classmethod
    def deserialize(cls, data: Mapping[str, Any]) -> RescalePolicyTimetable:
        """Return the timetable from the result of `serialize`."""
        return cls(decode(ScheduledPolicy, data["policy"]), timedelta(seconds=data["lead"]))

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """Return the time of a manual run as its data interval."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the next change after the last run. Without catchup, return no change before the newest change in the past."""
        starts: list[datetime] = [] if restriction.earliest is None else [restriction.earliest]
        if last_automated_data_interval is not None:
            starts.append(last_automated_data_interval.end + _INSTANT)
        if not restriction.catchup:
            now = datetime.now(UTC)
            starts.append(last_change(self.policy, now, self.lead) or now)
        return self._first(max(starts), restriction.latest) if starts else None

    def _first(self, since: datetime, latest: datetime | None) -> DagRunInfo | None:
        """Return the first change at or after a time."""
        changes = upcoming_changes(self.policy, since - _INSTANT, 1, lead=self.lead)
        if not changes or (latest is not None and changes[0].at > latest):
            return None
        return DagRunInfo.exact(pendulum.instance(changes[0].at))
