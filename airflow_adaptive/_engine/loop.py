"""The control loop of one job: observe, resolve requirements, step the scheduler, persist, execute, publish.

The loop is the only caller of the scheduler. The trigger, a non-deferrable operator, tests and a plain command line run the loop
over the ports, so this module does not know Airflow.

Theory: a cycle is level-triggered and has numbered steps (`Loop._run_cycle`), as a Kubernetes controller reconciles. A loop that
is killed at any point loses only time: the next loop claims the journal, which contains the state of the scheduler after the
newest step, and observes the external systems again. `_engine.step_executor` explains the order of persisting and executing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from airflow_adaptive._core.deployment import Preparation
from airflow_adaptive._core.ports import (
    Clock,
    ClusterClient,
    ClusterUnreachableError,
    JobDirectory,
    JobDirectoryError,
    JobStore,
    SourceOffsets,
    StoreUnavailableError,
)
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.requirements.advice import Advisor
from airflow_adaptive._core.requirements.resolution import Resolution
from airflow_adaptive._core.requirements.resolver import RequirementsResolver, ResolverInput
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.events import CancelRequested, Event, TimerName
from airflow_adaptive._core.scheduler.standby import is_about_standby
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Finished,
    Restarting,
    SchedulerState,
    Timer,
    WaitingForResources,
)
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._engine.clock import Hint
from airflow_adaptive._engine.cluster.capacity_share import slot_demand
from airflow_adaptive._engine.cluster.free_capacity import ShortageReports
from airflow_adaptive._engine.cluster.probe import Probe
from airflow_adaptive._engine.cluster.shared_cluster import Participant, SharedCluster
from airflow_adaptive._engine.directory_outage import DirectoryOutage, OpenQuestion
from airflow_adaptive._engine.driver_heartbeat import current_driver_status
from airflow_adaptive._engine.journal.journal import Journal, MayTakeOver
from airflow_adaptive._engine.journal.step_document import LoopMemory
from airflow_adaptive._engine.observation.driver_log_diagnosis import DriverLogDiagnosis
from airflow_adaptive._engine.observation.driver_start import DriverStart
from airflow_adaptive._engine.observation.observed_events import (
    derive_events,
    first_events,
    outdated_requests,
)
from airflow_adaptive._engine.observation.observer import JobObservation, Observer
from airflow_adaptive._engine.observation.source_lag import SourceLagMonitor
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.publishing.publisher import Publisher
from airflow_adaptive._engine.rate_limit import EARLY_INTERVAL, FILE_POLLS_PER_SECOND, FilePolling, RateLimiter
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive._engine.step_executor import StepExecutor

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The external systems, as the loop reaches them.

    Attributes:
        cluster: client of the cluster on which the driver runs.
        directory: the job directory.
        store: control requests and published state.
        clock: the time.
        shared: the same cluster as all loops of this process share it, None if this loop is the only one.
        files: rate limiter of the file polls of all loops of this process, None if this loop is the only one.
        brokers: brokers of the sources, for the lag while no driver reports it; None without a connection to them.
        may_take_over: decides whether the loop may take the job over from another attempt, None if there is only one attempt.
        hint: ends the pauses between two cycles early.
    """

    cluster: ClusterClient
    directory: JobDirectory
    store: JobStore
    clock: Clock
    shared: SharedCluster | None = None
    files: RateLimiter | None = None
    brokers: SourceOffsets | None = None
    may_take_over: MayTakeOver | None = None
    hint: Hint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The moments at which the loop must return or must cancel the job.

    Attributes:
        recycle_at: the loop returns, and another loop continues the job.
        cancel_at: the loop cancels the job, because the execution timeout of the task has passed.
    """

    recycle_at: datetime | None = None
    cancel_at: datetime | None = None


class LoopPhase(StrEnum):
    """Phase of a loop: what step (1) of the next cycle has to do."""

    CLAIMING = "claiming"
    """Claim the journal, and adopt the state that the journal contains."""
    STARTING = "starting"
    """Take the first event of this run: start of scheduling, or changes of the declaration since the journal was written."""
    RUNNING = "running"
    """Check that the claim still holds."""


class Loop:
    """Runs one job until the job has ended or a run limit is reached."""

    def __init__(
        self,
        spec: JobSpec,
        ports: Ports,
        limits: RunLimits | None = None,
        advisor: Advisor | None = None,
        restart_reason: str | None = None,
    ) -> None:
        """Create the loop; `run` starts it.

        Args:
            spec: the job as deployed.
            ports: the external systems.
            limits: when to return early; never by default.
            advisor: the job's rescale policy, None without one.
            restart_reason: failure of the loop that this loop replaces, for the timeline; None without a failure.
        """
        self._spec = spec
        self._ports = ports
        self._limits = limits or RunLimits()
        self._phase = LoopPhase.CLAIMING
        self._has_killed_forgotten = self._is_hinted = False
        reports = OnceLogger(log, logging.INFO)
        self._refused_requests = OnceLogger(log)
        self._ongoing: dict[ReasonCode, str] = {}
        """What the loop has reported, and whose end it has not reported yet."""
        self._shortages = ShortageReports()
        self._outage = DirectoryOutage(spec.options.job_directory_timeout)
        self._open_question = OpenQuestion()
        self._resolver = RequirementsResolver(advisor)
        self._journal = Journal(ports.directory, spec, ports.may_take_over)
        if restart_reason is not None:
            text = f"the control loop failed and was restarted: {restart_reason}"
            self._journal.add_log_entry(Reason(ReasonCode.LOOP_RESTARTED, text))
        self._probe = Probe()
        self._driver_start = DriverStart(ports.cluster, ports.clock, spec.options.driver_lease_timeout)
        self._diagnosis = DriverLogDiagnosis(ports.cluster, spec.py_files[1:])
        self._participant = Participant(ports.shared or SharedCluster(ports.clock), ports.cluster)
        self._file_polling = FilePolling(ports.files or RateLimiter(FILE_POLLS_PER_SECOND, ports.clock))
        self._observer = Observer(ports.cluster, ports.directory, self._participant, self._file_polling)
        self._source_lag = SourceLagMonitor(ports.brokers)
        self._publisher = Publisher(ports.store, self._journal, self._resolver, spec.attempt)
        self._steps = StepExecutor(
            spec=spec,
            cluster=ports.cluster,
            directory=ports.directory,
            clock=ports.clock,
            journal=self._journal,
            participant=self._participant,
            publish=self._publisher.publish,
            reports=reports,
        )

    @property
    def state(self) -> SchedulerState:
        """State of the scheduler."""
        return self._steps.state

    @property
    def driver(self) -> str | None:
        """Submission id of the job's driver, None without a driver or if the id is unknown."""
        return None if self.state.driver is None else self.state.driver.submission_id

    @property
    def has_claimed(self) -> bool:
        """Whether the loop has read the journal, which names the driver of the job."""
        return self._phase is not LoopPhase.CLAIMING

    @property
    def last_error(self) -> str | None:
        """Why the newest cycle could not use Airflow, the job directory or the cluster, None if it could use all of them."""
        return self._open_question.error or self._outage.error or self._observer.last_error

    async def run(self) -> SchedulerState:
        """Run the job; returns its last state, which is `Finished` unless a run limit was reached.

        Raises:
            SupersededError: another loop has taken over; this one must not act any more.
            JobDirectoryError: the job directory could not be used for `job_directory_timeout`.
            SnapshotError: a newer version wrote the journal.
        """
        try:
            while not self._is_over() and not self._is_reached(self._limits.recycle_at):
                await self._run_cycle()
                pause = self._ports.clock.sleep(self._pause())
                if self._ports.hint is None:
                    await pause
                else:
                    self._is_hinted = await self._ports.hint.wait(pause)
            await self._clean_up()
        finally:
            self._publisher.close()
            self._source_lag.close()
            self._participant.unregister()
            self._file_polling.close()
            self._journal.close()
        return self.state

    async def cancel(self) -> SchedulerState:
        """Cancel the job and run it to its end, for example because its task is marked as failed."""
        now = self._ports.clock.now()
        self._limits = RunLimits(recycle_at=now + 2 * self._spec.options.stop_timeout, cancel_at=now)
        return await self.run()

    # ---- the cycle --------------------------------------------------------------------------------------------------

    async def _run_cycle(self) -> None:
        """Run one cycle; an unusable job directory or an open question ends the cycle early, and the next cycle repeats its steps."""
        poll_interval = self._poll_interval
        self._file_polling.begin_cycle(poll_interval)
        self._steps.begin_cycle()
        try:
            await self._claim()  # (1)
            if not self._is_over():
                observed_at = self._now()
                reported = await self._observe_job()  # (2) driver status and control requests
                requirements = self._resolve_requirements(reported)  # (3)
                # (2) The poll of the cluster demands slots for the resolved requirements, so it follows step (3).
                observation = await self._observe_cluster(reported, requirements)
                events = self._derive_events(observation, requirements)  # (4)
                await self._take_events(events, observation)  # (5)
                explain = partial(self._explain_wait, observation)
                await self._steps.fire_timers(until=observed_at + poll_interval, explain=explain)  # (6)
                self._file_polling.end_cycle(self.state, events)
            await self._publisher.publish(self.state)  # (7)
            self._end_outage()
        except StoreUnavailableError as error:
            self._open_question.keep(error)
        except JobDirectoryError as error:
            await self._tolerate(error)

    # (1) Claim

    async def _claim(self) -> None:
        """Claim the journal, or check that no other loop has; then complete what an earlier cycle left undone."""
        if self._phase is LoopPhase.CLAIMING:
            await self._take_over()
        if self._file_polling.is_due:
            await self._journal.check(self._now())
        await self._steps.retry_unsaved()
        await self._start()
        await self._journal.write_log_entries(self.state, self._now())
        await self._journal.renew(self.state, self._now())
        if self._has_ended() and not self._is_over():
            self._steps.adopt(await self._journal.start_again(self.state, self._now()))
            self._phase = LoopPhase.STARTING
            await self._start()

    async def _take_over(self) -> None:
        """Claim the journal and adopt the state that it contains; `start` follows."""
        self._steps.adopt(await self._journal.open(self._ports.clock.now()))
        self._open_question.close()
        self._participant.set_demand(slot_demand(self._current_spec, self.state, self._now()))
        await self._publisher.restore()
        self._phase = LoopPhase.STARTING
        self._remember(resolver=self._resolver.recall(self._memory.resolver))

    async def _start(self) -> None:
        """Take the first events of this run, once."""
        if self._phase is not LoopPhase.STARTING:
            return
        redeclared = self._journal.redeclared_requirements
        await self._steps.take(first_events(self.state, self._spec.deployment, redeclared, self._now()))
        if not self._steps.is_deferred:
            self._phase = LoopPhase.RUNNING

    # (2) Observe

    async def _observe_job(self) -> JobObservation:
        """Read the driver status and the control requests."""
        if not self._observer.has_read_status:
            # The job has no capacity share before the first poll of the cluster, so a timer that is due would find no slots.
            self._steps.defer()
        read_at = await self._observer.read_status(self._now())
        self._remember(heartbeat=self._memory.heartbeat.updated(self.state, None, self._now()))
        control_requests = await self._ports.store.control_requests()
        outage, end = (
            outdated_requests(control_requests),
            "Airflow answers again: the job follows the newest control requests",
        )
        self._report_change(ReasonCode.AIRFLOW_UNAVAILABLE, outage or "", end, logging.WARNING)
        standby = await self._observer.read_standby_status(self.state, self._journal.nonce)
        if standby is not None and standby.state in (DriverState.PREPARED, DriverState.FAILED):
            deployment = "" if self.state.standby.driver is None else self.state.standby.driver.deployment
            found = Preparation(deployment=deployment, queries=standby.prepared, failure=standby.failure)
            self._remember(preparation=found)
        return JobObservation(
            status=self._driver_status(),
            status_read_at=read_at,
            standby_status=standby,
            control_requests=control_requests,
        )

    def _driver_status(self) -> DriverStatus | None:
        """The newest status of the driver of the current epoch."""
        return current_driver_status(self.state, self._journal.nonce, self._observer.status)

    async def _observe_cluster(self, reported: JobObservation, requirements: Resolution) -> JobObservation:
        """Poll the cluster, with the slot demand of the resolved requirements; read the last status of a driver that has ended."""
        self._probe = self._probe.advance(self.state, self._now())
        wanted = replace(self.state, requirements=requirements.requirements)
        prepared, probed = self._memory.prepared_spec(wanted, self._spec), self._probe.offered
        demand = slot_demand(self._current_spec, wanted, self._now(), prepared=prepared, may_probe=probed)
        waits = isinstance(self.state.current, Restarting | WaitingForResources) and not self._file_polling.is_crowded
        interval = self._poll_interval if waits else self._spec.options.poll_interval
        max_age = timedelta(0) if self._is_hinted else interval
        observation = await self._observer.observe_cluster(reported, demand, self.state, max_age, self._now())
        if observation.is_driver_over:
            await self._observer.read_last_status()
            observation = replace(observation, status=self._driver_status())
        now = self._ports.clock.now()
        lag = self._source_lag.update(observation.status, self._observer.status, now)
        self._publisher.record_metrics(self.state, observation.status, lag, now)
        await self._kill_forgotten()
        return observation

    async def _kill_forgotten(self) -> None:
        """Kill, once, the drivers that an earlier loop gave up, and may not have killed before its end.

        The saved state names the drivers that may run. An epoch that was assigned before, and that it does not name, is never named again.
        """
        if self._has_killed_forgotten:
            return
        state, standby = self.state, self.state.standby.driver
        named = {state.epoch, state.epoch if standby is None else standby.epoch}
        forgotten = frozenset(range(1, state.last_epoch + 1)) - named
        try:
            await self._ports.cluster.kill_epochs(self._spec.graph.job, self._journal.nonce, forgotten)
            self._has_killed_forgotten = True
        except ClusterUnreachableError as error:
            log.debug("Drivers of earlier epochs may remain, the next cycle tries again: %s", error)

    # (3) Resolve requirements

    def _resolve_requirements(self, reported: JobObservation) -> Resolution:
        """The requirements that the job must have. File polling limits how often a policy is called."""
        given = ResolverInput(
            state=self.state,
            control_requests=reported.control_requests,
            status=reported.status,
            costs=self._journal.history.rescale_costs,
            at=self._ports.clock.now(),
            consult_policy=self._file_polling.is_due and not self._journal.history.is_pending,
            memory=self._memory.resolver,
        )
        resolved, memory = self._resolver.resolve(given)
        self._remember(resolver=memory)
        for entry in self._resolver.take_log_entries():
            self._journal.add_log_entry(entry)
        self._refused_requests.report(resolved.refused or None)
        return resolved

    # (4) Derive events

    def _derive_events(self, observation: JobObservation, requirements: Resolution) -> list[Event]:
        """The events that the observation implies; a run limit comes first, so that the job starts no driver before its end."""
        spec, heartbeat = self._current_spec, self._memory.heartbeat
        derived = derive_events(self.state, observation, requirements, heartbeat, self._now(), spec.executor)
        if self._is_reached(self._limits.cancel_at) and not isinstance(self.state.current, Canceling | Finished):
            return [CancelRequested(at=self._now()), *derived]
        return list(derived)

    # (5) Step, persist and execute

    async def _take_events(self, events: list[Event], observation: JobObservation) -> None:
        """Take the events one by one; the log of a driver that failed explains its failure."""
        self._report(await self._driver_start.observe(self.driver, observation.submission))
        for event in events:
            await self._steps.take([await self._explained(event, observation)])
        self._remember(heartbeat=self._memory.heartbeat.updated(self.state, observation.status, self._now()))
        self._publisher.update_cluster(observation, self.driver, self._current_spec)
        threshold, now = self._spec.options.lag_alert_threshold, self._ports.clock.now()
        alerts, reasons = self._memory.lag_alerts.updated(self._source_lag.lag, threshold, now)
        self._remember(lag_alerts=alerts)
        self._report(*reasons)
        reason = "" if observation.status is None else observation.status.decommission.reason
        end = "nothing is decommissioned or held any more"
        self._report_change(ReasonCode.EXECUTORS_DECOMMISSIONED, reason, end)
        if observation.cluster is not None:
            self._report(self._shortages.reason(observation.share.shortage, self.state.available_slots))

    async def _explained(self, event: Event, observation: JobObservation) -> Event:
        """Return the event with its cause, which the log of the driver contains, or the log of the standby."""
        if is_about_standby(self.state, event):
            state = replace(self.state, driver=self.state.standby.driver)
            return await self._diagnosis.explain(event, state, observation.of_standby)
        caused = self._driver_start.explain(event, self.driver)
        return await self._diagnosis.explain(caused, self.state, observation)

    async def _explain_wait(self, observation: JobObservation, timer: Timer) -> str:
        """Return why the slots of a plan have not come or come back, or why the driver has not activated it; "" if that is unknown.

        A job whose resources never came gets the remedy for the limit that it met, because the scheduler knows slots and no limits.
        """
        if timer.name is TimerName.RESOURCE_WAIT:
            return self._shortages.remedy
        # A deadline without a wait has a cause that the scheduler knows: the slots are lost.
        has_waited = timer.name in (TimerName.DEPLOY, TimerName.LOCAL_RECOVERY) and timer.due > self._entered_at
        return await self._diagnosis.explain_wait(self.state, observation) if has_waited else ""

    def _report_change(self, code: ReasonCode, ongoing: str, end: str, level: int = logging.INFO) -> None:
        """Report once what goes on, "" for nothing, and once its end."""
        if ongoing != self._ongoing.get(code, ""):
            self._ongoing[code] = ongoing
            self._report(Reason(code, ongoing or end), level=level)

    def _report(self, *reasons: Reason | None, level: int = logging.INFO) -> None:
        for reason in filter(None, reasons):
            log.log(level, "%s", reason.text)
            self._journal.add_log_entry(reason)

    # ---- outage of the job directory --------------------------------------------------------------------------------

    async def _tolerate(self, error: JobDirectoryError) -> None:
        """Continue without the job directory: publish the outage, and change nothing. Raises the error after `job_directory_timeout`."""
        self._observer.interrupt()
        report = self._outage.tolerate(error, self._now())
        if report is not None and self._phase is not LoopPhase.CLAIMING:
            self._journal.history.report_outage(report, self.state, self._now())
            await self._publisher.publish(self.state)

    def _end_outage(self) -> None:
        """Write the outage to the timeline, if this cycle has used the job directory."""
        if self._file_polling.is_due and (report := self._outage.end(self._now())) is not None:
            self._journal.add_log_entry(Reason(ReasonCode.JOB_DIRECTORY_UNAVAILABLE, report))

    # ---- end and pause ----------------------------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        """Whether the job has ended, and its driver too."""
        return isinstance(self.state.current, Finished) and self.state.driver is None

    def _is_over(self) -> bool:
        """Whether nothing is left to do. The end of an earlier attempt does not count: this attempt starts the job again."""
        return self._has_ended() and (not self._journal.inherits_end or self._is_reached(self._limits.cancel_at))

    async def _clean_up(self) -> None:
        """Remove what the drivers of a job that has ended left on the cluster."""
        if self._is_over():
            try:
                await self._ports.cluster.clean_up(self._spec.graph.job)
            except ClusterUnreachableError as error:
                log.warning("The objects of job %s remain on the cluster: %s", self._spec.graph.job, error)

    @property
    def _entered_at(self) -> datetime:
        """When the job entered its state."""
        return getattr(self.state.current, "since", self._now())

    def _is_reached(self, at: datetime | None) -> bool:
        return at is not None and at <= self._ports.clock.now()

    def _pause(self) -> float:
        """Seconds until the next cycle: the poll interval, or less if a timer is due before."""
        if self._is_over():
            return 0.0
        interval, options = self._poll_interval, self._spec.options
        if self._open_question.error is not None:
            return self._until_limit(self._open_question.retry_interval(options.poll_interval)).total_seconds()
        if self._outage.is_ongoing:
            return self._until_limit(self._outage.retry_interval(options.poll_interval)).total_seconds()
        if self._steps.is_deferred:
            return interval.total_seconds()  # no timer can fire
        due = [timer.due - self._now() for timer in machine.timers(self.state)]
        return max(min([interval, *due]), timedelta(0)).total_seconds()

    @property
    def _poll_interval(self) -> timedelta:
        """The poll interval of the job, shorter for a while after an event."""
        interval = self._spec.options.poll_interval
        return min(interval, EARLY_INTERVAL) if self._file_polling.is_early else interval

    def _until_limit(self, interval: timedelta) -> timedelta:
        """The interval, or the time until the loop must return if that is shorter."""
        if self._limits.recycle_at is None:
            return interval
        return min(interval, max(self._limits.recycle_at - self._ports.clock.now(), timedelta(0)))

    @property
    def _current_spec(self) -> JobSpec:
        """The job with drivers like the newest one, or like the next one if there is none."""
        return self._memory.spec_of(self.state.current_deployment, self._spec)

    @property
    def _memory(self) -> LoopMemory:
        """What the loop remembers beside the state of the scheduler."""
        return self._journal.memory

    def _remember(self, **changes: Any) -> None:
        """Replace parts of the memory."""
        self._journal.memory = replace(self._memory, **changes)

    def _now(self) -> datetime:
        """Time of the journal."""
        return self._journal.time(self._ports.clock.now())
