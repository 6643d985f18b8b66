"""A simulated job around the real scheduler: slots that appear and disappear, a driver, and a policy that is evaluated periodically.

The simulation uses the real `machine.step` and `machine.timers` with the real options: cooldown, stabilization, rescale tiers and idle slots are the
scheduler's. The scheduler receives a commit only while it waits for one, because it ignores all other commits.

In the model of the query, a batch begins at its trigger, or when the previous batch has ended. The batch reads the input up to a limit (`maxOffsetsPerTrigger`), and
takes `fixed + row_cost * rows / effective slots`. A change of the slots changes the speed of the running batch. The model preserves
rows: each input row is processed, in process, or waiting.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

from airflow_adaptive._core.requirements.advice import PolicyInput, QueryMetrics, limits_of
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import Options, StandbyMode
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    DriverEnded,
    DriverSubmitted,
    Event,
    JobRedeployed,
    PlanActivated,
    RequirementsChanged,
    SchedulingStarted,
    SlotOffer,
    SlotsChanged,
    TimerFired,
)
from airflow_adaptive._core.scheduler.job_graph import DEFAULT_SLOT_SHARING_GROUP, DEFAULT_VERTEX, JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from airflow_adaptive._core.scheduler.state import Deploying, Executing, Restarting, SchedulerState
from airflow_adaptive._core.scheduler.steps import KillDriver, SubmitDriver
from airflow_adaptive.autoscaling.load.batch_cost import effective
from airflow_adaptive.autoscaling.policy import RescalePolicy
from airflow_adaptive.autoscaling.simulation.trace import Trace

NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryModel:
    """Parameters of a query.

    Attributes:
        slot_rate: rows per second of one slot.
        fixed: duration of a batch without rows, in seconds.
        trigger: seconds between two triggers.
        most_rows: maximum number of rows of a batch.
        partitions: state partitions; 1 for a stateless query.
    """

    slot_rate: float
    fixed: float
    trigger: float
    most_rows: float
    partitions: int = 1

    def capacity(self, slots: int) -> float:
        """Return rows per second that the slots can process permanently."""
        return max(0.0, self.trigger - self.fixed) / self.trigger * self.slot_rate * effective(slots, self.partitions)


class Batches:
    """The batches of a query under a load."""

    def __init__(self, query: QueryModel, trace: Trace) -> None:
        self.query, self.trace = query, trace
        self.now = 0.0
        self.working = 0.0
        """Effective slots."""
        self.taken = 0.0
        """Rows that were read."""
        self.processed = 0.0
        self.begun = -query.trigger
        """Time of the last poll."""
        self.ends = NEVER
        """End of the running batch, `NEVER` without one."""
        self.resumes = 0.0
        """Earliest begin of the next batch."""
        self.last: Batch | None = None
        self.lags = array("d")
        """Age of the oldest row of each batch at its commit, in seconds."""
        self.spans = array("d")
        """Seconds since the previous commit."""
        self._running: Batch | None = None
        self._left = 0.0
        self._oldest = 0.0
        self._committed_at = 0.0

    @property
    def runs(self) -> bool:
        """Whether a batch is running."""
        return self._running is not None

    def arrived(self, at: float) -> float:
        """Return the input rows until `at`."""
        trace, index = self.trace, self._segment(self.trace.times, at)
        return trace.totals[index] + trace.rates[index] * (at - trace.times[index])

    def waiting(self) -> float:
        """Return the input rows that are not processed."""
        return self.arrived(self.now) - self.processed

    def work_on(self, slots: int, tasks: int) -> None:
        """Change the slots and the number of tasks of a stage (1: the number of slots)."""
        before, self.working = self.working, effective(slots, tasks) if slots > 0 else 0.0
        if self._running is None or before == self.working:
            return
        if before > 0:
            self._left = max(0.0, self.ends - self.now) * before
        self.ends = self.now + self._left / self.working if self.working > 0 else NEVER

    def run(self, until: float, *, to_commit: bool = False) -> bool:
        """Advance the time to `until`, or to the next commit with `to_commit`; returns whether a batch has ended."""
        while True:
            if self._running is not None:
                if self.ends > until:
                    break
                self._commit(self._running)
                if to_commit:
                    return True
            start = max(self.now, self.begun + self.query.trigger, self.resumes)
            if start > until or self.working <= 0:
                break
            self.now = start
            self._begin()
        self.now = until
        return False

    def _begin(self) -> None:
        query, now = self.query, self.now
        arrived = self.arrived(now)
        rows = min(arrived - self.taken, query.most_rows)
        interval, self.begun = now - self.begun, now
        if rows <= 0:
            self._record(Batch(rows=0.0, interval=interval, seconds=0.0, unread=0.0), 0.0)
            return
        self._oldest = self._arrival(self.taken)
        self.taken += rows
        self._running = Batch(rows=rows, interval=interval, seconds=0.0, unread=arrived - self.taken)
        self.ends = now + query.fixed + rows / (query.slot_rate * self.working)

    def _commit(self, batch: Batch) -> None:
        self.now, self.ends, self._running = self.ends, NEVER, None
        self.processed += batch.rows
        seconds = self.now - self.begun
        self._record(Batch(batch.rows, batch.interval, seconds, batch.unread), self.now - self._oldest)

    def _record(self, batch: Batch, lag: float) -> None:
        self.last = batch
        self.lags.append(lag)
        self.spans.append(self.now - self._committed_at)
        self._committed_at = self.now

    def _arrival(self, row: float) -> float:
        """Return the time at which a row arrived."""
        trace, index = self.trace, self._segment(self.trace.totals, row)
        rate = trace.rates[index]
        return trace.times[index] + ((row - trace.totals[index]) / rate if rate > 0 else 0.0)

    def _segment(self, begins: Sequence[float], value: float) -> int:
        """Return the index of the last rate of the trace that begins at or before a value."""
        return min(bisect_right(begins, value), len(self.trace.rates)) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: rows, seconds since the begin of the previous batch, duration in seconds, and unread rows."""

    rows: float
    interval: float
    seconds: float
    unread: float


EXECUTOR_START = 10.0
"""Seconds from the request for an executor until its slots are available."""

PAUSES: Mapping[Tier, float] = {Tier.EXECUTORS: 0.0, Tier.QUERY: 0.15, Tier.STATE: 3.0, Tier.DRIVER: 40.0}
"""Seconds without a query for a rescale of each tier, as measured on the embedded cluster."""

COSTS: Mapping[Tier, timedelta] = {
    tier: timedelta(seconds=seconds)
    for tier, seconds in {Tier.EXECUTORS: 12.0, Tier.QUERY: 12.0, Tier.STATE: 15.0, Tier.DRIVER: 40.0}.items()
}
"""Time from a decision until all slots of the new parallelism work, as measured on the embedded cluster."""

STOPPED = Failure(error_class="STOPPED", message="the driver stopped as directed")

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationShape:
    """Common parameters of all policies of a comparison.

    Attributes:
        query: model of the query.
        slots: slots of the cluster.
        first: slots at the start.
        every: seconds between two evaluations of the policy.
        tier: rescale tier of a change of parallelism.
        options: options of the scheduler.
    """

    query: QueryModel
    slots: int
    first: int
    every: float = 15.0
    tier: Tier = Tier.QUERY
    options: Options = field(default_factory=Options)

    @property
    def graph(self) -> JobGraph:
        """One stateful vertex within the cluster."""
        bounds = ParallelismRange(1, self.slots)
        partitions = max(self.slots, self.query.partitions)
        return JobGraph(
            job="simulated",
            vertices=(JobVertex(name=DEFAULT_VERTEX, parallelism=bounds, max_parallelism=partitions),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a run.

    Attributes:
        batches: batches of the query, with lags and counts.
        held: changes of the slots that the job holds: time in seconds, and number of slots.
        rescales: number of rescales.
        reasons: times in seconds and reasons of advice that changed the bounds.
        end: end of the run, in seconds.
    """

    batches: Batches
    held: list[tuple[float, int]]
    rescales: int
    reasons: list[tuple[float, str]]
    end: float


class SimulatedJob(Generic[Memory]):
    """One job under one policy."""

    def __init__(self, shape: SimulationShape, trace: Trace, policy: RescalePolicy[Memory]) -> None:
        self.shape, self.trace, self.policy = shape, trace, policy
        self.batches = Batches(shape.query, trace)
        self.memory = policy.remember()
        first: Requirements = {DEFAULT_VERTEX: ParallelismRange(1, shape.first)}
        # The simulation has no drivers: a tier takes its time, and nothing is prepared.
        options = replace(shape.options, prepare_deployments=False, standby=StandbyMode.NONE)
        self.state: SchedulerState = machine.create(shape.graph, options, first)
        self.slots = 0
        self.held: list[tuple[float, int]] = [(0.0, 0)]
        self.reasons: list[tuple[float, str]] = []
        self._limits = limits_of(shape.graph, shape.graph.requirements)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._built = 0
        self._tasks = 0
        self._version = -1
        self._deployments = 0
        self._timer = float("inf")

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.batches.now

    def run(self, until: float | None = None) -> Run:
        """Simulate the whole trace, or its part until `until`."""
        end = self.trace.duration if until is None else until
        self._apply(self._offers())
        self._apply(SchedulingStarted(at=self._at()))
        self._later(self.shape.every, self._consult_policy)
        while self._next() <= end:
            self._advance(self._next())
            self._deliver()
        self._advance(end)
        return Run(
            batches=self.batches, held=self.held, rescales=self.state.num_rescales, reasons=self.reasons, end=end
        )

    # ---- time -------------------------------------------------------------------------------------------------------

    def _at(self) -> Any:
        return self.trace.start + timedelta(seconds=self.now)

    def _later(self, seconds: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self._order), happens))

    def _next(self) -> float:
        return max(self.now, min(self._agenda[0][0] if self._agenda else float("inf"), self._timer))

    def _advance(self, until: float) -> None:
        """Advance the batches; the scheduler receives a commit if it waits for one."""
        while self.batches.run(until, to_commit=self._awaits_commit()):
            self._apply(BatchCommitted(at=self._at(), epoch=self.state.epoch))
            until = min(until, self._next())

    def _deliver(self) -> None:
        """Deliver what is due: first the simulated environment, then timers."""
        if self._agenda and self._agenda[0][0] <= self.now:
            heapq.heappop(self._agenda)[2]()
        elif self._timer <= self.now:
            self._fire()

    def _fire(self) -> None:
        timer = machine.timers(self.state)[0]
        self._apply(TimerFired(at=max(self._at(), timer.due), timer=timer.name, version=self.state.version))

    def _awaits_commit(self) -> bool:
        current = self.state.current
        return isinstance(current, Executing) and current.manager.phase in {Phase.STABILIZING, Phase.STABILIZED}

    # ---- the scheduler ----------------------------------------------------------------------------------------------

    def _apply(self, event: Event) -> None:
        step = machine.step(self.state, event)
        self.state = step.state
        for command in step.commands:
            self._execute(command)
        if self.state.version != self._version:
            self._version = self.state.version
            self._enter_state()
        self._adjust_slots()
        timers = machine.timers(self.state)
        self._timer = (timers[0].due - self.trace.start).total_seconds() if timers else float("inf")

    def _execute(self, command: SubmitDriver | KillDriver) -> None:
        effect = self._submit if isinstance(command, SubmitDriver) else self._end_driver
        self._later(0.0, partial(effect, command.epoch))

    def _submit(self, epoch: int) -> None:
        self._apply(DriverSubmitted(at=self._at(), epoch=epoch, submission_id="driver", application_id="application"))

    def _end_driver(self, epoch: int) -> None:
        self._apply(DriverEnded(at=self._at(), epoch=epoch, failure=STOPPED))

    def _enter_state(self) -> None:
        """The driver reads the directive of the new state."""
        match self.state.current:
            case Deploying(plan=plan):
                activate = partial(self._activate, plan.version, plan.query_version)
                if plan.query_version == self._built:
                    self._later(0.0, activate)
                else:
                    self._restart_query(activate, pause=PAUSES[self.shape.tier])
            case Restarting(in_place=False):
                self._restart_query(partial(self._end_driver, self.state.epoch), pause=0.0)
            case _:
                pass

    def _restart_query(self, then: Callable[[], None], pause: float) -> None:
        """The running batch ends, the query pauses, then the query continues."""
        batches = self.batches
        boundary = batches.ends if batches.runs and batches.working > 0 else self.now
        batches.resumes = boundary + pause
        self._later(batches.resumes - self.now, then)

    def _activate(self, version: int, built: int) -> None:
        plan = self.state.plan
        if plan is None or plan.version != version:
            return
        if built != self._built:
            self._built, self._tasks = built, plan.slots
            self._work()
        vertices_read = () if self.shape.tier is Tier.EXECUTORS else (DEFAULT_VERTEX,)
        self._apply(PlanActivated(at=self._at(), epoch=self.state.epoch, version=version, vertices_read=vertices_read))

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _offers(self) -> SlotsChanged:
        offer = SlotOffer(worker="worker", held=self.slots, free=self.shape.slots - self.slots)
        return SlotsChanged(at=self._at(), offers=(offer,))

    def _adjust_slots(self) -> None:
        """The driver requests the slots of its plan: new slots arrive after a while, and surplus slots end at once."""
        plan = self.state.plan
        wanted = 0 if plan is None or self.state.driver is None else plan.retained_slots
        if wanted < self.slots and self.state.driver is not None:
            self._hold(wanted)
        elif wanted > self.slots:
            warm_up = 2.0 if self.shape.tier is Tier.EXECUTORS else 0.0
            self._later(EXECUTOR_START + warm_up, partial(self._arrive, self.state.version))

    def _arrive(self, version: int) -> None:
        plan = self.state.plan
        if plan is not None and self.state.version == version and plan.retained_slots > self.slots:
            self._hold(plan.retained_slots)

    def _hold(self, slots: int) -> None:
        self.slots = slots
        self.held.append((self.now, slots))
        self._work()
        self._apply(self._offers())

    def _work(self) -> None:
        """Effective slots: at most those of the plan for which the query was built, or all slots with a fixed number of partitions."""
        if self.state.driver is None or not self._tasks:
            return
        partitions = self.shape.query.partitions
        if partitions > 1:
            self.batches.work_on(self.slots, partitions)
        elif self.shape.tier is Tier.EXECUTORS:
            self.batches.work_on(self.slots, 1)
        else:
            self.batches.work_on(min(self.slots, self._tasks), self._tasks)

    # ---- the policy -------------------------------------------------------------------------------------------------

    def _consult_policy(self) -> None:
        self._later(self.shape.every, self._consult_policy)
        self.memory, advice = self.policy.advise(self.memory, self._policy_input())
        newest = (
            self.state.requirements
            if self.state.pending_requirements is None
            else self.state.pending_requirements.requirements
        )
        if advice is None or dict(advice.bounds) == dict(newest):
            return
        self.reasons.append((self.now, advice.reason))
        if self.shape.tier is Tier.DRIVER:
            self._deployments += 1
            self._apply(JobRedeployed(at=self._at(), deployment=str(self._deployments)))
        self._apply(RequirementsChanged(at=self._at(), requirements=advice.bounds))

    def _policy_input(self) -> PolicyInput:
        current, plan = self.state.current, self.state.plan
        if isinstance(current, Deploying | Restarting):
            plan = current.previous_plan  # a plan that is being deployed is not active
        simulation_metrics = query_metrics_of(self.batches, self.state.epoch)
        return PolicyInput(
            at=self._at(),
            requirements=self.state.requirements,
            limits=self._limits,
            parallelism=None if plan is None else plan.parallelism,
            queries={} if simulation_metrics is None else {DEFAULT_SLOT_SHARING_GROUP: simulation_metrics},
            rescale_costs=COSTS,
            state_partitions={DEFAULT_SLOT_SHARING_GROUP: self.shape.query.partitions},
            tier=self.shape.tier,
        )


def query_metrics_of(batches: Batches, epoch: int) -> QueryMetrics | None:
    """Return the query metrics that a driver reports: the newest batch, and the duration of the running batch."""
    last = batches.last
    if last is None:
        return None
    return QueryMetrics(
        vertices=(DEFAULT_VERTEX,),
        input_rate=last.rows / last.interval,
        busy_rate=last.rows / last.seconds if last.seconds > 0 else 0.0,
        backlog=last.unread,
        busy=min(1.0, last.seconds / batches.query.trigger),
        batch_duration=last.seconds * 1000,
        trigger_interval=batches.query.trigger * 1000,
        epoch=epoch,
        sequence=int(batches.now * 1000),
        running=(batches.now - batches.begun) * 1000 if batches.runs else None,
    )
