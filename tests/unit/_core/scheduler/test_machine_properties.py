"""Any events in any order while time moves: the invariants hold after every step."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_adaptive._core.scheduler import events, machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import REPARTITION_ERROR, Event
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.restart_backoff import FixedDelay
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.steps import KillDriver, SubmitDriver
from tests.lab.scenario import HOPELESS, START, TRANSIENT
from tests.support.examples import examples
from tests.support.scheduler.invariants import check_step
from tests.support.scheduler.scenarios_by_state import SCENARIOS

TIMERS_AT_ONCE = 20
MAX_PARALLELISM = 8
DELAY = timedelta(seconds=7)
EVERY_TIME = FixedDelay(attempts=10**6, delay=DELAY)
TWICE = FixedDelay(attempts=2, delay=DELAY)

DURATIONS = st.sampled_from([0, 5, 30, 60])
OPTIONS = st.fixed_dictionaries(
    {
        "resource_wait_timeout": st.sampled_from([-1, 0, 20, 300]),
        "resource_stabilization_timeout": DURATIONS,
        "scaling_interval_min": DURATIONS,
        "scaling_interval_max": st.sampled_from([None, 90]),
        "cooldown_extension": st.sampled_from(["none", "first_change", "every_change"]),
        "executing_stabilization_timeout": DURATIONS,
        "max_trigger_delay": st.sampled_from([None, 0, 5, 60]),
        "max_failed_batches": st.integers(1, 3),
        "min_parallelism_increase": st.integers(1, 3),
        "reactive": st.sampled_from([False, False, True]),
        "load_balance_mode": st.sampled_from(["none", "slots", "tasks"]),
        "slot_request_max_interval": st.sampled_from([0, 0, 0.02, 5]),
        "slot_idle_timeout": st.sampled_from([0, 5, 50]),
        "below_lower_bound": st.sampled_from(["wait", "keep_running"]),
        "local_recovery_timeout": DURATIONS,
        "restart_strategy": st.sampled_from(["none", TWICE, EVERY_TIME, EVERY_TIME]),
        "failure_history_size": st.sampled_from([1, 16]),
        "highest_rescale_tier": st.sampled_from([0, 1, 2, 3, 3]),
        "standby": st.sampled_from(["none", "driver"]),
    }
)


@st.composite
def graphs(draw: st.DrawFn) -> JobGraph:
    """One to three vertices in one to three groups."""
    groups = draw(st.lists(st.sampled_from("ghi"), min_size=1, max_size=3))
    return JobGraph(job="job", vertices=tuple(draw(vertices(f"v{i}", group)) for i, group in enumerate(groups)))


@st.composite
def vertices(draw: st.DrawFn, name: str, group: str) -> JobVertex:
    lower = draw(st.integers(1, 2))
    bounds = ParallelismRange(lower, draw(st.integers(lower, 5)))
    return JobVertex(name=name, parallelism=bounds, max_parallelism=MAX_PARALLELISM, slot_sharing_group=group)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[SchedulerState, datetime]:
    """A new job, or one in mid-life under options that it did not begin with, as after a new deployment."""
    options = Options.of(draw(OPTIONS))
    if draw(st.booleans()):
        return machine.create(draw(graphs()), options), START
    life = SCENARIOS[draw(st.sampled_from(sorted(SCENARIOS)))]()
    return replace(life.state, options=options), life.now


FAILURES = st.sampled_from([TRANSIENT, TRANSIENT, HOPELESS])
FEW = st.integers(0, 5)
STALE = st.sampled_from([0, 0, 0, 0, -1])
"""Mostly the current epoch, now and then the one before."""


class Scheduler(RuleBasedStateMachine):
    """One job and everything that may happen to it."""

    @initialize(job=jobs())
    def begin(self, job: tuple[SchedulerState, datetime]) -> None:
        self.state, self.now = job
        self.first = self.state
        drivers = (self.state.driver, self.state.standby.driver)
        self.alive = {driver.epoch for driver in drivers if driver is not None}
        self.history: list[Event] = []

    def take(self, event: Event) -> None:
        before, step = self.state, machine.step(self.state, event)
        check_step(before, event, step)
        self.history.append(event)
        if isinstance(event, events.DriverEnded):
            self.alive.discard(event.epoch)
        # A standby never runs a query of the job before the journal names its epoch.
        self.alive -= {command.epoch for command in step.commands if isinstance(command, KillDriver)} - {before.epoch}
        self.alive.update(command.epoch for command in step.commands if isinstance(command, SubmitDriver))
        self.state = step.state

    @invariant()
    def at_most_one_driver_may_run_queries(self) -> None:
        """Each submitted driver runs until an event reports its end. A standby runs no query before the journal names its epoch."""
        alive: set[int] = getattr(self, "alive", set())
        if alive:
            standby = self.state.standby.driver
            assert alive - {standby and standby.epoch} <= {self.state.epoch}

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
            self.take(events.TimerFired(at=self.now, timer=timers[0].name, version=self.state.version))
        raise AssertionError(f"timers never settle: {machine.timers(self.state)}")

    @rule(timer=st.sampled_from(list(events.TimerName)), older=st.integers(0, 1))
    def timer_of_another_time(self, timer: events.TimerName, older: int) -> None:
        self.take(events.TimerFired(at=self.now, timer=timer, version=self.state.version - older))

    @rule(seconds=st.integers(1, 10))
    def clock_goes_back(self, seconds: int) -> None:
        self.now -= timedelta(seconds=seconds)

    # ---- the environment --------------------------------------------------------------------------------------------

    @rule()
    def started(self) -> None:
        self.take(events.SchedulingStarted(at=self.now))

    @rule(held=FEW, free=FEW)
    def slots_changed(self, held: int, free: int) -> None:
        offers = (events.SlotOffer(worker="w1", held=held), events.SlotOffer(worker="w2", free=free))
        self.take(events.SlotsChanged(at=self.now, offers=offers))

    @rule()
    def executors_arrive(self) -> None:
        """All that the plan needs; the usual course of things."""
        if self.state.plan is not None:
            self.slots_changed(held=self.state.plan.slots, free=1)
            self.plan_activated(stale=0)

    @rule(lower=st.integers(1, 4), more=st.integers(0, 4))
    def requirements_changed(self, lower: int, more: int) -> None:
        """Of every other vertex, or of all."""
        bounds = ParallelismRange(lower, lower + more)
        names = sorted(self.state.requirements)
        changed = dict.fromkeys(names[:: 1 + (more == 0)], bounds)
        self.take(events.RequirementsChanged(at=self.now, requirements={**self.state.requirements, **changed}))

    # ---- the driver -------------------------------------------------------------------------------------------------

    @rule(stale=STALE, vertices_read=st.sampled_from([None, (), ("read",)]))
    def plan_activated(self, stale: int, vertices_read: tuple[str, ...] | None = None) -> None:
        version = 0 if self.state.plan is None else self.state.plan.version
        self.take(
            events.PlanActivated(
                at=self.now, epoch=self.state.epoch, version=version + stale, vertices_read=vertices_read
            )
        )

    @rule(stale=STALE, causes=st.sampled_from([(), (REPARTITION_ERROR,)]))
    def plan_rejected(self, stale: int, causes: tuple[str, ...]) -> None:
        version = 0 if self.state.plan is None else self.state.plan.version
        failure = Failure(error_class="REFUSED", message="can't be done", causes=causes)
        self.take(events.PlanRejected(at=self.now, epoch=self.state.epoch, version=version + stale, failure=failure))

    @rule(deployment=st.sampled_from(["", "new"]))
    def redeployed(self, deployment: str) -> None:
        self.take(events.JobRedeployed(at=self.now, deployment=deployment))

    @rule(kind=st.sampled_from([events.BatchCommitted, events.SavepointCompleted, events.SavepointFailed]), stale=STALE)
    def batch_or_savepoint(
        self, kind: type[events.BatchCommitted | events.SavepointCompleted | events.SavepointFailed], stale: int
    ) -> None:
        self.take(kind(at=self.now, epoch=self.state.epoch + stale))

    @rule(
        kind=st.sampled_from([events.DriverEnded, events.DriverHeartbeatTimedOut, events.QueryFailed]),
        failure=FAILURES,
        stale=STALE,
    )
    def failed(
        self, kind: type[events.DriverEnded | events.DriverHeartbeatTimedOut | events.QueryFailed], failure, stale: int
    ) -> None:
        self.take(kind(at=self.now, epoch=self.state.epoch + stale, failure=failure))

    @rule(is_confirmed=st.booleans(), stale=STALE)
    def moved(self, is_confirmed: bool, stale: int) -> None:
        """The driver has stopped its queries, because others end it; its process may still be exiting."""
        epoch = self.state.epoch + stale
        self.take(
            events.DriverEnded(
                at=self.now, epoch=epoch, failure=TRANSIENT, in_order=True, is_confirmed=is_confirmed, is_move=True
            )
        )

    @rule(stale=STALE)
    def move_announced(self, stale: int) -> None:
        self.take(events.MoveAnnounced(at=self.now, epoch=self.state.epoch + stale, reason="its node was cordoned"))

    @rule(end=st.sampled_from([None, None, None, events.DriverEnded, events.DriverHeartbeatTimedOut]))
    def standby_prepared_or_failed(self, end: type[events.DriverEnded | events.DriverHeartbeatTimedOut] | None) -> None:
        """A standby whose heartbeat is missing may still be prepared, but is killed."""
        if self.state.standby.driver is not None:
            epoch = self.state.standby.driver.epoch
            self.take(
                events.DriverPrepared(at=self.now, epoch=epoch)
                if end is None
                else end(at=self.now, epoch=epoch, failure=TRANSIENT)
            )

    @rule()
    def submitted(self) -> None:
        self.take(
            events.DriverSubmitted(at=self.now, epoch=self.state.epoch, submission_id=f"driver-{self.state.epoch}")
        )

    # ---- the end ----------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["complete", "cancel", "suspend"]), skip=st.integers(0, 3))
    def end(self, kind: str, skip: int) -> None:
        """End the job rarely, because every history would be short otherwise."""
        if skip:
            return
        match kind:
            case "complete":
                self.take(events.JobCompleted(at=self.now, epoch=self.state.epoch))
            case "cancel":
                self.take(events.CancelRequested(at=self.now))
            case _:
                self.take(events.SuspendRequested(at=self.now))

    def teardown(self) -> None:
        """The same history gives the same state."""
        state = getattr(self, "first", None)
        if state is not None:
            for event in self.history:
                state = machine.step(state, event).state
            assert state == self.state


Scheduler.TestCase.settings = settings(max_examples=examples(250), stateful_step_count=50)
TestScheduler = pytest.mark.timeout(900)(pytest.mark.no_cover(Scheduler.TestCase))
