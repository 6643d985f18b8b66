"""A DAG that sets a job's resource requirements when a scheduled policy says so.

For jobs whose own DAG is not to change, and for policies that are kept apart from the jobs that they are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_adaptive.autoscaling.scheduled import ScheduledPolicy
from airflow_adaptive.autoscaling.scheduled_preview import bounds_at
from airflow_adaptive.hooks.job_control import JobControl
from airflow_adaptive.operators.job_control import ENDS, SetResourceRequirementsOperator
from airflow_adaptive.policy_timetable import RescalePolicyTimetable
from airflow_adaptive.triggers.job_state import shown_state

if TYPE_CHECKING:
    from airflow.sdk import Context

TASK_ID: Final = "set_requirements"
"""Of the task of a DAG that `rescale_policy_dag` makes."""


class ApplyRescalePolicyOperator(SetResourceRequirementsOperator):
    """Set the bounds that a scheduled policy asks for now; when the run was due does not matter, so a late one does no harm.

    A job that was suspended, or has ended, is left alone: the task is skipped. What a person has set holds until the next
    change. XCom: the bounds, in FLIP-291's form.

    Args:
        job: id of the job. (templated)
        policy: it.
        lead: how early what gives more is set; None as if no rescale was measured.
        kwargs: of every Airflow operator.
    """

    template_fields: Sequence[str] = ("job",)

    def __init__(self, *, job: str, policy: ScheduledPolicy, lead: timedelta | None = None, **kwargs: Any) -> None:
        """Only assign."""
        super().__init__(job=job, parallelism=None, **kwargs)
        self.policy = policy
        self.lead = lead

    def execute(self, context: Context) -> Mapping[str, Any]:
        """See `SetResourceRequirementsOperator`.

        Raises:
            AirflowFailException: there is no such job, it can't have other bounds, or these can't hold.
            AirflowSkipException: it was suspended or has ended.
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
        return super().execute(context)


def rescale_policy_dag(
    dag_id: str, *, job: str, policy: ScheduledPolicy, lead: timedelta | None = None, **kwargs: Any
) -> DAG:
    """A DAG that sets a job's bounds at each change of a policy.

    Args:
        dag_id: of the DAG.
        job: id of the job. (templated)
        policy: it (`scheduled_policy`).
        lead: how early what gives more is set: a DAG knows no measured rescale. None takes what the policy's `look_ahead` has
            for a job without measurements.
        kwargs: of the DAG, such as `start_date` and `tags`. Unless given, what was missed is made up for by one run.
    """
    timetable = RescalePolicyTimetable(policy, lead)
    with DAG(dag_id, schedule=timetable, **({"catchup": False, "max_active_runs": 1} | kwargs)) as dag:
        ApplyRescalePolicyOperator(task_id=TASK_ID, job=job, policy=policy, lead=lead)
    return dag
