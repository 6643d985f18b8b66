"""Takes the steps of the scheduler: admit, persist, and only then execute.

The order is what makes the loop safe to kill. A step is written to the journal before its commands run (write-ahead), so a loop
that takes over either finds no trace of the step, or finds the step with its commands and observes their outcome. Commands are
not repeated on recovery: the scheduler derives from the observation what is missing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime

from airflow_adaptive._core.ports import Clock, ClusterClient, JobDirectory
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.parsing import MINIMAL_INCREASE
from airflow_adaptive._core.scheduler.errors import ScaleUpControllerError
from airflow_adaptive._core.scheduler.events import Event, TimerFired
from airflow_adaptive._core.scheduler.policies.restart_backoff import jitter
from airflow_adaptive._core.scheduler.state import Deploying, Executing, Restarting, SchedulerState, Timer
from airflow_adaptive._core.scheduler.steps import Command, Step, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._engine.cluster.capacity_share import slot_demand
from airflow_adaptive._engine.cluster.shared_cluster import Participant
from airflow_adaptive._engine.command_executor import execute
from airflow_adaptive._engine.journal.journal import Journal
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.spec import JobSpec

log = logging.getLogger(__name__)

Publish = Callable[[SchedulerState], Awaitable[None]]
"""Publishes a state that the job has just entered."""


Explain = Callable[[Timer], Awaitable[str]]
"""Returns why the job has missed a deadline, "" if that is unknown."""


class StepExecutor:
    """Owns the state of the scheduler, and changes the state step by step. The job is as deployed until `adopt` replaces the state."""

    def __init__(
        self,
        spec: JobSpec,
        cluster: ClusterClient,
        directory: JobDirectory,
        clock: Clock,
        journal: Journal,
        participant: Participant,
        publish: Publish,
        reports: OnceLogger,
    ) -> None:
        self._spec = spec
        self._cluster = cluster
        self._directory = directory
        self._clock = clock
        self._journal = journal
        self._participant = participant
        self._publish = publish
        self._reports = reports
        self._state = machine.create(spec.graph, spec.options)
        self._unsaved: Step | None = None
        self._is_deferred = False
        self._controller_failure: str | None = None

    @property
    def state(self) -> SchedulerState:
        """State of the scheduler after the newest step that was persisted."""
        return self._state

    @property
    def is_deferred(self) -> bool:
        """Whether steps wait for the next cycle, because the job has no capacity share yet that admits them."""
        return self._is_deferred

    def begin_cycle(self) -> None:
        """A cycle begins: no step is deferred."""
        self._is_deferred = False

    def defer(self) -> None:
        """Let timers wait for the next cycle."""
        self._is_deferred = True

    def adopt(self, state: SchedulerState) -> None:
        """Continue with a state that the journal has persisted."""
        self._state = state

    async def retry_unsaved(self) -> None:
        """Persist and execute the step whose write failed in an earlier cycle. Raises as `take`."""
        if self._unsaved is not None:
            await self.take(await self._persist_and_execute(self._unsaved))

    async def take(self, events: Iterable[Event]) -> None:
        """Step on events, and on the events that follow from the commands of these steps. Raises `SupersededError` or `JobDirectoryError`.

        A step that needs a newer capacity share is deferred: the same event is derived again in the next cycle. After a
        `JobDirectoryError`, the step is not known to be persisted, and `retry_unsaved` persists it.
        """
        waiting = deque(events)
        while waiting:
            step = self._step(waiting.popleft())
            if step.state is self._state or self._admits(step.state):
                waiting.extend(await self._persist_and_execute(step))
            else:
                self._is_deferred = True

    def _admits(self, state: SchedulerState) -> bool:
        spec = self._journal.memory.spec_of(state.current_deployment, self._spec)
        prepared = self._journal.memory.prepared_spec(state, self._spec)
        return self._participant.admits(slot_demand(spec, state, self._now(), prepared=prepared))

    def _step(self, event: Event) -> Step:
        """Step on an event. If the job's own scale-up controller fails, the default controller decides."""
        try:
            return machine.step(self._state, event)
        except ScaleUpControllerError as error:
            text = f"{error}; {MINIMAL_INCREASE} decides instead"
            if text != self._controller_failure:
                self._controller_failure = text
                log.warning("%s", text, exc_info=error)
                self._journal.add_log_entry(Reason(ReasonCode.SCALE_UP_CONTROLLER_FAILED, text))
            options = replace(self._state.options, scale_up_controller=MINIMAL_INCREASE)
            step = machine.step(replace(self._state, options=options), event)
            return replace(step, state=replace(step.state, options=self._state.options))

    async def fire_timers(self, until: datetime, explain: Explain | None = None) -> None:
        """Fire the timers that are due, one at a time, because each may change the next one. Raises as `take`.

        Args:
            until: timers that are due later wait for the next observation. If this cycle took long, or if the process was
                frozen, the next observation may show that the event happened for which the timer is the deadline.
            explain: returns why the job has missed a deadline.
        """
        while not self._is_deferred and (due := machine.timers(self._state)) and due[0].due <= min(self._now(), until):
            timer, version = due[0].name, self._state.version
            explanation = "" if explain is None else await explain(due[0])
            await self.take([TimerFired(at=self._now(), timer=timer, version=version, explanation=explanation)])

    async def _persist_and_execute(self, step: Step) -> list[Event]:
        """Persist the step, then execute its commands; returns the events that follow from the commands."""
        before, self._unsaved = self._state, step
        await self._journal.save(step, before, self._now())
        self._unsaved = None
        self._state = step.state
        self._report(step)
        if step.transition is not None:
            self._settle_contention(step.transition.source)
            await self._publish(self._state)
        return await self._execute(step)

    def _report(self, step: Step) -> None:
        if step.decision is not None:
            transition = "" if step.transition is None else f" -> {step.state.name}"
            self._reports.report(f"{step.decision.state}{transition}: {step.decision.reason}")

    async def _execute(self, step: Step) -> list[Event]:
        outcomes = [
            await execute(
                command, self._spec_of(command), self._journal.nonce, self._cluster, self._directory, self._now()
            )
            for command in step.commands
        ]
        return [event for events in outcomes for event in events]

    def _spec_of(self, command: Command) -> JobSpec:
        if isinstance(command, SubmitDriver):
            return self._journal.memory.spec_of(command.deployment, self._spec)
        return self._spec

    def _settle_contention(self, source: str) -> None:
        """Delay larger plans after a conflict with another process, which leaves a plan without its slots."""
        match self._state.current:
            case Restarting(failure=None, in_place=False) if source == Deploying.__name__:
                key = self._spec.directory, self._state.epoch, self._state.version
                self._participant.back_off(jitter(*key))
            case Executing():
                self._participant.reset_backoff()
            case _:
                pass

    def _now(self) -> datetime:
        return self._journal.time(self._clock.now())
