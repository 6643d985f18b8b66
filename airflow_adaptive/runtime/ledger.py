"""Who may take what of a cluster: what is free, dealt among the jobs that share it. Pure.

Theory: free cores are no offer. Another job may have planned on them and not have them yet, for its driver is still
starting; and two jobs that see the same free cores would both plan on them. So each job bids: what it has planned, the
executors without which it can't run, and those that it could use. With each poll of the cluster everything free is
dealt anew, in three rounds:

1. What is planned and has not arrived goes to those who planned it, the oldest plan first: the master serves them so.
   Drivers that wait for a place take theirs, other people's too.
2. A job below its minimum gets its minimum (and a place for its driver), whole or not at all.
3. What is left goes to the jobs that can use more. While a job waits whose minimum was not there, nobody grows: else the
   slots that come one by one would never be enough for it. It is waited for with patience, not for ever.

In the second and third round the higher priority goes first, then the smaller name. Nobody has to give back what it has;
Flink's session clusters do not ask for that either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from airflow_adaptive.job.documents import Action
from airflow_adaptive.ports import ClusterSnapshot, SubmissionState, Worker
from airflow_adaptive.runtime.directive import action, executors
from airflow_adaptive.runtime.room import Room
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.scheduler.policies.slot_allocation import minimum_slots, required_slots
from airflow_adaptive.scheduler.state import Canceling, Created, Failing, Finished, SchedulerState, StopWithSavepoint

Key = TypeVar("Key", bound=Hashable)

Share = tuple[Worker, ...]
"""Workers with only what is free there for one job, beside its driver."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)

_WANTS_NOTHING = (Created, StopWithSavepoint, Canceling, Failing, Finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """What a job has planned on a cluster, and what it wants.

    Attributes:
        job: its id.
        executor: size of its executors.
        driver: size of its driver.
        priority: a job with a higher one goes first.
        drives: whether it has a driver, or is about to submit one.
        submission_id: of the driver, None if the cluster has not told it.
        application_id: of the driver's application, None if that is unknown.
        planned: executors of its plan.
        minimum: executors without which it can't run.
        maximum: executors that it can use.
        since: when it made its plan, or began to wait.
        patience: how long others must not grow while it waits for its minimum.
    """

    job: str
    executor: ExecutorShape = ExecutorShape()
    driver: DriverShape = DriverShape()
    priority: int = 1
    drives: bool = False
    submission_id: str | None = None
    application_id: str | None = None
    planned: int = 0
    minimum: int = 0
    maximum: int = 0
    since: datetime = LONG_AGO
    patience: timedelta = timedelta(0)

    def exceeds(self, other: Bid) -> bool:
        """Whether it has planned what the other has not."""
        return (self.drives and not other.drives) or self.planned > other.planned

    def as_planned(self) -> Bid:
        """The same without what is wanted beyond the plan."""
        return replace(self, minimum=0, maximum=0)


def bid(spec: JobSpec, state: SchedulerState) -> Bid:
    """The bid of a job in this state."""
    driver, plan, options = state.driver, state.plan, state.options
    stops = driver is not None and action(state) is Action.STOP
    wants = not stops and not isinstance(state.current, _WANTS_NOTHING)
    drives = driver is not None and not stops
    return Bid(
        job=spec.graph.job,
        executor=spec.executor,
        driver=spec.driver,
        priority=spec.priority,
        drives=drives,
        submission_id=None if driver is None else driver.submission_id,
        application_id=None if driver is None else driver.application_id,
        planned=0 if plan is None or not drives else executors(plan.slots, spec.executor),
        minimum=executors(minimum_slots(state.job, state.requirements), spec.executor) if wants else 0,
        maximum=executors(required_slots(state.job, state.requirements), spec.executor) if wants else 0,
        since=getattr(state.current, "since", LONG_AGO),
        patience=options.resource_wait_timeout or options.deploy_timeout,
    )


def deal(bids: Mapping[Key, Bid], cluster: ClusterSnapshot, now: datetime) -> dict[Key, Share]:
    """Everyone's share of what is free now; no two of them overlap as far as their jobs can use them."""
    room, needs = Room(cluster.workers), _needs(bids, cluster)
    _place_strangers(room, cluster, bids.values())
    for need in sorted(needs.values(), key=_by_age):
        _serve_plan(room, need)
    ranked = sorted(needs.values(), key=_by_rank)
    for need in ranked:
        _serve_minimum(room, need)
    left = Room(()) if any(need.waits and now - need.bid.since < need.bid.patience for need in ranked) else room
    for need in ranked:
        _serve_growth(left, need)
    workers = {worker.worker_id: worker for worker in cluster.workers}
    return {key: _share(need, workers) for key, need in needs.items()}


def rest(bids: Mapping[Key, Bid], cluster: ClusterSnapshot) -> Share:
    """What is left when everyone has what it planned and its minimum."""
    room, needs = Room(cluster.workers), _needs(bids, cluster)
    _place_strangers(room, cluster, bids.values())
    for need in sorted(needs.values(), key=_by_age):
        _serve_plan(room, need)
    for need in sorted(needs.values(), key=_by_rank):
        _serve_minimum(room, need)
    return room.workers


@dataclass(slots=True, kw_only=True)
class _Need:
    """What a bid comes to on a certain cluster, and what was dealt to it.

    Attributes:
        bid: it.
        waiting_driver: the driver is submitted, or about to be, and has no place yet.
        missing_driver: a driver is wanted, and there is none.
        promised: executors that are planned and not granted.
        lacking: executors that are missing to the minimum, beyond those.
        growth: executors that could be used beyond those.
        waits: the minimum was not there.
        dealt: places of executors that were dealt, by worker.
        left: what was left for it to grow; of a job that waits, what there was instead.
    """

    bid: Bid
    waiting_driver: bool
    missing_driver: bool
    promised: int
    lacking: int
    growth: int
    waits: bool = False
    dealt: Counter[str] = field(default_factory=Counter)
    left: tuple[Worker, ...] = ()


def _by_age(need: _Need) -> tuple[datetime, str]:
    return need.bid.since, need.bid.job


def _by_rank(need: _Need) -> tuple[int, str]:
    return -need.bid.priority, need.bid.job


def _needs(bids: Mapping[Key, Bid], cluster: ClusterSnapshot) -> dict[Key, _Need]:
    named = {job: application for application, job in cluster.names.items()}
    return {key: _need(bid, cluster, named) for key, bid in bids.items()}


def _need(bid: Bid, cluster: ClusterSnapshot, named: Mapping[str, str]) -> _Need:
    """What the bid comes to; `named` has applications by name, since a driver that has just started has not told its own."""
    application = bid.application_id or named.get(bid.job, "")
    granted = cluster.granted.get(application, 0) // bid.executor.cores if bid.drives else 0
    base = max(granted, bid.planned)
    lacking = max(bid.minimum - base, 0)
    return _Need(
        bid=bid,
        waiting_driver=bid.drives and application not in cluster.granted and not _is_placed(bid, cluster),
        missing_driver=not bid.drives and bid.maximum > 0,
        promised=max(bid.planned - granted, 0),
        lacking=lacking,
        growth=max(bid.maximum - base - lacking, 0),
    )


def _is_placed(bid: Bid, cluster: ClusterSnapshot) -> bool:
    driver = cluster.drivers.get(bid.submission_id or "")
    return driver is not None and driver.state is not SubmissionState.SUBMITTED


def _place_strangers(room: Room, cluster: ClusterSnapshot, bids: Iterable[Bid]) -> None:
    """Drivers of others that wait for a place get the next one that there is."""
    own = {bid.submission_id for bid in bids}
    for submission_id, driver in cluster.drivers.items():
        if driver.state is SubmissionState.SUBMITTED and submission_id not in own:
            room.place(DriverShape(cores=driver.cores, memory_mb=driver.memory_mb), ExecutorShape())


def _serve_plan(room: Room, need: _Need) -> None:
    if need.waiting_driver:
        room.place(need.bid.driver, need.bid.executor)
    need.dealt.update(room.take(need.promised, need.bid.executor))


def _serve_minimum(room: Room, need: _Need) -> None:
    bid = need.bid
    if not need.lacking:
        return
    there = room.beside(bid.driver, bid.executor) if need.missing_driver else room.executors(bid.executor)
    if there >= need.lacking:
        if need.missing_driver:
            room.place(bid.driver, bid.executor)
        need.dealt.update(room.take(need.lacking, bid.executor))
        return
    need.waits, left = True, Room(room.workers)
    placed = left.place(bid.driver, bid.executor) if need.missing_driver else True
    need.left = left.workers if placed else ()


def _serve_growth(room: Room, need: _Need) -> None:
    if need.growth and not need.waits:
        need.left = room.workers
        room.take(need.growth, need.bid.executor)


def _share(need: _Need, workers: Mapping[str, Worker]) -> Share:
    """What was dealt and what was left, as workers."""
    executor, left = need.bid.executor, {worker.worker_id: worker for worker in need.left}
    for name, number in need.dealt.items():
        free = left.get(name) or replace(workers[name], cores_free=0, memory_free_mb=0)
        left[name] = replace(
            free,
            cores_free=free.cores_free + number * executor.cores,
            memory_free_mb=free.memory_free_mb + number * executor.memory_mb,
        )
    return tuple(left.values())
