"""The sensor that waits for a state of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.internals import AirflowSensorTimeout, AirflowSkipException
from airflow_adaptive._airflow.process.job_control import ENDED, wait_for_state
from airflow_adaptive._core.view import STATE_NAMES
from airflow_adaptive.triggers.job_state import JobStateTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class AdaptiveJobSensor(BaseSensorOperator):
    """Wait until a job is in one of several states, for example until the job executes or has ended.

    The return value (XCom) contains the state that the job reached, and its parallelism at that time.

    Args:
        job: id of the job. (templated)
        states: names of states, as in docs/concepts/states.md; for a job that has ended, FINISHED, CANCELED, FAILED or SUSPENDED.
            The sensor succeeds when the job is in any of these states.
        deferrable: wait in the triggerer instead of in the worker.
        kwargs: parameters of every Airflow sensor. `timeout` limits the wait. `soft_fail` skips the task instead of failing it.
    """

    template_fields: Sequence[str] = ("job",)

    def __init__(
        self, *, job: str, states: Sequence[str] = ("Executing",), deferrable: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.states = states
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait in the triggerer or in the worker.

        Raises:
            AirflowFailException: a state does not exist.
            AirflowSensorTimeout: the job did not reach any of the states before the timeout.
        """
        states = [self.states] if isinstance(self.states, str) else [*self.states]
        with validation.airflow_errors(self.job):
            validation.job_states(states, (*STATE_NAMES, *ENDED))
        until = datetime.now(UTC) + timedelta(seconds=self.timeout)
        if self.deferrable:
            trigger = JobStateTrigger(job=self.job, states=states, until=until.isoformat())
            self.defer(trigger=trigger, method_name="execute_complete")
        return self.execute_complete(context, asyncio.run(wait_for_state(self.job, states, until)))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return or raise the result of the wait."""
        if event["status"] == "reached":
            return {"state": event["state"], "parallelism": event["parallelism"]}
        state = "is not known to Airflow" if event["state"] is None else f"is {event['state']}"
        states = self.states if isinstance(self.states, str) else " or ".join(self.states)
        message = f"job {self.job!r} {state}, not {states}, after {self.timeout:g} s [timeout]"
        raise (AirflowSkipException if self.soft_fail else AirflowSensorTimeout)(message)
