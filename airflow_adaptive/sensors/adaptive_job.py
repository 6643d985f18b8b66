"""The sensor that waits for a state of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException

from airflow_adaptive.runtime.publishing.job_view import STATE_NAMES
from airflow_adaptive.scheduler.errors import did_you_mean
from airflow_adaptive.scheduler.state import Outcome
from airflow_adaptive.triggers.job_state import JobStateTrigger, wait_for_state

if TYPE_CHECKING:
    from airflow.sdk import Context

KNOWN: Final = (*STATE_NAMES, *(outcome.value for outcome in Outcome))


class AdaptiveJobSensor(BaseSensorOperator):
    """Wait until a job is in a state: until it executes, say, or until it has ended.

    XCom: the state that was reached, and the parallelism then.

    Args:
        job: id of the job. (templated)
        states: any of these; names as in docs/state-machine.md, of a job that has ended FINISHED, CANCELED, FAILED, SUSPENDED.
        deferrable: wait in the triggerer; else in this worker.
        kwargs: of every Airflow sensor; `timeout` bounds the wait, `soft_fail` skips instead of failing.
    """

    template_fields: Sequence[str] = ("job",)

    def __init__(
        self, *, job: str, states: Sequence[str] = ("Executing",), deferrable: bool = True, **kwargs: Any
    ) -> None:
        """Only assign."""
        super().__init__(**kwargs)
        self.job = job
        self.states = states
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait in the triggerer, or here.

        Raises:
            AirflowFailException: there is no such state.
            AirflowSensorTimeout: the job was in none of them in time.
        """
        states = [self.states] if isinstance(self.states, str) else [*self.states]
        unknown = [
            f"unknown state {state!r}{did_you_mean(str(state), KNOWN)}" for state in states if state not in KNOWN
        ]
        if unknown or not states:
            raise AirflowFailException(f"job {self.job!r}: {'; '.join(unknown) or 'name a state to wait for'}")
        until = datetime.now(UTC) + timedelta(seconds=self.timeout)
        if self.deferrable:
            trigger = JobStateTrigger(job=self.job, states=states, until=until.isoformat())
            self.defer(trigger=trigger, method_name="resume")
        return self._result(asyncio.run(wait_for_state(self.job, states, until)))

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """The trigger fired."""
        return self._result(event)

    def _result(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["status"] == "reached":
            return {"state": event["state"], "parallelism": event["parallelism"]}
        seen = "is not known to Airflow" if event["state"] is None else f"is {event['state']}"
        message = f"job {self.job!r} {seen}, not {' or '.join(self.states)}, after {self.timeout:g} s"
        raise (AirflowSkipException if self.soft_fail else AirflowSensorTimeout)(message)
