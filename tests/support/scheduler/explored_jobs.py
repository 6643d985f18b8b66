"""Jobs that are small enough to be explored, and the worlds that they live in: one where anything may happen, one that helps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import product
from typing import Any

from airflow_adaptive._core.scheduler import events, machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import REPARTITION_ERROR, Event
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.restart_backoff import RestartRecord
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Created,
    Deploying,
    Driver,
    Failing,
    Finished,
    Plan,
    Restarting,
    SchedulerState,
    Standby,
    StopWithSavepoint,
)
from tests.lab.scenario import HOPELESS, START, TRANSIENT, Scenario
from tests.support.scheduler.rescale_scenarios import ScenarioBuilder
from tests.support.scheduler.scenarios_by_state import leaving_soon, rescaling

SECOND = timedelta(seconds=1)
LONG_AGO = timedelta(seconds=-4)
"""Longer than any deadline of these models, and the second that a timer may be late."""

UNREPARTITIONABLE = Failure(
    error_class="UNSUPPORTED", message="state that cannot be repartitioned", causes=(REPARTITION_ERROR,)
)

DEADLINES: Mapping[str, object] = {
    "resource_wait_timeout": 2,
    "resource_stabilization_timeout": 1,
    "scaling_interval_min": 1,
    "executing_stabilization_timeout": 1,
    "max_trigger_delay": 2,
    "local_recovery_timeout": 1,
    "deploy_timeout": 2,
    "stop_timeout": 1,
    "slot_request_max_interval": 0,
    "slot_idle_timeout": 0,
    "restart_strategy": {"type": "fixed-delay", "attempts": 1, "delay": 1},
}

NO_WAIT: Mapping[str, object] = {
    "resource_stabilization_timeout": 0,
    "scaling_interval_min": 0,
    "executing_stabilization_timeout": 0,
    "max_trigger_delay": 1,
}


# ---- jobs -----------------------------------------------------------------------------------------------------------


def vertex(name: str, lower: int, upper: int, group: str = "g") -> JobVertex:
    return JobVertex(name=name, parallelism=ParallelismRange(lower, upper), max_parallelism=3, slot_sharing_group=group)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A job, its options, and what may change around it.

    Attributes:
        vertices: of the job.
        options: beside `DEADLINES`; no deadline is longer than two seconds.
        slots: that there may be, as (held by the job, free).
        standby: slots of a standby that there may be, as (held by it, free for one).
        bounds: that may be required, of all vertices alike.
        vertices_read: vertices that the script builds its queries for, None if drivers do not tell.
        deployments: that may follow each other.
        refusals: why a driver may refuse a plan.
        redeployed: scenario of an earlier deployment that the job continues with these options, None for a new job.
    """

    vertices: tuple[JobVertex, ...] = (vertex("job", 1, 2),)
    options: Mapping[str, object] = field(default_factory=dict)
    slots: tuple[tuple[int, int], ...] = ((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
    standby: tuple[tuple[int, int], ...] = ((0, 0),)
    bounds: tuple[tuple[int, int], ...] = ((1, 1), (1, 2), (2, 2))
    vertices_read: tuple[str, ...] | None = None
    deployments: tuple[str, ...] = ()
    refusals: tuple[Failure, ...] = ()
    redeployed: ScenarioBuilder | None = None

    def begin(self) -> "Place":
        """The job before the first event."""
        options = Options.of({**DEADLINES, **self.options})
        if self.redeployed is not None:
            earlier = self.redeployed()
            return Place(replace(earlier.state, options=options), earlier.now)
        return Place(machine.create(JobGraph(job="job", vertices=self.vertices), options), START)


MODELS: Mapping[str, Model] = {
    "redeployed during a rescale": Model(
        options={**NO_WAIT, "highest_rescale_tier": 0},
        slots=((0, 0), (2, 0), (2, 2), (4, 0), (0, 4)),
        bounds=((1, 2), (1, 4)),
        redeployed=rescaling,
    ),
    "gang larger than the first plan": Model(
        options=NO_WAIT,
        slots=((0, 0), (2, 0), (2, 2)),
        bounds=((1, 2), (3, 4)),
        refusals=(TRANSIENT,),
        redeployed=partial(Scenario.given_deploying, Scenario(), 2),
    ),
    "one vertex": Model(),
    "one vertex, no restarts, keeps running": Model(
        options={**NO_WAIT, "below_lower_bound": "keep_running", "restart_strategy": "none"}
    ),
    "cooldown extended, rescales forced": Model(
        options={"cooldown_extension": "every_change", "scaling_interval_max": 2, "min_parallelism_increase": 2},
        slots=((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (1, 2), (2, 1), (3, 0)),
        bounds=((1, 2), (1, 3)),
    ),
    "requirements folded, idle slots kept": Model(
        options={**NO_WAIT, "slot_request_max_interval": 1, "slot_idle_timeout": 1}
    ),
    "executors come and go under the query": Model(
        vertices=(vertex("job", 1, 1),),
        options={},
        bounds=((1, 1), (1, 2), (1, 3)),
        vertices_read=(),
        deployments=("",),
        refusals=(TRANSIENT,),
    ),
    "deployed again": Model(
        options=NO_WAIT,
        vertices_read=("job",),
        slots=((0, 0), (0, 2), (1, 1), (2, 0)),
        bounds=((1, 1), (1, 2)),
        deployments=("", "new"),
        refusals=(UNREPARTITIONABLE,),
    ),
    "standby": Model(
        options={**NO_WAIT, "max_trigger_delay": 0, "standby": "driver+executors"},
        slots=((0, 0), (0, 1), (1, 0)),
        standby=((0, 1), (1, 0)),
        bounds=((1, 1),),
        deployments=("", "new"),
    ),
    "driver moves": Model(
        options={**NO_WAIT, "max_trigger_delay": 0, "scaling_interval_min": 1},
        slots=((0, 0), (0, 1), (1, 0)),
        standby=((0, 0), (0, 1), (1, 0)),
        bounds=((1, 1),),
        redeployed=leaving_soon,
    ),
    "only executors": Model(
        options={**NO_WAIT, "highest_rescale_tier": 0}, vertices_read=("job",), refusals=(TRANSIENT,)
    ),
    "reactive": Model(options={"reactive": True}, bounds=((1, 1), (1, 3))),
    "two vertices, one group": Model(vertices=(vertex("read", 1, 1), vertex("count", 1, 2)), options=NO_WAIT),
    "two vertices, two groups": Model(
        vertices=(vertex("read", 1, 2, "g"), vertex("count", 1, 2, "h")),
        options=NO_WAIT,
        slots=((0, 0), (0, 2), (0, 3), (2, 0), (2, 1), (3, 0), (2, 2)),
        bounds=((1, 1), (1, 2)),
    ),
}


# ---- the same state -------------------------------------------------------------------------------------------------

_BOOK_KEEPING: Mapping[type, set[str]] = {
    SchedulerState: {"job", "options", "version", "epoch", "num_restarts", "num_rescales", "failures", "timeline"},
    Plan: {"version", "query_version"},
    Driver: {"epoch"},
    Standby: {"epoch"},
}
"""What no decision depends on, or what is the same in all states of a model: the newest version, the newest epoch."""


@dataclass(frozen=True, slots=True)
class Place:
    """A state of the scheduler, at a time."""

    state: SchedulerState
    now: datetime

    @property
    def key(self) -> int:
        """The same for places that no future can tell apart."""
        state = self.state
        if isinstance(state.current, Canceling | Failing | Finished):
            state = replace(
                state, offers=(), standby_offer=None, restarts=RestartRecord(), was_accepted=False, has_run=False
            )
        return hash(_canonical(state, self.now))


def _canonical(value: Any, now: datetime) -> Any:
    """Times count from now, and what is older than any deadline is only long ago."""
    if isinstance(value, datetime):
        return max(value - now, LONG_AGO)
    if is_dataclass(value):
        kind: type = type(value)
        return (kind, *[_canonical(getattr(value, name), now) for name in _deciding(kind)])
    if isinstance(value, tuple):
        return tuple([_canonical(item, now) for item in value])
    if isinstance(value, Mapping):
        return tuple([(name, _canonical(item, now)) for name, item in value.items()])
    return value


@cache
def _deciding(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name not in _BOOK_KEEPING.get(kind, ()))


# ---- a world in which anything may happen ---------------------------------------------------------------------------

Move = tuple[datetime, Event | None]
"""When, and what: None for a second in which nothing happens, not even what is due."""


def possible_events(model: Model, place: Place) -> Iterator[Move]:
    """All that may come next; a timer comes when it is due, or a second late, or with another event before it."""
    state, now = place.state, place.now
    timers = machine.timers(state)
    if not timers or timers[0].due >= now:
        yield now + SECOND, None
    if timers:
        yield fired(place)
    for event in external_events(model, place):
        yield now, event


def fired(place: Place) -> tuple[datetime, events.TimerFired]:
    """The next timer, when it is due."""
    timer = machine.timers(place.state)[0]
    at = max(place.now, timer.due)
    return at, events.TimerFired(at=at, timer=timer.name, version=place.state.version)


def external_events(model: Model, place: Place) -> Iterator[Event]:
    """Every event that may come now, but for timers."""
    state, now, epoch = place.state, place.now, place.state.epoch
    if isinstance(state.current, Created):
        yield events.SchedulingStarted(at=now)
    yield from _slots_changed(model, place)
    for bounds in model.bounds:
        yield events.RequirementsChanged(
            at=now, requirements=dict.fromkeys(state.requirements, ParallelismRange(*bounds))
        )
    yield events.DriverSubmitted(at=now, epoch=epoch, submission_id="driver")
    yield events.SubmissionUnanswered(at=now, epoch=epoch, reason="no answer")
    for reason in ("its node was cordoned", ""):
        yield events.MoveAnnounced(at=now, epoch=epoch, reason=reason)
    for failure in (TRANSIENT, HOPELESS):
        yield events.DriverEnded(at=now, epoch=epoch, failure=failure)
        yield events.DriverHeartbeatTimedOut(at=now, epoch=epoch, failure=failure)
        yield events.QueryFailed(at=now, epoch=epoch, failure=failure)
    for is_confirmed in (False, True):
        yield events.DriverEnded(
            at=now, epoch=epoch, failure=TRANSIENT, in_order=True, is_confirmed=is_confirmed, is_move=True
        )
    if state.standby.driver is not None:
        standby = state.standby.driver.epoch
        yield events.DriverSubmitted(at=now, epoch=standby, submission_id="standby")
        yield events.DriverPrepared(at=now, epoch=standby)
        yield events.DriverEnded(at=now, epoch=standby, failure=TRANSIENT)
        yield events.DriverHeartbeatTimedOut(at=now, epoch=standby, failure=HOPELESS)
    yield events.PlanActivated(at=now, epoch=epoch, version=state.version, vertices_read=model.vertices_read)
    for failure in model.refusals:
        yield events.PlanRejected(at=now, epoch=epoch, version=state.version, failure=failure)
    for deployment in model.deployments:
        yield events.JobRedeployed(at=now, deployment=deployment)
    yield events.BatchCommitted(at=now, epoch=epoch)
    yield events.SavepointCompleted(at=now, epoch=epoch)
    yield events.SavepointFailed(at=now, epoch=epoch)
    yield events.JobCompleted(at=now, epoch=epoch)
    yield events.CancelRequested(at=now)
    yield events.SuspendRequested(at=now)


def _slots_changed(model: Model, place: Place) -> Iterator[Event]:
    for slots, standby in product(model.slots, model.standby):
        if not standby[0] or place.state.standby.driver is not None:
            yield events.SlotsChanged(at=place.now, offers=offered(*slots), standby=offered(*standby)[0])


def offered(held: int, free: int) -> tuple[events.SlotOffer, ...]:
    return (events.SlotOffer(worker="worker", held=held, free=free),)


# ---- a world that helps ---------------------------------------------------------------------------------------------


def helped(model: Model, place: Place) -> tuple[datetime, Event] | None:
    """What comes next where slots are there, drivers obey and timers are punctual; None when all is at rest."""
    state, now = place.state, place.now
    timers, slots = machine.timers(state), _all_slots(model, state)
    of_standby = offered(0, max(free for _, free in model.standby))[0]
    event = _obeyed(state, now)
    if timers and timers[0].due <= now:
        return fired(place)
    if event is not None:
        return now, event
    if state.standby.driver is not None and not state.standby.is_prepared:
        return now, events.DriverPrepared(at=now, epoch=state.standby.driver.epoch)
    if (slots, of_standby) != (state.offers, state.standby_offer):
        return now, events.SlotsChanged(at=now, offers=slots, standby=of_standby)
    if isinstance(state.current, Deploying):
        return now, events.PlanActivated(
            at=now, epoch=state.epoch, version=state.version, vertices_read=model.vertices_read
        )
    return fired(place) if timers else None


def _obeyed(state: SchedulerState, now: datetime) -> Event | None:
    """Return the event of a driver that obeys: it starts, or it ends."""
    ended = events.DriverEnded(at=now, epoch=state.epoch, failure=TRANSIENT)
    match state.current:
        case Created():
            return events.SchedulingStarted(at=now)
        case StopWithSavepoint(saved=False, killed=False):
            return events.SavepointCompleted(at=now, epoch=state.epoch)
        case StopWithSavepoint() | Canceling() | Failing() | Restarting(stopped_at=None):
            return ended
        case Finished() if state.driver is not None:
            return ended
        case _:
            return None


def _all_slots(model: Model, state: SchedulerState) -> tuple[events.SlotOffer, ...]:
    """The most slots that there ever are; a driver holds those of its plan."""
    total = max(held + free for held, free in model.slots)
    wanted = 0 if state.plan is None or state.driver is None else state.plan.slots
    return offered(min(wanted, total), total - min(wanted, total))
