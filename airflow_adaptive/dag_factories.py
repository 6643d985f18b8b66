"""Functions that build whole DAGs from the components of this provider. `airflow_adaptive.operators` exports the functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import DAG

from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.operators.rescale_policy import ApplyRescalePolicyOperator
from airflow_adaptive.scheduler.config.durations import parse_duration
from airflow_adaptive.timetables.rescale_policy import LONGEST_LEAD, RescalePolicyTimetable

TASK_ID: Final = "set_requirements"
"""Id of the task of a DAG that `rescale_policy_dag` builds."""


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
