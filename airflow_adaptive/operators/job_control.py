"""Operators with which other DAGs change the resource requirements of a job, and stop a job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.internals import AirflowException, AirflowFailException
from airflow_adaptive._airflow.process.job_control import ENDED, Bounds, JobControl, wait_for_state
from airflow_adaptive._airflow.store.task_xcoms import task_of
from airflow_adaptive._core.failure_code import with_code
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._core.requirements.request_bodies import NotRescalableError
from airflow_adaptive._core.scheduler.config.parsing import positive
from airflow_adaptive.triggers.job_state import JobStateTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class SetResourceRequirementsOperator(BaseOperator):
    """Override the bounds of a job (FLIP-291), like `PUT /jobs/<job>/resource-requirements`.

    The job follows within seconds, subject to its cooldown. The override takes precedence over the rescale policy of the job. It also
    applies after restarts and in the next run of the job's DAG, until it expires, is changed or is cleared. A suspended job uses the
    override when it resumes. A batch, a job in reactive mode and a job that has ended reject an override. The return value (XCom)
    contains the bounds in the form of FLIP-291.

    Args:
        job: id of the job. (templated)
        parallelism: lower and upper bound of every vertex, or one number for both; or a mapping from every vertex to its bounds. -1
            stands for the declared bound. None clears the override. (templated; numbers require `render_template_as_native_obj` of
            the DAG)
        duration: time until the expiry of the override, for example "2 h"; None for an override that does not expire. (templated)
        kwargs: parameters of every Airflow operator.
    """

    template_fields: Sequence[str] = ("job", "parallelism", "duration")

    is_calendar: ClassVar[bool] = False
    """Whether the bounds are those of a calendar. The override of a user takes precedence over a calendar."""

    def __init__(
        self,
        *,
        job: str,
        parallelism: Bounds | Mapping[str, Bounds] | None,
        duration: timedelta | float | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.parallelism = parallelism
        self.duration = duration

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Validate the bounds, and store the override for the job.

        Raises:
            AirflowFailException: the job does not exist or rejects an override, or the bounds are invalid. The message lists all
                violations.
        """
        by, control = str(task_of(context)), JobControl(self.job)
        with validation.airflow_errors(self.job):
            try:
                return control.request_requirements(
                    self.parallelism, by=by, duration=self._duration(), calendar=self.is_calendar
                )
            except NotRescalableError as error:  # Its text names the job.
                raise AirflowFailException(with_code(error)) from error

    def _duration(self) -> timedelta | None:
        """Return the duration of the override. Raises `ValueError`."""
        if self.duration is not None and self.parallelism is None:
            raise ValueError("duration has no effect without parallelism: set parallelism, or remove duration")
        return None if self.duration is None else positive(self.duration)


class StopAdaptiveJobOperator(BaseOperator):
    """Suspend or cancel a job at a batch boundary, and wait until the job has ended.

    The return value (XCom) is the outcome of the job. The operator does not change a job that has ended already.

    Args:
        job: id of the job. (templated)
        cancel: cancel the job instead of suspending it. The task of a canceled job fails without a retry; the task of a suspended job
            succeeds. Both keep the checkpoint, and the next run of the job's DAG continues from the checkpoint.
        timeout: longest wait. The control loop kills a driver that does not stop within the `stop_timeout` of the job. The stop
            takes longer only if no control loop runs.
        deferrable: wait in the triggerer instead of in the worker.
        kwargs: parameters of every Airflow operator.
    """

    template_fields: Sequence[str] = ("job",)

    def __init__(
        self,
        *,
        job: str,
        cancel: bool = False,
        timeout: timedelta | float | str = "10 min",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.cancel = cancel
        self.timeout = timeout
        self.deferrable = deferrable

    def execute(self, context: Context) -> str:
        """Request the stop, and wait.

        Returns:
            FINISHED, CANCELED, FAILED or SUSPENDED.

        Raises:
            AirflowFailException: the job does not exist.
            AirflowException: the job did not end before the timeout.
        """
        with validation.airflow_errors(self.job):
            until = datetime.now(UTC) + positive(self.timeout)
            if (outcome := self._request_stop(str(task_of(context)))) is not None:
                return outcome
        if self.deferrable:
            trigger = JobStateTrigger(job=self.job, states=ENDED, until=until.isoformat())
            self.defer(trigger=trigger, method_name="execute_complete")
        return self.execute_complete(context, asyncio.run(wait_for_state(self.job, ENDED, until)))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> str:
        """Return or raise the result of the wait."""
        if event["status"] == "timeout":
            raise AirflowException(
                f"job {self.job!r} did not end within {self.timeout}. Its state is {event['state']}. Check that the task of the job "
                "is deferred and that Airflow's triggerer runs: the job ends as soon as both are true [timeout]"
            )
        return str(event["state"])

    def _request_stop(self, by: str) -> str | None:
        """Request the stop, and return None; or return the outcome of a job that has ended already. Raises `ValueError`."""
        control = JobControl(self.job)
        if (state := control.known_summary().status) in ENDED:
            self.log.warning("Job %r has ended already: %s", self.job, state)
            return str(state)
        control.request_desired_state(DesiredState.CANCELED if self.cancel else DesiredState.SUSPENDED, by=by)
        return None
