"""Scenarios of the scheduler without a cluster: *given* a state, *when* events arrive, *then* the state and the commands match.

    Scenario(lower=1, upper=4).given_waiting().when_slots(free=4).then("Deploying", SubmitDriver(...))

Time passes only in `after`. Like the loop, a scenario fires due timers in order, before any other event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverPrepared,
    Event,
    JobCompleted,
    JobRedeployed,
    PlanActivated,
    PlanRejected,
    QueryFailed,
    RequirementsChanged,
    SavepointCompleted,
    SavepointFailed,
    SchedulingStarted,
    SlotOffer,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from airflow_adaptive._core.scheduler.state import Finished, SchedulerState, WaitingForResources
from airflow_adaptive._core.scheduler.steps import Command, Step

START = datetime(2013, 1, 1, tzinfo=UTC)
TRANSIENT = Failure(error_class="TASK_FAILED", message="an executor was lost")
"""A recoverable failure."""
HOPELESS = Failure(error_class="SyntaxError", message="invalid syntax")
"""A failure that is not recoverable."""
UNENDED = Failure(
    error_class="airflow_adaptive.job.control.interfaces.BatchStillRunsError",
    message="the batch of query 'daily' did not end within 20 s",
)
"""The end of a driver that could not stop a batch."""

MAX_PARALLELISM = 128

_DEFAULTS: Mapping[str, Any] = {
    "slot_request_max_interval": 0,
    "restart_strategy": {"type": "exponential-delay", "jitter_factor": 0},
    "max_failures_before_first_batch": 1_000_000,
}

_TIMERS_AT_ONCE = 20
"""Number of timers that may fire at one moment."""


class Scenario:
    """One job, with a clock and the steps of the scheduler."""

    def __init__(
        self,
        lower: int = 1,
        upper: int = 4,
        *,
        graph: JobGraph | None = None,
        requirements: Requirements | None = None,
        **options: Any,
    ) -> None:
        """Create a job.

        Args:
            lower: lower bound of the only vertex. Ignored if `graph` is given.
            upper: upper bound of the only vertex. Ignored if `graph` is given.
            graph: job graph of a job with more than one vertex.
            requirements: accepted overrides of the graph's bounds.
            options: options of the scheduler, see `Options.of`. By default, changed requirements take effect immediately,
                the restart backoff has no jitter, and only the restart strategy limits the failures, as in Flink.
        """
        bounds = ParallelismRange(lower, upper)
        job = graph or JobGraph.single("job", bounds, max_parallelism=MAX_PARALLELISM)
        self.now = START
        self.state: SchedulerState = machine.create(job, Options.of({**_DEFAULTS, **options}), requirements)
        self.steps: list[Step] = []
        self.vertices_read: tuple[str, ...] | None = None
        self._checked = 0

    # ---- given ------------------------------------------------------------------------------------------------------

    def given_script(self, *vertices_read: str) -> Scenario:
        """The script reads the parallelism of these vertices, and the driver reports them."""
        self.vertices_read = vertices_read
        return self

    def given_waiting(self, free: int = 0) -> Scenario:
        """Scheduling started with this number of free slots."""
        self.when_slots(free=free).when(SchedulingStarted(at=self.now))
        return self._given()

    def given_deploying(self, slots: int) -> Scenario:
        """A new driver deploys the first plan."""
        self.given_waiting(free=slots)
        if isinstance(self.state.current, WaitingForResources):
            self.after(self.state.options.resource_stabilization_timeout.total_seconds())
        return self._given()

    def given_executing(self, slots: int) -> Scenario:
        """The first plan is active on this number of slots."""
        return self.given_deploying(slots).when_slots(held=slots).when_plan_activated()._given()

    def _given(self) -> Scenario:
        self._checked = len(self.steps)
        return self

    def given_standby(self, slots: int = 2) -> Scenario:
        """The plan is active, a batch is committed, and the standby is prepared."""
        return self.given_executing(slots).when_committed().when_prepared()._given()

    # ---- when -------------------------------------------------------------------------------------------------------

    def when(self, event: Event) -> Scenario:
        """An event arrives, and due timers fire."""
        return self.apply_without_timers(event).fire_due_timers()

    def apply_without_timers(self, event: Event) -> Scenario:
        """An event arrives, and no timer fires."""
        self.steps.append(machine.step(self.state, event))
        self.state = self.steps[-1].state
        return self

    def after(self, seconds: float) -> Scenario:
        """Time passes, and timers fire when they are due."""
        until = self.now + timedelta(seconds=seconds)
        while (due := machine.timers(self.state)) and due[0].due <= until:
            self.now = max(self.now, due[0].due)
            self.fire_due_timers()
        self.now = until
        return self

    def fire_due_timers(self) -> Scenario:
        """Fire the due timers one by one, because each may change the next one."""
        for _ in range(_TIMERS_AT_ONCE):
            due = machine.timers(self.state)
            if not due or due[0].due > self.now:
                return self
            self.apply_without_timers(TimerFired(at=self.now, timer=due[0].name, version=self.state.version))
        raise AssertionError(f"the timers of {self.state.name} fire without end: {machine.timers(self.state)}")

    def when_slots(self, held: int = 0, free: int = 0, standby: tuple[int, int] = (0, 0)) -> Scenario:
        """The job holds `held` slots and may take `free` more; `standby` are the slots that a standby holds, and those that it may take."""
        return self.when(self.slots(held, free, standby))

    def slots(self, held: int = 0, free: int = 0, standby: tuple[int, int] = (0, 0)) -> SlotsChanged:
        """Return the event without applying it."""
        offer = SlotOffer(worker="", held=standby[0], free=standby[1])
        return SlotsChanged(at=self.now, offers=(SlotOffer(worker="worker-1", held=held, free=free),), standby=offer)

    def when_requirements(self, lower: int, upper: int) -> Scenario:
        """A user sets the same bounds for every vertex."""
        return self.when(self.requirements(lower, upper))

    def requirements(self, lower: int, upper: int) -> RequirementsChanged:
        """Return the event without applying it."""
        bounds = dict.fromkeys(self.state.requirements, ParallelismRange(lower, upper))
        return RequirementsChanged(at=self.now, requirements=bounds)

    def when_prepared(self) -> Scenario:
        """The standby has prepared."""
        return self.when(DriverPrepared(at=self.now, epoch=self.standby_epoch))

    @property
    def standby_epoch(self) -> int:
        """Epoch of the standby."""
        assert self.state.standby.driver is not None
        return self.state.standby.driver.epoch

    def when_plan_activated(self) -> Scenario:
        """The driver reports that the plan is active."""
        return self.when(self.plan_activated())

    def plan_activated(self) -> PlanActivated:
        """Return the event without applying it."""
        version = 0 if self.state.plan is None else self.state.plan.version
        return PlanActivated(at=self.now, epoch=self.state.epoch, version=version, vertices_read=self.vertices_read)

    def when_rejected(self, failure: Failure = TRANSIENT) -> Scenario:
        """The driver rejects the plan."""
        return self.when(self.plan_rejected(failure))

    def plan_rejected(self, failure: Failure = TRANSIENT) -> PlanRejected:
        """Return the event without applying it."""
        version = 0 if self.state.plan is None else self.state.plan.version
        return PlanRejected(at=self.now, epoch=self.state.epoch, version=version, failure=failure)

    def when_redeployed(self, deployment: str = "new", graph: JobGraph | None = None) -> Scenario:
        """The job was deployed again, with another graph if one is given."""
        self.state = replace(self.state, job=graph or self.state.job)
        return self.when(JobRedeployed(at=self.now, deployment=deployment))

    def when_committed(self) -> Scenario:
        """A batch was committed."""
        return self.when(BatchCommitted(at=self.now, epoch=self.state.epoch))

    def when_query_failed(self, failure: Failure = TRANSIENT) -> Scenario:
        """A query failed, and the driver still runs."""
        return self.when(QueryFailed(at=self.now, epoch=self.state.epoch, failure=failure))

    def when_driver_ended(self, failure: Failure = TRANSIENT) -> Scenario:
        """The driver does not run any more."""
        return self.when(DriverEnded(at=self.now, epoch=self.state.epoch, failure=failure))

    def when_driver_silent(self, failure: Failure = TRANSIENT) -> Scenario:
        """The heartbeat of the driver timed out."""
        return self.when(DriverHeartbeatTimedOut(at=self.now, epoch=self.state.epoch, failure=failure))

    def when_savepoint_completed(self) -> Scenario:
        """All queries stopped at a batch boundary."""
        return self.when(SavepointCompleted(at=self.now, epoch=self.state.epoch))

    def when_savepoint_failed(self) -> Scenario:
        """The queries could not be stopped."""
        return self.when(self.savepoint_failed())

    def savepoint_failed(self) -> SavepointFailed:
        """Return the event without applying it."""
        return SavepointFailed(at=self.now, epoch=self.state.epoch)

    def when_completed(self) -> Scenario:
        """The input is exhausted."""
        return self.when(self.completed())

    def completed(self) -> JobCompleted:
        """Return the event without applying it."""
        return JobCompleted(at=self.now, epoch=self.state.epoch)

    def when_canceled(self) -> Scenario:
        """A user cancels the job."""
        return self.when(CancelRequested(at=self.now))

    def when_suspended(self) -> Scenario:
        """A user suspends the job."""
        return self.when(SuspendRequested(at=self.now))

    # ---- then -------------------------------------------------------------------------------------------------------

    def then(self, state: str, *commands: Command, reason: str = "") -> Scenario:
        """Compare the state, and the commands and reasons since the last `then` or `given`.

        Args:
            state: name of the expected state.
            commands: all expected commands.
            reason: text that at least one reason contains.

        Raises:
            AssertionError: the state, the commands or the reasons differ.
        """
        steps, self._checked = self.steps[self._checked :], len(self.steps)
        _expect("state", state, self.state.name)
        _expect("commands", list(commands), [command for step in steps for command in step.commands])
        reasons = [step.decision.reason for step in steps if step.decision is not None]
        if reason and not any(reason in actual for actual in reasons):
            raise AssertionError(f"reasons: expected {reason!r}, got {reasons}")
        return self

    def then_parallelism(self, expected: int | Mapping[str, int]) -> Scenario:
        """Compare the parallelism of the plan. A number applies to every vertex. Raises `AssertionError`."""
        plan = self.state.plan
        parallelism = dict.fromkeys(self.state.requirements, expected) if isinstance(expected, int) else dict(expected)
        _expect("parallelism", parallelism, None if plan is None else dict(plan.parallelism))
        return self

    def then_outcome(self, expected: str) -> Scenario:
        """Compare the outcome of the finished job. Raises `AssertionError`."""
        current = self.state.current
        _expect("outcome", expected, current.outcome.value if isinstance(current, Finished) else None)
        return self

    @property
    def reason(self) -> str:
        """The newest reason, "" if there is none."""
        return next((step.decision.reason for step in reversed(self.steps) if step.decision is not None), "")

    @property
    def reasons(self) -> list[str]:
        """All reasons in order, oldest first."""
        return [step.decision.reason for step in self.steps if step.decision is not None]

    @property
    def path(self) -> list[str]:
        """The names of all states that the job has entered, beginning with Created."""
        return ["Created", *(step.transition.target for step in self.steps if step.transition is not None)]


def _expect(what: str, expected: object, actual: object) -> None:
    if expected != actual:
        raise AssertionError(f"{what}: expected {expected}, got {actual}")
