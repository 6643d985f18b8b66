"""Takes the steps of the scheduler: admit, persist, and only then execute.

The order is what makes the loop safe to kill. A step is written to the journal before its commands run (write-ahead), so a loop
that takes over either finds no trace of the step, or finds the step with its commands and observes their outcome. Commands are
not repeated on recovery: the scheduler derives from the observation what is missing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import (
    Clock,
    ClusterClient,
    ClusterUnreachableError,
    DriverSubmission,
    JobDirectory,
    JobDirectoryError,
    NotSubmittedError,
    SubmissionRefusedError,
)
from airflow_adaptive._core.protocol.conf import STANDBY_EXECUTORS
from airflow_adaptive._core.protocol.failures import redact
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.allocator import required_slots
from airflow_adaptive._core.scheduler.config.parsing import MINIMAL_INCREASE
from airflow_adaptive._core.scheduler.errors import ScaleUpControllerError
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverSubmitted,
    Event,
    SubmissionUnanswered,
    TimerFired,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.restart_backoff import jitter
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Deploying, Executing, Restarting, SchedulerState, Timer
from airflow_adaptive._core.scheduler.steps import Command, KillDriver, Step, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._engine.cluster.capacity_share import slot_demand
from airflow_adaptive._engine.cluster.shared_cluster import Participant
from airflow_adaptive._engine.directive import executors
from airflow_adaptive._engine.journal.journal import Journal
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.spec import JobSpec

log = logging.getLogger(__name__)

DRIVER_DEFAULTS = {
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "131072",
    "spark.log.level": "WARN",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Spark properties that the user's own properties override.

At Spark's default level, INFO, each batch writes about 14 KiB to the disk of the worker, for the whole life of the driver. Only state in RocksDB can
be repartitioned (rescale tier 2); with changelogs, the commits of RocksDB take about as long as those of Spark's default provider. An existing
checkpoint keeps its provider.

Each start of a query opens new state stores, and Spark closes those of the ended run at its next maintenance. glibc raises its threshold for
separate mappings with the first large block that is freed, and then keeps what closed stores have freed: executors grow with the restarts, outside of
their heaps. Any value of a threshold in the environment fixes all thresholds, so that large blocks return to the system (mallopt(3)).
"""


async def execute(
    command: Command, spec: JobSpec, nonce: str, cluster: ClusterClient, directory: JobDirectory, now: datetime
) -> Iterable[Event]:
    """Execute one command. If the cluster does not answer, the outcome is unknown and later observations show it."""
    try:
        match command:
            case SubmitDriver():
                read_code = partial(_read_code, spec, directory)
                return [await _submit(replace(submission(command, spec, nonce), read_code=read_code), cluster, now)]
            case KillDriver(submission_id=str() as submission_id):
                await cluster.kill(submission_id)
            case KillDriver():
                log.warning(
                    "The submission of the driver of epoch %s has no answer. The driver ends when its lease expires, if not before.",
                    command.epoch,
                )
                await cluster.kill_epochs(spec.graph.job, nonce, {command.epoch})
    except ClusterUnreachableError as error:
        log.warning("The outcome of %s is unknown: %s", type(command).__name__, error)
        if isinstance(command, SubmitDriver):
            return [SubmissionUnanswered(at=now, epoch=command.epoch, reason=str(error))]
    return []


async def _submit(submitted: DriverSubmission, cluster: ClusterClient, now: datetime) -> Event:
    """Submit a driver. An unexpected exception counts as a refusal, but the driver may exist: it ends only with its lease."""
    try:
        submission_id = await cluster.submit(submitted)
        return DriverSubmitted(at=now, epoch=submitted.epoch, submission_id=submission_id)
    except (SubmissionRefusedError, NotSubmittedError) as error:
        code = (
            FailureCode.SUBMISSION_REFUSED if isinstance(error, SubmissionRefusedError) else FailureCode.NOT_SUBMITTED
        )
        if submitted.is_standby and "quota" in str(error):
            code = FailureCode.NO_ROOM_FOR_STANDBY
        return DriverEnded(at=now, epoch=submitted.epoch, failure=Failure(error_class=code, message=str(error)))
    except ClusterUnreachableError:
        raise
    except Exception as error:
        log.exception("The submission of the driver of epoch %s failed unexpectedly.", submitted.epoch)
        text = (
            f"the submission failed unexpectedly with {type(error).__name__}: {redact(str(error))}; the traceback is in the log of the task: "
            "correct the parameters, the pod templates or the connection of the job that it names"
        )
        failure = Failure(error_class=FailureCode.SUBMISSION_REFUSED, message=text, causes=(type(error).__name__,))
        return DriverHeartbeatTimedOut(at=now, epoch=submitted.epoch, failure=failure)


async def _read_code(spec: JobSpec, directory: JobDirectory, most_bytes: int) -> Mapping[str, bytes]:
    """Return the staged code of a job, see `DriverSubmission.read_code`. The code of others, at other URIs, is not part of it."""
    folder = spec.script.rpartition("/")[0]
    contents: dict[str, bytes] = {}
    try:
        for uri in (spec.script, *spec.py_files):
            if uri.rpartition("/")[0] == folder:
                content = await directory.file(uri, most_bytes - sum(map(len, contents.values())))
                if content is None:
                    return {}
                contents[uri] = content
    except JobDirectoryError as error:
        log.warning("The driver loads its code from the job directory, because the loop cannot read it now: %s", error)
        return {}
    return contents


def submission(command: SubmitDriver, spec: JobSpec, nonce: str) -> DriverSubmission:
    """Return the driver of one epoch. Properties that keep the driver fenced and adaptive override the user's properties."""
    identity = {
        "spark.airflow.adaptive.job": spec.graph.job,
        "spark.airflow.adaptive.directory": spec.directory,
        "spark.airflow.adaptive.epoch": str(command.epoch),
        "spark.airflow.adaptive.nonce": nonce,
        "spark.airflow.adaptive.leaseTimeout": str(spec.options.driver_lease_timeout.total_seconds()),
        # Half of the scheduler's timeout, because the session needs time to end too.
        "spark.airflow.adaptive.stopTimeout": str(spec.options.stop_timeout.total_seconds() / 2),
    }
    if command.is_standby:
        identity[STANDBY_EXECUTORS] = str(executors(command.slots, spec.executor))
    if spec.options.orphan_timeout is not None:
        identity["spark.airflow.adaptive.orphanTimeout"] = str(spec.options.orphan_timeout.total_seconds())
    return DriverSubmission(
        name=spec.graph.job,
        epoch=command.epoch,
        nonce=nonce,
        script=spec.script,
        py_files=spec.py_files,
        args=spec.args,
        conf={**DRIVER_DEFAULTS, **spec.conf, **identity},
        env=spec.env,
        driver_cores=spec.driver.cores,
        driver_memory_mb=spec.driver.memory_mb,
        executors=executors(command.slots, spec.executor),
        max_executors=executors(_most_slots(spec), spec.executor),
        executor_cores=spec.executor.cores,
        executor_memory_mb=spec.executor.memory_mb,
        driver_template=spec.driver_template,
        executor_template=spec.executor_template,
    )


def _most_slots(spec: JobSpec) -> int:
    """Return the largest number of slots that any requirements of the job allow."""
    ceiling = {name: ParallelismRange(1, most) for name, most in spec.graph.max_parallelism.items()}
    return required_slots(spec.graph, ceiling)


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
        self.state = machine.create(spec.graph, spec.options)
        """State of the scheduler after the newest step that was persisted."""
        self._unsaved: Step | None = None
        self.is_deferred = False
        """Whether steps wait for the next cycle, because the job has no capacity share yet that admits them."""
        self._controller_failure: str | None = None

    def begin_cycle(self) -> None:
        """A cycle begins: no step is deferred."""
        self.is_deferred = False

    def defer(self) -> None:
        """Let timers wait for the next cycle."""
        self.is_deferred = True

    def adopt(self, state: SchedulerState) -> None:
        """Continue with a state that the journal has persisted."""
        self.state = state

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
            if step.state is self.state or self._admits(step.state):
                waiting.extend(await self._persist_and_execute(step))
            else:
                self.is_deferred = True

    def _admits(self, state: SchedulerState) -> bool:
        spec = self._journal.memory.spec_of(state.current_deployment, self._spec)
        prepared = self._journal.memory.prepared_spec(state, self._spec)
        return self._participant.admits(slot_demand(spec, state, self._now(), prepared=prepared))

    def _step(self, event: Event) -> Step:
        """Step on an event. If the job's own scale-up controller fails, the default controller decides."""
        try:
            return machine.step(self.state, event)
        except ScaleUpControllerError as error:
            text = f"{error}; {MINIMAL_INCREASE} decides instead"
            if text != self._controller_failure:
                self._controller_failure = text
                log.warning("%s", text, exc_info=error)
                self._journal.add_log_entry(Reason(ReasonCode.SCALE_UP_CONTROLLER_FAILED, text))
            options = replace(self.state.options, scale_up_controller=MINIMAL_INCREASE)
            step = machine.step(replace(self.state, options=options), event)
            return replace(step, state=replace(step.state, options=self.state.options))

    async def fire_timers(self, until: datetime, explain: Explain | None = None) -> None:
        """Fire the timers that are due, one at a time, because each may change the next one. Raises as `take`.

        Args:
            until: timers that are due later wait for the next observation. If this cycle took long, or if the process was
                frozen, the next observation may show that the event happened for which the timer is the deadline.
            explain: returns why the job has missed a deadline.
        """
        while not self.is_deferred and (due := machine.timers(self.state)) and due[0].due <= min(self._now(), until):
            timer, version = due[0].name, self.state.version
            explanation = "" if explain is None else await explain(due[0])
            await self.take([TimerFired(at=self._now(), timer=timer, version=version, explanation=explanation)])

    async def _persist_and_execute(self, step: Step) -> list[Event]:
        """Persist the step, then execute its commands; returns the events that follow from the commands."""
        before, self._unsaved = self.state, step
        await self._journal.save(step, before, self._now())
        self._unsaved = None
        self.state = step.state
        self._report(step)
        if step.transition is not None:
            self._settle_contention(step.transition.source)
            await self._publish(self.state)
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
        match self.state.current:
            case Restarting(failure=None, in_place=False) if source == Deploying.__name__:
                key = self._spec.directory, self.state.epoch, self.state.version
                self._participant.back_off(jitter(*key))
            case Executing():
                self._participant.reset_backoff()
            case _:
                pass

    def _now(self) -> datetime:
        return self._journal.time(self._clock.now())
