"""The operator that applies a scheduled rescale policy to a job of another DAG, and the function that builds a DAG with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.internals import AirflowSkipException
from airflow_adaptive._airflow.process.job_control import ENDED, JobControl
from airflow_adaptive._core.scheduler.config.parsing import parse_duration
from airflow_adaptive.autoscaling.calendar.changes import bounds_at
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.operators.job_control import SetResourceRequirementsOperator
from airflow_adaptive.timetables.rescale_policy import LONGEST_LEAD, RescalePolicyTimetable

if TYPE_CHECKING:
    from airflow.sdk import Context

TASK_ID: Final = "set_requirements"
"""Id of the task of a DAG that `rescale_policy_dag` builds."""


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
        with validation.airflow_errors(self.job):
            summary = JobControl(self.job).known_summary()
            if summary.status in ENDED:
                raise AirflowSkipException(
                    f"job {self.job!r} is {summary.status}: the rescale policy does not apply to it"
                )
            advised = bounds_at(self.policy, datetime.now(UTC), tuple(summary.requirements), self.lead)
        return {name: (bounds.lower, bounds.upper) for name, bounds in advised.items()}


def rescale_policy_dag(
    dag_id: str, *, job: str, policy: ScheduledPolicy, lead: timedelta | float | str | None = None, **kwargs: Any
) -> DAG:
    """Build a DAG that sets the bounds of a job at each change of a policy.

    Use such a DAG for a job whose own DAG must not change, or to keep a policy apart from the job.

    Args:
        dag_id: id of the DAG.
        job: id of the job. (templated)
        policy: the policy (`scheduled_policy`).
        lead: time by which larger bounds are set early, at most one day. None uses the lead that the `look_ahead` of the policy has
            for a job without measured rescales.
        kwargs: parameters of the DAG, such as `start_date` and `tags`. By default, one run replaces all missed runs.

    Raises:
        RescalePolicyError: the job, the policy or the lead is invalid, or the arguments contain a schedule. The message lists all
            violations.
    """
    violations = [*_violations(job, policy, lead, kwargs)]
    if violations:
        raise RescalePolicyError(f"rescale_policy_dag {dag_id!r}", violations)
    parsed = None if lead is None else parse_duration(lead)
    timetable = RescalePolicyTimetable(policy, parsed)
    with DAG(dag_id, schedule=timetable, **({"catchup": False, "max_active_runs": 1} | kwargs)) as dag:
        ApplyRescalePolicyOperator(task_id=TASK_ID, job=job, policy=policy, lead=parsed)
    return dag


def _violations(job: object, policy: object, lead: object, others: Collection[str]) -> Iterator[str]:
    """Yield all violations, so that a DAG file has one import error for all of them."""
    if not isinstance(job, str) or not job.strip():
        yield f"job must be the id of a job, not {job!r}"
    if "schedule" in others:
        yield "schedule must not be set: the policy determines the schedule"
    if not isinstance(policy, ScheduledPolicy):
        yield (
            f"policy is a {type(policy).__name__}: use the result of scheduled_policy(). Only the "
            "`rescale_policy` of the job itself can follow the load"
        )
    yield from _lead_violations(lead)


def _lead_violations(lead: object) -> Iterator[str]:
    try:
        parsed = timedelta(0) if lead is None else parse_duration(lead)
    except ValueError as error:
        yield f"lead: {error}"
    else:
        if not timedelta(0) <= parsed <= LONGEST_LEAD:
            yield f"lead {lead!r} must be from 0 to 1 day"
