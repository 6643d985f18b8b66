"""A timetable whose runs are due when a scheduled policy changes its advice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

from airflow_adaptive.autoscaling.calendar.changes import last_change, preview
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.scheduler.snapshot import decode, encode

LONGEST_LEAD = timedelta(days=1)

_INSTANT = timedelta(microseconds=1)


class RescalePolicyTimetable(Timetable):
    """Runs at each change of bounds that a policy foresees, at the very instant, in whatever zone and on whatever day.

    Without catchup a change that was missed is made up for by one run, since its bounds still hold. The limits of the job are
    not known here, so a change that its declared bounds make none is a run that sets what holds already.
    """

    def __init__(self, policy: ScheduledPolicy, lead: timedelta | None = None) -> None:
        """Nothing is looked at yet.

        Args:
            policy: it.
            lead: how early what gives more is set; None as if no rescale was measured.
        """
        self.policy = policy
        self.lead = policy.lead({}) if lead is None else lead
        names = ", ".join(window.when.name for window in policy.windows)
        self.description = f"When the rescale policy changes: {names} ({policy.zone})"

    @property
    def summary(self) -> str:
        """For the list of DAGs."""
        return f"Rescale policy ({self.policy.zone})"

    def validate(self) -> None:
        """See that the lead is a length of time.

        Raises:
            AirflowTimetableInvalid: it is not.
        """
        if not timedelta(0) <= self.lead <= LONGEST_LEAD:
            raise AirflowTimetableInvalid(f"lead {self.lead} must be from 0 to 1 day")

    def serialize(self) -> dict[str, Any]:
        """The policy as JSON."""
        return {"policy": encode(self.policy), "lead": self.lead.total_seconds()}

    @classmethod
    def deserialize(cls, data: Mapping[str, Any]) -> RescalePolicyTimetable:
        """What `serialize` wrote."""
        return cls(decode(ScheduledPolicy, data["policy"]), timedelta(seconds=data["lead"]))

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """A run that somebody starts is for that instant."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next change after the last run; without catchup not one before the last that lies in the past."""
        since: datetime | None = restriction.earliest
        if last_automated_data_interval is not None:
            last = last_automated_data_interval.end + _INSTANT
            since = last if since is None else max(last, since)
        if not restriction.catchup:
            now = datetime.now(UTC)
            current = last_change(self.policy, now, self.lead) or now
            since = current if since is None else max(current, since)
        if since is None:
            return None
        return self._first(since, restriction.latest)

    def _first(self, since: datetime, latest: datetime | None) -> DagRunInfo | None:
        """The first change from an instant on."""
        changes = preview(self.policy, since - _INSTANT, 1, lead=self.lead)
        if not changes or (latest is not None and changes[0].at > latest):
            return None
        return DagRunInfo.exact(pendulum.instance(changes[0].at))
