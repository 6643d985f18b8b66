"""A DAG that sets a job's resource requirements when a scheduled policy says so.

For jobs whose own DAG is not to change, and for policies that are kept apart from the jobs that they are for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_adaptive.autoscaling.calendar.changes import bounds_at
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.launch.job_control import JobControl
from airflow_adaptive.operators.job_control import ENDS, SetResourceRequirementsOperator
from airflow_adaptive.scheduler.config.durations import parse_duration
from airflow_adaptive.timetables.rescale_policy import LONGEST_LEAD, RescalePolicyTimetable
from airflow_adaptive.triggers.job_state import shown_state

if TYPE_CHECKING:
    from airflow.sdk import Context

TASK_ID: Final = "set_requirements"
"""Of the task of a DAG that `rescale_policy_dag` makes."""


class ApplyRescalePolicyOperator(SetResourceRequirementsOperator):
    """Set the bounds that a scheduled policy asks for now; when the run was due does not matter, so a late one does no harm.

    A job that was suspended, or has ended, is left alone: the task is skipped. What a person has set wins until it expires or is
    lifted. For a job with a rescale policy of its own these bounds take the place of the declared ones. XCom: the bounds, in FLIP-291's form.

    Args:
        job: id of the job. (templated)
        policy: it.
        lead: how early what gives more is set; None as if no rescale was measured.
        kwargs: of every Airflow operator.
    """

    template_fields: Sequence[str] = ("job",)
    is_calendar = True

    def __init__(self, *, job: str, policy: ScheduledPolicy, lead: timedelta | None = None, **kwargs: Any) -> None:
        """Only assign."""
        super().__init__(job=job, parallelism=None, **kwargs)
        self.policy = policy
        self.lead = lead

    def execute(self, context: Context) -> Mapping[str, Any]:
        """See `SetResourceRequirementsOperator`.

        Raises:
            AirflowFailException: there is no such job, it can't have other bounds, or these can't hold.
            AirflowSkipException: it was suspended or has ended, or the policy is a dry run; that tells the bounds.
        """
        try:
            known = JobControl(self.job).known()
            state = shown_state(known)
            if state in ENDS:
                raise AirflowSkipException(f"job {self.job!r} is {state}: the rescale policy leaves it alone")
            wanted = bounds_at(self.policy, datetime.now(UTC), known["requirements"], self.lead)
        except ValueError as error:
            raise AirflowFailException(f"job {self.job!r}: {error}") from error
        self.parallelism = {name: (bounds.lower, bounds.upper) for name, bounds in wanted.items()}
        if self.policy.dry_run:
            raise AirflowSkipException(f"dry run: the rescale policy would set {self.parallelism} of job {self.job!r}")
        return super().execute(context)


def rescale_policy_dag(
    dag_id: str, *, job: str, policy: ScheduledPolicy, lead: timedelta | float | str | None = None, **kwargs: Any
) -> DAG:
    """A DAG that sets a job's bounds at each change of a policy.

    Args:
        dag_id: of the DAG.
        job: id of the job. (templated)
        policy: it (`scheduled_policy`).
        lead: how early what gives more is set, at most a day: a DAG knows no measured rescale. None takes what the policy's
            `look_ahead` has for a job without measurements.
        kwargs: of the DAG, such as `start_date` and `tags`. Unless given, what was missed is made up for by one run.

    Raises:
        RescalePolicyError: there is no job, the policy is no scheduled one, the lead no length of time, or the DAG is to have
            another schedule; lists everything.
    """
    early = _checked(dag_id, job, policy, lead, kwargs)
    timetable = RescalePolicyTimetable(policy, early)
    with DAG(dag_id, schedule=timetable, **({"catchup": False, "max_active_runs": 1} | kwargs)) as dag:
        ApplyRescalePolicyOperator(task_id=TASK_ID, job=job, policy=policy, lead=early)
    return dag


def _checked(dag_id: str, job: object, policy: object, lead: object, others: Collection[str]) -> timedelta | None:
    """The lead; a DAG file with what is wrong is one import error, before Airflow asks the timetable for anything."""
    wrong, early = [], None
    if not isinstance(job, str) or not job.strip():
        wrong.append(f"job is {job!r}: give the id of the job")
    if "schedule" in others:
        wrong.append("schedule can't be given: the policy is the schedule")
    if not isinstance(policy, ScheduledPolicy):
        kind = type(policy).__name__
        wrong.append(
            f"policy is a {kind}: give what scheduled_policy() returns (a load is looked at by the job's own `rescale_policy` only)"
        )
    try:
        early = None if lead is None else parse_duration(lead)
    except ValueError as error:
        wrong.append(f"lead: {error}")
    if early is not None and not timedelta(0) <= early <= LONGEST_LEAD:
        wrong.append(f"lead {lead!r} must be from 0 to 1 day")
    if wrong:
        raise RescalePolicyError(f"rescale_policy_dag {dag_id!r}", wrong)
    return early
