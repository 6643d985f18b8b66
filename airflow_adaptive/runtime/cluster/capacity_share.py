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
from collections.abc import Collection, Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from airflow_adaptive.job.protocol.documents import Action
from airflow_adaptive.ports import ClusterSnapshot, SubmissionState, Worker
from airflow_adaptive.runtime.cluster.free_capacity import Executors, FreeCapacity
from airflow_adaptive.runtime.directive import action, executors
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.scheduler.allocator.slot_sharing import minimum_slots, required_slots
from airflow_adaptive.scheduler.state import Canceling, Created, Failing, Finished, SchedulerState, StopWithSavepoint

Key = TypeVar("Key", bound=Hashable)

LONG_AGO = datetime.min.replace(tzinfo=UTC)

_WANTS_NOTHING = (Created, StopWithSavepoint, Canceling, Failing, Finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDemand:
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

    def exceeds(self, other: SlotDemand) -> bool:
        """Whether it has planned what the other has not."""
        return (self.drives and not other.drives) or self.planned > other.planned

    def as_planned(self) -> SlotDemand:
        """The same without what is wanted beyond the plan."""
        return replace(self, minimum=0, maximum=0)


def bid(spec: JobSpec, state: SchedulerState) -> SlotDemand:
    """The bid of a job in this state."""
    driver, plan, options = state.driver, state.plan, state.options
    stops = driver is not None and action(state) is Action.STOP
    wants = not stops and not isinstance(state.current, _WANTS_NOTHING)
    drives = driver is not None and not stops
    return SlotDemand(
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


def deal(bids: Mapping[Key, SlotDemand], cluster: ClusterSnapshot, now: datetime) -> dict[Key, Executors]:
    """Everyone's share of what is free now: executors by worker, beside the driver. What is dealt is dealt once.

    Only a job that waits sees something that may be another's: what there is, although it can't run on that.
    """
    room, needs = FreeCapacity(cluster.workers), _needs(bids, cluster)
    ranked = _serve_first_rounds(room, needs.values(), cluster)
    if not any(need.waits and now - need.bid.since < need.bid.patience for need in ranked):
        for need in ranked:
            need.dealt.update({} if need.waits else room.take(need.growth, need.bid.executor))
    return {key: need.dealt for key, need in needs.items()}


def rest(bids: Mapping[Key, SlotDemand], cluster: ClusterSnapshot) -> tuple[Worker, ...]:
    """What is left when everyone has what it planned and its minimum."""
    room, needs = FreeCapacity(cluster.workers), _needs(bids, cluster)
    _serve_first_rounds(room, needs.values(), cluster)
    return room.workers


def _serve_first_rounds(room: FreeCapacity, needs: Collection[_Need], cluster: ClusterSnapshot) -> list[_Need]:
    """Serve what is planned, and minimums; returns the needs by their rank."""
    _place_strangers(room, cluster, {need.bid.submission_id for need in needs})
    for need in sorted(needs, key=_by_age):
        _serve_plan(room, need)
    ranked = sorted(needs, key=_by_rank)
    for need in ranked:
        _serve_minimum(room, need)
    return ranked


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
        dealt: executors by worker; to a job that waits, those that there are.
    """

    bid: SlotDemand
    waiting_driver: bool
    missing_driver: bool
    promised: int
    lacking: int
    growth: int
    waits: bool = False
    dealt: Counter[str] = field(default_factory=Counter)


def _by_age(need: _Need) -> tuple[datetime, str]:
    return need.bid.since, need.bid.job


def _by_rank(need: _Need) -> tuple[int, str]:
    return -need.bid.priority, need.bid.job


def _needs(bids: Mapping[Key, SlotDemand], cluster: ClusterSnapshot) -> dict[Key, _Need]:
    named = {job: application for application, job in cluster.names.items()}
    return {key: _need(bid, cluster, named) for key, bid in bids.items()}


def _need(bid: SlotDemand, cluster: ClusterSnapshot, named: Mapping[str, str]) -> _Need:
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


def _is_placed(bid: SlotDemand, cluster: ClusterSnapshot) -> bool:
    driver = cluster.drivers.get(bid.submission_id or "")
    return driver is not None and driver.state is not SubmissionState.SUBMITTED


def _place_strangers(room: FreeCapacity, cluster: ClusterSnapshot, own: Container[str | None]) -> None:
    """Drivers of others that wait for a place get the next one that there is."""
    for submission_id, driver in cluster.drivers.items():
        if driver.state is SubmissionState.SUBMITTED and submission_id not in own:
            room.place(DriverShape(cores=driver.cores, memory_mb=driver.memory_mb), ExecutorShape())


def _serve_plan(room: FreeCapacity, need: _Need) -> None:
    if need.waiting_driver:
        room.place(need.bid.driver, need.bid.executor)
    need.dealt.update(room.take(need.promised, need.bid.executor))


def _serve_minimum(room: FreeCapacity, need: _Need) -> None:
    if not need.lacking:
        return
    executor, driver = need.bid.executor, need.bid.driver if need.missing_driver else None
    need.waits = not room.holds(need.lacking, executor, driver)
    if need.waits:
        need.dealt.update(room.executors(executor) if driver is None else room.beside(driver, executor))
        return
    if driver is not None:
        room.place(driver, executor)
    need.dealt.update(room.take(need.lacking, executor))
