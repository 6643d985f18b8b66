"""Operators of other DAGs: they change what a job may use, and stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_adaptive.launch.job_control import Bounds, JobControl
from airflow_adaptive.ports import DesiredState
from airflow_adaptive.runtime.requirements.request_bodies import NotRescalableError
from airflow_adaptive.scheduler.config.durations import positive
from airflow_adaptive.scheduler.state import Outcome
from airflow_adaptive.triggers.job_state import JobStateTrigger, shown_state, wait_for_state

if TYPE_CHECKING:
    from airflow.sdk import Context

ENDS: Final = tuple(outcome.value for outcome in Outcome)


class SetResourceRequirementsOperator(BaseOperator):
    """Change the bounds of a running job (FLIP-291), as `PUT /jobs/<job>/resource-requirements` does.

    The job follows within seconds, as its cooldown allows. The bounds win over the job's rescale policy, also over restarts and
    the next run of its DAG, until they expire or somebody changes them again; None lifts them. A suspended job is resumed with them; a batch, a
    job in reactive mode and one that has ended for good can't have other bounds. XCom: the bounds, in FLIP-291's form.

    Args:
        job: id of the job. (templated)
        parallelism: lower and upper bound, or a number for both, of every vertex alike; or vertex -> bounds, for all vertices;
            -1 is the default of a bound; None lifts what was set. (templated; numbers need `render_template_as_native_obj` of
            the DAG)
        hold: for how long they hold, "2 h" say; None until they are lifted. (templated)
        kwargs: of every Airflow operator.
    """

    template_fields: Sequence[str] = ("job", "parallelism", "hold")

    is_calendar: ClassVar[bool] = False
    """Whether the bounds are a calendar's: what people have set wins over them."""

    def __init__(
        self,
        *,
        job: str,
        parallelism: Bounds | Mapping[str, Bounds] | None,
        hold: timedelta | float | str | None = None,
        **kwargs: Any,
    ) -> None:
        """Only assign."""
        super().__init__(**kwargs)
        self.job = job
        self.parallelism = parallelism
        self.hold = hold

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Validate the bounds, and leave them for the job.

        Raises:
            AirflowFailException: there is no such job, it can't have other bounds, or these can't hold; says everything that is
                wrong.
        """
        try:
            by, control = _who(context), JobControl(self.job)
            return control.require(self.parallelism, by=by, hold=self._holds(), calendar=self.is_calendar)
        except NotRescalableError as error:
            raise AirflowFailException(str(error)) from error
        except ValueError as error:
            raise AirflowFailException(f"job {self.job!r}: {error}") from error

    def _holds(self) -> timedelta | None:
        """For how long the bounds hold. Raises `ValueError`."""
        if self.hold is not None and self.parallelism is None:
            raise ValueError("hold is given without bounds that could hold: give parallelism, or leave hold out")
        return None if self.hold is None else positive(self.hold)


class StopAdaptiveJobOperator(BaseOperator):
    """Suspend or cancel a job at a batch boundary, and wait until it has ended.

    XCom: how it ended. A job that has ended already is left as it is.

    Args:
        job: id of the job. (templated)
        cancel: cancel it: its task fails then, without a retry. Else it is suspended: its task succeeds. Both leave the
            checkpoint, and the next run of the job's DAG goes on from there.
        timeout: how long to wait. A loop kills a driver that does not stop within the job's `stop_timeout`; longer than that
            it takes only if no loop runs.
        deferrable: wait in the triggerer; else in this worker.
        kwargs: of every Airflow operator.
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
        """Only assign."""
        super().__init__(**kwargs)
        self.job = job
        self.cancel = cancel
        self.timeout = timeout
        self.deferrable = deferrable

    def execute(self, context: Context) -> str:
        """Ask the job to stop, and wait.

        Returns:
            FINISHED, CANCELED, FAILED or SUSPENDED.

        Raises:
            AirflowFailException: there is no such job.
            AirflowException: it has not ended in time.
        """
        try:
            until = datetime.now(UTC) + positive(self.timeout)
            control = JobControl(self.job)
            if (state := shown_state(control.known())) in ENDS:
                self.log.warning("Job %r has ended already: %s", self.job, state)
                return str(state)
            control.request_desired_state(
                DesiredState.CANCELED if self.cancel else DesiredState.SUSPENDED, by=_who(context)
            )
        except ValueError as error:
            raise AirflowFailException(f"job {self.job!r}: {error}") from error
        if self.deferrable:
            trigger = JobStateTrigger(job=self.job, states=ENDS, until=until.isoformat())
            self.defer(trigger=trigger, method_name="resume")
        return self._result(asyncio.run(wait_for_state(self.job, ENDS, until)))

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """The trigger fired."""
        return self._result(event)

    def _result(self, event: Mapping[str, Any]) -> str:
        if event["status"] == "timeout":
            raise AirflowException(
                f"job {self.job!r} has not ended in time ({self.timeout}); it is {event['state']}: does its task wait, and does "
                "Airflow's triggerer run? It ends as soon as they do"
            )
        return str(event["state"])


def _who(context: Context) -> str:
    """Who asks, for people: the task."""
    ti = context["ti"]
    return f"{ti.dag_id}/{ti.task_id}/{ti.run_id}"
