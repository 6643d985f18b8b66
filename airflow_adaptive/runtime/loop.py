"""The only loop: look at the world, step the scheduler, write the step down, carry its commands out.

It knows no Airflow: the trigger, a non-deferrable operator, tests and a plain command line all run it over the ports. Killed
at any point it starts again from the log and looks at the world: nothing is lost but time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.ports import (
    Clock,
    ClusterClient,
    ControlRequests,
    ForeignDirectoryError,
    JobChannel,
    JobDirectoryError,
    JobStore,
)
from airflow_adaptive.runtime.cluster.capacity_share import bid
from airflow_adaptive.runtime.cluster.shared_cluster import Participant, SharedCluster
from airflow_adaptive.runtime.command_executor import execute
from airflow_adaptive.runtime.journal.journal import Journal
from airflow_adaptive.runtime.observation.driver_log_diagnosis import DriverLogDiagnosis
from airflow_adaptive.runtime.observation.events import JobObservation, observe, own_status, refusal, requested
from airflow_adaptive.runtime.observation.file_polling import FILE_LOOKS, FilePolling
from airflow_adaptive.runtime.observation.observer import Observer
from airflow_adaptive.runtime.publishing.publisher import Publisher
from airflow_adaptive.runtime.publishing.time_series import Figures
from airflow_adaptive.runtime.publishing.urls import Urls
from airflow_adaptive.runtime.rate_limit import RateLimiter
from airflow_adaptive.runtime.requirements.advice import Advisor
from airflow_adaptive.runtime.requirements.policy_input import ResolverInput
from airflow_adaptive.runtime.requirements.rescale_costs import rescale_costs
from airflow_adaptive.runtime.requirements.resolver import RequirementsResolver
from airflow_adaptive.runtime.requirements.sources import THE_DAG, ResolvedRequirements
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler import machine
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    Event,
    JobRedeployed,
    RequirementsChanged,
    SchedulingStarted,
    TimerFired,
)
from airflow_adaptive.scheduler.policies.jitter import jitter
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Deploying,
    Executing,
    Finished,
    Restarting,
    SchedulerState,
)
from airflow_adaptive.scheduler.state_transitions import Step

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The world, as the loop reaches it.

    Attributes:
        cluster: where the job's driver runs.
        channel: the job's directory.
        store: where people ask and look.
        clock: the time.
        shared: the same cluster as other loops of this process share it, None without any.
        files: how often all loops of this process look at the files of calm jobs, None without others.
    """

    cluster: ClusterClient
    channel: JobChannel
    store: JobStore
    clock: Clock
    shared: SharedCluster | None = None
    files: RateLimiter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """When the loop must return though the job goes on, or must end the job.

    Attributes:
        recycle_at: return then; another loop goes on.
        cancel_at: the job's time is up: cancel it then.
    """

    recycle_at: datetime | None = None
    cancel_at: datetime | None = None


class Loop:
    """Runs one job until it has ended or the loop must leave."""

    def __init__(
        self,
        spec: JobSpec,
        ports: Ports,
        leave: RunLimits | None = None,
        advisor: Advisor | None = None,
    ) -> None:
        """Take note; nothing is done before `run`.

        Args:
            spec: the job as deployed.
            ports: the world.
            leave: when to return early; never by default.
            advisor: the job's rescale policy, None without one.
        """
        self._spec = spec
        self._ports = ports
        self._leave = leave or RunLimits()
        self._authority = RequirementsResolver(advisor)
        self._journal = Journal(ports.channel, spec, self._authority)
        self._costs: tuple[int, Mapping[Tier, timedelta]] = (0, {})
        self._last_words = DriverLogDiagnosis(ports.cluster)
        self._seat = Participant(ports.shared or SharedCluster(ports.cluster, ports.clock))
        self._attention = FilePolling(ports.files or RateLimiter(FILE_LOOKS))
        self._lookout = Observer(ports.cluster, ports.channel, self._seat, self._attention)
        self._figures = Figures()
        self._shown = Publisher(ports.store, self._authority, self._figures, spec.attempt)
        self._state = machine.create(spec.graph, spec.options)
        self._held = False
        self._begun = False
        self._put_off = False
        self._unsaved: Step | None = None
        self._said: str | None = None
        self._refused: str | None = None
        self._directory_lost: datetime | None = None
        self._urls = Urls()

    async def run(self) -> SchedulerState:
        """Run the job; return its last state, `Finished` unless the loop had to leave.

        Raises:
            SupersededError: another loop has taken over; stand by.
            JobDirectoryError: the job directory could not be used for `deploy_timeout`.
            SnapshotError: the log was written by a newer version.
        """
        try:
            while not self._over() and not self._due(self._leave.recycle_at):
                await self._turn()
                await self._ports.clock.sleep(self._pause())
        finally:
            self._seat.leave()
            self._attention.leave()
        return self._state

    @property
    def state(self) -> SchedulerState:
        """Where the job stands."""
        return self._state

    @property
    def driver(self) -> str | None:
        """The cluster's name of the job's driver, None if there is none, or none that is known."""
        return None if self._state.driver is None else self._state.driver.submission_id

    @property
    def trouble(self) -> str | None:
        """Why the cluster does not answer, None if it does."""
        return self._lookout.trouble

    async def cancel(self) -> SchedulerState:
        """Cancel the job and run it to its end (a task that is marked failed, say)."""
        now = self._ports.clock.now()
        self._leave = RunLimits(recycle_at=now + 2 * self._spec.options.stop_timeout, cancel_at=now)
        return await self.run()

    # ---- one turn ---------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        self._attention.begin(self._now(), self._spec.options.poll_interval)
        self._put_off = False
        try:
            await self._hold()
            if not self._over():
                await self._act()
            await self._publish()
            self._directory_lost = None
        except JobDirectoryError as error:
            self._lookout.lose()
            self._bear(error)

    async def _hold(self) -> None:
        """Take the job over if that is still to do, else see that no other loop has; begin what is to begin."""
        if not self._held:
            self._state = await self._journal.open(self._ports.clock.now())
            self._seat.place(bid(self._spec, self._state))
            self._figures.restore(await self._ports.store.figures())
            self._held = True
        if self._attention.reads:
            await self._journal.check()
        await self._begin()
        if self._unsaved is not None:
            await self._take_all(await self._carry_out(self._unsaved))
        while self._authority.pending_log_entries:
            await self._journal.tell(self._authority.pending_log_entries[0], self._state, self._now())
            del self._authority.pending_log_entries[0]
        await self._journal.renew(self._state, self._now())
        if self._has_ended() and not self._over():
            self._state = await self._journal.start_again(self._state, self._now())
            self._begun = False
            await self._begin()

    async def _begin(self) -> None:
        if self._begun:
            return
        if isinstance(self._state.current, Created):
            await self._take(SchedulingStarted(at=self._now()))
        else:
            await self._take_all(self._deployed_since())
        self._begun = not self._put_off

    def _deployed_since(self) -> Iterator[Event]:
        """What is declared otherwise than when the log was written."""
        deployment, redeclared = self._spec.deployment, self._journal.redeclared
        if deployment != self._state.deployment:
            yield JobRedeployed(at=self._now(), deployment=deployment)
        if redeclared not in (None, self._state.requirements):
            yield RequirementsChanged(at=self._now(), requirements=redeclared, by=THE_DAG)

    async def _act(self) -> None:
        looked_at, first = self._now(), not self._lookout.has_listened
        world = await self._look()
        self._figures.take(self._state, world.status, self._ports.clock.now())
        seen = self._observed(world)
        for event in seen:
            await self._take(await self._last_words.explain(event, self._state, world))
        self._journal.memory = self._journal.memory.after(self._state, world.status, self._now())
        driver = self._state.driver
        self._urls = self._urls.after(world, None if driver is None else driver.submission_id)
        # With the first look the job has no share yet, and a deadline that is long over would find nothing there.
        self._put_off = self._put_off or first
        await self._fire_timers(looked_at + self._spec.options.poll_interval)
        self._attention.settle(self._state, seen)

    async def _look(self) -> JobObservation:
        listened = await self._lookout.listen(self._now())
        status = own_status(self._state, self._journal.nonce, self._lookout.report)
        self._journal.memory = self._journal.memory.after(self._state, None, self._now())
        control_requests = await self._ports.store.control_requests()
        self._tell_refusal(control_requests)
        ruling = self._rule(control_requests, status)
        world = JobObservation(status=status, control_requests=control_requests, ruling=ruling, listened=listened)
        desired_state = bid(self._spec, requested(self._state, ruling))
        return await self._lookout.look(world, desired_state, self._state.driver, self._spec.options.poll_interval)

    def _rule(self, control_requests: ControlRequests, status: DriverStatus | None) -> ResolvedRequirements | None:
        """The bounds that the job is to have; a policy is asked as often as the files are read."""
        given = ResolverInput(
            state=self._state,
            control_requests=control_requests,
            status=status,
            costs=self._measured_costs(),
            at=self._ports.clock.now(),
            consult_policy=self._attention.reads,
        )
        return self._authority.resolve(given)

    def _measured_costs(self) -> Mapping[Tier, timedelta]:
        newest = self._journal.history.newest
        if newest != self._costs[0]:
            self._costs = (newest, rescale_costs(self._journal.history.rescales))
        return self._costs[1]

    def _tell_refusal(self, control_requests: ControlRequests) -> None:
        """Say once that overrides can't hold."""
        refused, self._refused = self._refused, refusal(self._state, control_requests)
        if self._refused not in (None, refused):
            log.warning("%s", self._refused)

    def _observed(self, world: JobObservation) -> list[Event]:
        spec = self._spec
        seen = observe(self._state, world, self._journal.memory, self._now(), spec.executor)
        if self._due(self._leave.cancel_at) and not isinstance(self._state.current, Canceling | Finished):
            # First, so that a job that is to end starts no driver with the slots that are seen.
            return [CancelRequested(at=self._now()), *seen]
        return list(seen)

    async def _fire_timers(self, until: datetime) -> None:
        """Fire what is due, one at a time: each may change what is due next.

        Args:
            until: what is due later waits for the next look: if this one took long, or its process was frozen, what the
                deadline is for may have come in the meantime.
        """
        while not self._put_off and (due := machine.timers(self._state)) and due[0].due <= min(self._now(), until):
            await self._take(TimerFired(at=self._now(), timer=due[0].name, version=self._state.version))

    async def _take(self, event: Event) -> None:
        await self._take_all([event])

    async def _take_all(self, events: Iterable[Event]) -> None:
        """Step on events and on all that their commands lead to; a step that has to be put off is one for the next turn."""
        waiting = deque(events)
        while waiting:
            step = machine.step(self._state, waiting.popleft())
            if step.state is self._state or self._seat.admits(bid(self._spec, step.state), self._now()):
                waiting.extend(await self._carry_out(step))
            else:
                self._put_off = True

    async def _carry_out(self, step: Step) -> list[Event]:
        """Write a step down and only then act on it; if its writing fails it stays the next one (`_unsaved`)."""
        self._unsaved = step
        await self._journal.save(step, self._state, self._now())
        self._unsaved = None
        self._state = step.state
        if step.decision is not None:
            moved = "" if step.transition is None else f" -> {step.state.name}"
            self._say(f"{step.decision.state}{moved}: {step.decision.reason}")
        if step.transition is not None:
            self._compete(step.transition.source)
            await self._publish()
        spec, nonce, cluster = self._spec, self._journal.nonce, self._ports.cluster
        outcomes = [await execute(command, spec, nonce, cluster, self._now()) for command in step.commands]
        return [event for events in outcomes for event in events]

    def _compete(self, source: str) -> None:
        """Give way after a plan for which there was too little room."""
        match self._state.current:
            case Restarting(failure=None, in_place=False) if source == Deploying.__name__:
                chance = jitter(self._spec.directory, self._state.epoch, self._state.version)
                self._seat.give_way(self._now(), chance)
            case Executing():
                self._seat.succeed()
            case _:
                pass

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        """Whether the job has ended, with nothing left of it on the cluster."""
        return isinstance(self._state.current, Finished) and self._state.driver is None

    def _over(self) -> bool:
        """Whether there is nothing more to do: an end that an earlier attempt left behind is the start of this one."""
        return self._has_ended() and (not self._journal.inherits_end or self._due(self._leave.cancel_at))

    def _due(self, at: datetime | None) -> bool:
        return at is not None and at <= self._ports.clock.now()

    def _pause(self) -> float:
        """Seconds until the next look: the poll interval, or less if a timer is due before."""
        if self._over():
            return 0.0
        interval = self._spec.options.poll_interval
        if self._directory_lost is not None or self._put_off:
            return interval.total_seconds()  # a timer that is due can't fire now
        due = [timer.due - self._now() for timer in machine.timers(self._state)]
        return max(min([interval, *due]), timedelta(0)).total_seconds()

    def _bear(self, error: JobDirectoryError) -> None:
        """Go on for a while without the job directory; the driver does the same, for its lease."""
        self._directory_lost = self._directory_lost or self._now()
        lost_for = self._now() - self._directory_lost
        if isinstance(error, ForeignDirectoryError) or lost_for > self._spec.options.deploy_timeout:
            raise error
        self._say(str(error))

    async def _publish(self) -> None:
        await self._shown.publish(self._state, self._journal.history, self._urls)

    def _say(self, text: str) -> None:
        """Log what is new; a reason that repeats with every poll is said once."""
        if text != self._said:
            log.info("%s", text)
            self._said = text

    def _now(self) -> datetime:
        """The time of the log, which goes on where it was when the clock was set back between two loops."""
        return self._ports.clock.now() + self._journal.ahead
