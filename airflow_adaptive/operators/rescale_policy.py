"""The operator that applies a scheduled rescale policy to a job of another DAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_adaptive.airflow_internals import AirflowFailException, AirflowSkipException
from airflow_adaptive.autoscaling.calendar.changes import bounds_at
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.launch.job_control import JobControl
from airflow_adaptive.launch.job_state import ENDED
from airflow_adaptive.operators.job_control import SetResourceRequirementsOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApplyRescalePolicyOperator(SetResourceRequirementsOperator):
    """Set the bounds that a scheduled policy advises at the time of execution, so that a late run sets the current bounds.

    The task is skipped for a job that is suspended or has ended. The override of a user takes precedence until it expires or is cleared.
    For a job that also has a rescale policy of its own, these bounds replace the declared bounds. The return value (XCom) contains the bounds in
    the form of FLIP-291.

    Args:
        job: id of the job. (templated)
        policy: the scheduled policy (`scheduled_policy`).
        lead: time by which larger bounds are set early; None for the lead of a policy without measured rescales.
        kwargs: parameters of every Airflow operator.
    """

    template_fields: Sequence[str] = ("job",)
    is_calendar = True

    def __init__(self, *, job: str, policy: ScheduledPolicy, lead: timedelta | None = None, **kwargs: Any) -> None:
        """Only assign."""
        super().__init__(job=job, parallelism=None, **kwargs)
        self.policy = policy
        self.lead = lead

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Set the bounds (see `SetResourceRequirementsOperator`).

        Raises:
            AirflowFailException: the job does not exist or rejects an override, or the bounds are invalid.
            AirflowSkipException: the job is suspended or has ended, or the policy is a dry run; the message then contains the bounds.
        """
        self.parallelism = self._advised_parallelism()
        if self.policy.dry_run:
            raise AirflowSkipException(f"dry run: the rescale policy would set {self.parallelism} for job {self.job!r}")
        return super().execute(context)

    def _advised_parallelism(self) -> dict[str, tuple[int, int]]:
        """Vertex -> bounds that the policy advises now."""
        try:
            summary = JobControl(self.job).known_summary()
            if summary.status in ENDED:
                raise AirflowSkipException(
                    f"job {self.job!r} is {summary.status}: the rescale policy does not apply to it"
                )
            advised = bounds_at(self.policy, datetime.now(UTC), summary.vertices, self.lead)
        except ValueError as error:
            raise AirflowFailException(f"job {self.job!r}: {error}") from error
        return {name: (bounds.lower, bounds.upper) for name, bounds in advised.items()}
