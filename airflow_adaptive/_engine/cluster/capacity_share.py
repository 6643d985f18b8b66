"""Shares the free capacity of a cluster among the jobs that use the cluster. Pure.

Theory: free cores are not available to every job. Another job may have planned on the cores before its executors have started, and
two jobs that observe the same free cores would both plan on them. So each job states its slot demand: the executors of its plan, the
executors without which it cannot run, and the executors that it can use. Each poll of the cluster shares all free capacity again, in
five rounds:

1. The executors that are planned and not granted yet, oldest plan first, because the master serves applications in that order. Drivers
   that wait for a worker get their cores, foreign drivers too. The executors that a standby has requested count as planned.
2. The minimum of each job below its minimum, with a worker for its driver: the whole minimum or nothing.
3. Standbys of drivers that have to leave their machine: a driver with all executors that the plan lacks on other machines, or nothing, so
   that many jobs on one machine move one after the other.
4. The rest, for the jobs that can use more executors. No job grows while another job waits for its minimum, because slots that become
   free one by one would never suffice for the minimum. The wait is limited by `SlotDemand.growth_block_timeout`. The third and the
   last round wait with it.
5. What is left, for other standbys: a driver with the executors that the standby can use.

In the rounds after the first, jobs with a higher priority come first, and the name decides between equal priorities. No job has to
return what it holds. Flink's session clusters do not require that either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from airflow_adaptive._core.ports import ClusterSnapshot, Request, SubmissionState
from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive._core.scheduler import standby
from airflow_adaptive._core.scheduler.allocator import minimum_slots, required_slots
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.cluster.free_capacity import Executors, FreeCapacity, Shortage
from airflow_adaptive._engine.directive import action, executors
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec

Key = TypeVar("Key", bound=Hashable)

FOREVER = timedelta(days=36_500)

UNREGISTERED = "unregistered"
"""Id of no application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDemand:
    """Executors that a job has planned, and executors that the job needs or can use.

    Attributes:
        job: id of the job.
        application_name: name of the Spark application, "" for the id of the job.
        executor: size of an executor.
        driver: size of the driver.
        priority: priority of the job; a higher priority comes first.
        has_driver: whether the job has a driver, or is about to submit a driver.
        submission_id: submission id of the driver, None if it is unknown.
        application_id: application id of the driver, None if it is unknown.
        planned: executors of the plan.
        minimum: executors without which the job cannot run.
        maximum: executors that the job can use.
        age: time for which the job has had its plan, or has waited; a duration, because the clocks of two jobs may differ.
        growth_block_timeout: longest time for which other jobs must not grow while this job waits for its minimum.
        may_probe: whether the job is offered slots that may not exist (`_engine.cluster.probe`).
        moves: whether this is the demand of a standby whose job has a driver that has to leave its machine.
        standby: demand of the standby, None if the job needs none.
    """

    job: str
    application_name: str = ""
    executor: ExecutorShape = ExecutorShape()
    driver: DriverShape = DriverShape()
    priority: int = 1
    has_driver: bool = False
    submission_id: str | None = None
    application_id: str | None = None
    planned: int = 0
    minimum: int = 0
    maximum: int = 0
    age: timedelta = FOREVER
    growth_block_timeout: timedelta = timedelta(0)
    may_probe: bool = False
    moves: bool = False
    standby: SlotDemand | None = None

    @property
    def executor_request(self) -> Request:
        """Request of an executor."""
        return replace(self.executor.request, may_probe=True) if self.may_probe else self.executor.request

    @property
    def driver_request(self) -> Request:
        """Request of the driver."""
        return replace(self.driver.request, may_probe=True) if self.may_probe else self.driver.request

    def exceeds(self, other: SlotDemand) -> bool:
        """Return whether this demand plans a driver or executors that the other demand does not plan."""
        return (self.has_driver and not other.has_driver) or self.planned > other.planned

    def standby_exceeds(self, other: SlotDemand) -> bool:
        """Return whether the standby plans a driver or executors that the standby of the other demand does not plan."""
        return self.standby is not None and self.standby.exceeds(other.standby or SlotDemand(job=""))

    def aged(self, seconds: float) -> SlotDemand:
        """Return the demand after some seconds."""
        aged = None if self.standby is None else self.standby.aged(seconds)
        return replace(self, age=self.age + timedelta(seconds=seconds), standby=aged)

    def as_planned(self) -> SlotDemand:
        """Return the demand without the executors beyond the plan, and without a standby that has not been submitted."""
        submitted = self.standby if self.standby is not None and self.standby.has_driver else None
        return replace(self, minimum=0, maximum=0, standby=None if submitted is None else submitted.as_planned())


def slot_demand(
    spec: JobSpec, state: SchedulerState, now: datetime, *, prepared: JobSpec | None = None, may_probe: bool = False
) -> SlotDemand:
    """Return the demand of a job in a scheduler state.

    Args:
        spec: the job with drivers like the running one.
        state: the state.
        now: the time of its journal.
        prepared: the job with drivers like the standby, None if they are the same.
        may_probe: see `SlotDemand`.
    """
    driver, plan, options = state.driver or state.replacement, state.plan, state.options
    stops = state.driver is not None and action(state) is Action.STOP
    has_demand = not stops and state.traits.demands_slots
    has_driver = driver is not None and not stops
    minimum, maximum = minimum_slots(state.job, state.requirements), required_slots(state.job, state.requirements)
    demand = SlotDemand(
        job=spec.graph.job,
        application_name=spec.application_name,
        executor=spec.executor,
        driver=spec.driver,
        priority=spec.priority,
        has_driver=has_driver,
        submission_id=None if driver is None else driver.submission_id,
        application_id=None if driver is None else driver.application_id,
        planned=0 if plan is None or state.driver is None or stops else executors(plan.slots, spec.executor),
        minimum=executors(minimum, spec.executor) if has_demand else 0,
        maximum=executors(maximum, spec.executor) if has_demand else 0,
        age=max(now - getattr(state.current, "since", now - FOREVER), timedelta(0)),
        growth_block_timeout=options.resource_wait_timeout or options.deploy_timeout,
        may_probe=may_probe,
    )
    return replace(demand, standby=_standby_demand(demand, prepared or spec, state, now))


def _standby_demand(of_job: SlotDemand, spec: JobSpec, state: SchedulerState, now: datetime) -> SlotDemand | None:
    demanded, driver = standby.demanded_slots(state), state.standby.driver
    if demanded is None:
        return None
    requested, fewest, most = (executors(slots, spec.executor) for slots in demanded)
    return replace(
        of_job,
        executor=spec.executor,
        driver=spec.driver,
        has_driver=driver is not None,
        submission_id=None if driver is None else driver.submission_id,
        # Never known by its name, which is that of the application of the running driver.
        application_id=UNREGISTERED if driver is None else driver.application_id or UNREGISTERED,
        planned=requested,
        minimum=fewest,
        maximum=most,
        age=now - (state.standby.since or now),
        may_probe=False,
        moves=standby.has_to_move(state),
    )


@dataclass(frozen=True, slots=True)
class CapacityShare:
    """The share of one job in the free capacity, in addition to its driver.

    Attributes:
        executors: executors by worker.
        shortage: why the job gets fewer executors than it can use; None if it gets them all, if it must not grow because another job
            waits, or if the cluster has no limits.
        standby: slots of the standby in addition to those that it holds, None if the job has demanded no standby.
        fits_standby: whether a worker has the driver of the standby, or has room for it.
    """

    executors: Executors = field(default_factory=dict)
    shortage: Shortage | None = None
    standby: int | None = None
    fits_standby: bool = True


def capacity_shares(demands: Mapping[Key, SlotDemand], cluster: ClusterSnapshot) -> dict[Key, CapacityShare]:
    """Return the share of each job in the free capacity.

    No capacity belongs to two shares, with one exception: the share of a job that waits for its minimum contains all free capacity,
    which does not suffice for the job.
    """
    capacity, claims = FreeCapacity(cluster.workers, cluster.limits), _claims(demands, cluster)
    ranked = _serve_plans_and_minimums(capacity, claims.values(), cluster)
    if not any(claim.blocks_growth for claim in ranked):
        standbys = [claim.standby for claim in ranked if claim.standby is not None]
        for standby in standbys:
            if standby.demand.moves:
                _serve_standby(capacity, standby)
        for claim in ranked:
            if not claim.waits:
                _take(capacity, claim, claim.growth)
        for standby in standbys:
            if not standby.demand.moves:
                _serve_standby(capacity, standby)
    return {key: _share(claim, claim.standby) for key, claim in claims.items()}


def _share(claim: _Claim, standby: _Claim | None) -> CapacityShare:
    of_standby = None if standby is None else standby.share.total() * standby.demand.executor.cores
    return CapacityShare(claim.share, claim.shortage, of_standby, standby is None or not standby.lacks_driver)


def unclaimed(demands: Mapping[Key, SlotDemand], cluster: ClusterSnapshot) -> ClusterSnapshot:
    """Return the cluster with the capacity that is left after all plans and minimums."""
    capacity, claims = FreeCapacity(cluster.workers, cluster.limits), _claims(demands, cluster)
    _serve_plans_and_minimums(capacity, claims.values(), cluster)
    return replace(cluster, workers=capacity.workers, limits=capacity.limits)


@dataclass(slots=True, kw_only=True)
class _Claim:
    """Claim of one job on the free capacity of a cluster, and the share that the job has got.

    Attributes:
        needs_driver_worker: whether a submitted driver, or a driver that is about to be submitted, waits for a worker.
        lacks_driver: whether the job needs a driver and has none.
        is_driver_charged: whether the limits of the cluster count the driver already.
        ungranted: executors that are planned and not granted yet, of which the limits count the `charged` ones already.
        missing: executors that are missing to the minimum, beyond the plan; `growth` are those that the job could use in addition.
        waits: whether the minimum was not available. The share of a job that waits is all free executors.
        standby: claim of the standby.
    """

    demand: SlotDemand
    needs_driver_worker: bool
    lacks_driver: bool
    is_driver_charged: bool
    ungranted: int
    charged: int
    missing: int
    growth: int
    waits: bool = False
    share: Counter[str] = field(default_factory=Counter)
    shortage: Shortage | None = None
    standby: _Claim | None = None

    @property
    def blocks_growth(self) -> bool:
        """Return whether other jobs must not grow, because this job waits for its minimum."""
        return self.waits and self.demand.age < self.demand.growth_block_timeout


# ---- claims ---------------------------------------------------------------------------------------------------------


def _claims(demands: Mapping[Key, SlotDemand], cluster: ClusterSnapshot) -> dict[Key, _Claim]:
    applications = {job: application for application, job in cluster.names.items()}
    return {key: _claim(demand, cluster, applications) for key, demand in demands.items()}


def _claim(demand: SlotDemand, cluster: ClusterSnapshot, applications: Mapping[str, str]) -> _Claim:
    """Return the claim of a job. A driver that has just started has not reported its id in `applications`, the ids by name."""
    application = demand.application_id or applications.get(demand.application_name or demand.job, "")
    granted = cluster.granted.get(application, 0) // demand.executor.cores if demand.has_driver else 0
    base = max(granted, demand.planned)
    missing = max(demand.minimum - base, 0)
    is_registered = application in cluster.granted
    return _Claim(
        demand=demand,
        needs_driver_worker=demand.has_driver and not is_registered and not _has_worker(demand, cluster),
        lacks_driver=not demand.has_driver and demand.maximum > 0,
        is_driver_charged=demand.submission_id in cluster.drivers,
        ungranted=max(demand.planned - granted, 0),
        charged=cluster.pending.get(application, 0) // demand.executor.cores,
        missing=missing,
        growth=max(demand.maximum - base - missing, 0),
        standby=None if demand.standby is None else _claim(demand.standby, cluster, applications),
    )


def _has_worker(demand: SlotDemand, cluster: ClusterSnapshot) -> bool:
    driver = cluster.drivers.get(demand.submission_id or "")
    return driver is not None and driver.state is not SubmissionState.SUBMITTED


# ---- rounds ---------------------------------------------------------------------------------------------------------


def _serve_plans_and_minimums(
    capacity: FreeCapacity, claims: Collection[_Claim], cluster: ClusterSnapshot
) -> list[_Claim]:
    """Serve the first two rounds; return the claims by rank."""
    planned = [*claims, *(claim.standby for claim in claims if claim.standby is not None)]
    _place_foreign_drivers(capacity, cluster, {claim.demand.submission_id for claim in planned})
    for claim in sorted(planned, key=lambda claim: (-claim.demand.age, claim.demand.job)):
        _serve_plan(capacity, claim)
    ranked = sorted(claims, key=lambda claim: (-claim.demand.priority, claim.demand.job))
    for claim in ranked:
        _serve_minimum(capacity, claim)
    return ranked


def _place_foreign_drivers(capacity: FreeCapacity, cluster: ClusterSnapshot, own: Container[str | None]) -> None:
    """Reserve capacity for the drivers of other applications that wait for a worker."""
    for submission_id, driver in cluster.drivers.items():
        if driver.state is SubmissionState.SUBMITTED and submission_id not in own:
            request = Request(max(driver.request.cpu_millicores, 1), max(driver.request.memory_bytes, 1))
            capacity.place(request, ExecutorShape().request, is_charged=True)


def _serve_plan(capacity: FreeCapacity, claim: _Claim) -> None:
    demand = claim.demand
    if claim.needs_driver_worker:
        capacity.place(demand.driver_request, demand.executor_request, is_charged=claim.is_driver_charged)
    _take(capacity, claim, claim.ungranted, claim.charged)


def _serve_minimum(capacity: FreeCapacity, claim: _Claim) -> None:
    if not claim.missing:
        return
    executor = claim.demand.executor_request
    driver = claim.demand.driver_request if claim.lacks_driver else None
    claim.waits = not capacity.fits(claim.missing, executor, driver)
    if claim.waits:
        claim.share.update(capacity.executors(executor, driver))
        claim.shortage = capacity.shortage(executor, driver)
        return
    if driver is not None:
        capacity.place(driver, executor)
    _take(capacity, claim, claim.missing)


def _serve_standby(capacity: FreeCapacity, claim: _Claim) -> None:
    """Let a standby take its driver and its executors, nothing without room for the driver and all executors that it needs."""
    executor = claim.demand.executor_request
    driver = claim.demand.driver_request if claim.lacks_driver else None
    if capacity.fits(claim.missing, executor, driver):
        if driver is not None:
            capacity.place(driver, executor)
            claim.lacks_driver = False
        _take(capacity, claim, claim.missing + claim.growth)


def _take(capacity: FreeCapacity, claim: _Claim, count: int, charged: int = 0) -> None:
    """Let a claim take executors, as many as fit; see `FreeCapacity.take`."""
    executor = claim.demand.executor_request
    taken = capacity.take(count, executor, charged)
    claim.share.update(taken)
    if sum(taken.values()) < count:
        claim.shortage = capacity.shortage(executor)
