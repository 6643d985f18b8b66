"""Any events in any order while time moves: the invariants hold after every step."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from airflow_adaptive.scheduler import machine
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    BatchFailed,
    CancelRequested,
    DriverEnded,
    DriverSilent,
    DriverSubmitted,
    Event,
    JobCompleted,
    PlanInForce,
    QueryFailed,
    RequirementsChanged,
    SavepointCompleted,
    SavepointFailed,
    SchedulingStarted,
    SlotOffer,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.options import Options
from airflow_adaptive.scheduler.policies.restart_backoff import FixedDelay
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.testing.scenario import HOPELESS, TRANSIENT, Scenario
from tests.scheduler.invariants import check_step
from tests.scheduler.lives import LIVES

TIMERS_AT_ONCE = 20
EVERY_TIME = FixedDelay(attempts=10**6, delay=timedelta(seconds=7))

DURATIONS = st.sampled_from([0, 5, 30, 60])
OPTIONS = st.fixed_dictionaries(
    {
        "resource_wait_timeout": st.sampled_from([-1, 0, 20, 300]),
        "resource_stabilization_timeout": DURATIONS,
        "scaling_interval_min": DURATIONS,
        "scaling_interval_max": st.sampled_from([None, 90]),
        "cooldown_extension": st.sampled_from(["none", "first_change", "every_change"]),
        "executing_stabilization_timeout": DURATIONS,
        "max_trigger_delay": DURATIONS,
        "max_failed_batches": st.integers(1, 3),
        "min_parallelism_increase": st.integers(1, 3),
        "below_lower_bound": st.sampled_from(["wait", "keep_running"]),
        "local_recovery_timeout": DURATIONS,
        "restart_strategy": st.sampled_from(["none", EVERY_TIME, EVERY_TIME]),
    }
)


@st.composite
def two_vertices(draw: st.DrawFn) -> Scenario:
    """A new job with two vertices, in one group or in two."""
    lower = draw(st.integers(1, 2))
    bounds = {"read": ParallelismRange(1, 2), "count": ParallelismRange(lower, draw(st.integers(lower, 5)))}
    vertices = tuple(
        JobVertex(name=name, parallelism=bounds[name], max_parallelism=8, slot_sharing_group=group)
        for name, group in zip(bounds, draw(st.sampled_from(["gg", "gh"])), strict=True)
    )
    return Scenario(graph=JobGraph(job="job", vertices=vertices))


JOBS = two_vertices()
FAILURES = st.sampled_from([TRANSIENT, TRANSIENT, HOPELESS])
FEW = st.integers(0, 5)
STALE = st.sampled_from([0, 0, 0, 0, -1])
"""Mostly the current epoch, now and then the one before."""


class Scheduler(RuleBasedStateMachine):
    """One job and everything that may happen to it."""

    @initialize(job=st.one_of(JOBS, st.sampled_from(sorted(LIVES)).map(lambda life: LIVES[life]())), options=OPTIONS)
    def begin(self, job: Scenario, options: dict[str, object]) -> None:
        """A new job, or one in mid-life under options that it did not begin with, as after a new deployment."""
        self.now = job.now
        self.state = self.first = replace(job.state, options=Options.of(options))
        self.history: list[Event] = []

    def take(self, event: Event) -> None:
        before, step = self.state, machine.step(self.state, event)
        self.history.append(event)
        check_step(before, event, step)
        self.state = step.state

    # ---- time -------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0, 1, 10, 31, 61, 301]))
    def time_passes(self, seconds: int) -> None:
        """The loop delivers each timer when it is due."""
        until = self.now + timedelta(seconds=seconds)
        while (timers := machine.timers(self.state)) and timers[0].due <= until:
            self.now = max(self.now, timers[0].due)
            self.deliver_what_is_due()
        self.now = until

    @rule(seconds=st.sampled_from([1, 61, 601]))
    def loop_sleeps(self, seconds: int) -> None:
        """The loop was away: all that fell due is delivered late."""
        self.now += timedelta(seconds=seconds)
        self.deliver_what_is_due()

    def deliver_what_is_due(self) -> None:
        for _ in range(TIMERS_AT_ONCE):
            timers = machine.timers(self.state)
            if not timers or timers[0].due > self.now:
                return
            self.take(TimerFired(at=self.now, timer=timers[0].name, version=self.state.version))
        raise AssertionError(f"timers never settle: {machine.timers(self.state)}")

    @rule(timer=st.sampled_from(list(TimerName)), older=st.integers(0, 1))
    def timer_of_another_time(self, timer: TimerName, older: int) -> None:
        self.take(TimerFired(at=self.now, timer=timer, version=self.state.version - older))

    # ---- the world --------------------------------------------------------------------------------------------------

    @rule()
    def started(self) -> None:
        self.take(SchedulingStarted(at=self.now))

    @rule(held=FEW, free=FEW)
    def slots_changed(self, held: int, free: int) -> None:
        offers = (SlotOffer(worker="w1", held=held), SlotOffer(worker="w2", free=free))
        self.take(SlotsChanged(at=self.now, offers=offers))

    @rule()
    def executors_arrive(self) -> None:
        """All that the plan needs; the usual course of things."""
        if self.state.plan is not None:
            self.slots_changed(held=self.state.plan.slots, free=1)
            self.plan_in_force(stale=0)

    @rule(lower=st.integers(1, 4), more=st.integers(0, 4))
    def requirements_changed(self, lower: int, more: int) -> None:
        bounds = dict.fromkeys(self.state.requirements, ParallelismRange(lower, lower + more))
        self.take(RequirementsChanged(at=self.now, requirements=bounds))

    # ---- the driver -------------------------------------------------------------------------------------------------

    @rule(stale=STALE)
    def plan_in_force(self, stale: int) -> None:
        version = 0 if self.state.plan is None else self.state.plan.version
        self.take(PlanInForce(at=self.now, epoch=self.state.epoch, version=version + stale))

    @rule(kind=st.sampled_from([BatchCommitted, BatchFailed, SavepointCompleted, SavepointFailed]), stale=STALE)
    def batch_or_savepoint(
        self, kind: type[BatchCommitted | BatchFailed | SavepointCompleted | SavepointFailed], stale: int
    ) -> None:
        self.take(kind(at=self.now, epoch=self.state.epoch + stale))

    @rule(kind=st.sampled_from([DriverEnded, DriverSilent, QueryFailed]), failure=FAILURES, stale=STALE)
    def failed(self, kind: type[DriverEnded | DriverSilent | QueryFailed], failure, stale: int) -> None:
        self.take(kind(at=self.now, epoch=self.state.epoch + stale, failure=failure))

    @rule()
    def submitted(self) -> None:
        self.take(DriverSubmitted(at=self.now, epoch=self.state.epoch, submission_id=f"driver-{self.state.epoch}"))

    # ---- the end ----------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["complete", "cancel", "suspend", "leave"]), patience=st.integers(0, 3))
    def end(self, kind: str, patience: int) -> None:
        """Not too often: every history would be short."""
        if patience:
            return
        match kind:
            case "complete":
                self.take(JobCompleted(at=self.now, epoch=self.state.epoch))
            case "cancel":
                self.take(CancelRequested(at=self.now))
            case _:
                self.take(SuspendRequested(at=self.now, with_savepoint=kind == "suspend"))

    def teardown(self) -> None:
        """The same history gives the same state."""
        state = getattr(self, "first", None)
        if state is not None:
            for event in self.history:
                state = machine.step(state, event).state
            assert state == self.state


Scheduler.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestScheduler = Scheduler.TestCase
