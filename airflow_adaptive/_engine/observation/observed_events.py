"""Derives events from an observation: compares the external systems with the state of the scheduler.

The derivation is level-triggered: a loop that restarts polls the same systems and derives the same events. The only input that
does not come from a poll is the heartbeat (`_engine.driver_heartbeat`), which each journal document contains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from airflow_adaptive._core.ports import ClusterSnapshot, Worker
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.requirements.resolution import THE_DAG, Resolution, latest_requirements
from airflow_adaptive._core.scheduler import events
from airflow_adaptive._core.scheduler.events import Event, SlotOffer
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive._core.scheduler.state import Canceling, Created, Finished, SchedulerState, StopWithSavepoint
from airflow_adaptive._engine.cluster.free_capacity import Executors
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.observation.driver_events import driver_events, may_be_dead, standby_events
from airflow_adaptive._engine.observation.observer import JobObservation
from airflow_adaptive._engine.spec import ExecutorShape

MAX_REQUEST_AGE = timedelta(minutes=5)
"""Age of the control requests that is reported. With 1,000 jobs in a process, each job reads its requests every two minutes."""


def first_events(
    state: SchedulerState, deployment: str, redeclared: Requirements | None, now: datetime
) -> Iterator[Event]:
    """Yield the first events of a run: the start of scheduling, or the changes of the declaration since the journal was written.

    `redeclared` are the requirements that the declaration sets again, None if the persisted ones stay.
    """
    if isinstance(state.current, Created):
        yield events.SchedulingStarted(at=now)
        return
    if deployment != state.deployment:
        yield events.JobRedeployed(at=now, deployment=deployment)
    if redeclared is not None and redeclared != state.requirements:
        yield events.RequirementsChanged(at=now, requirements=redeclared, by=THE_DAG)


def derive_events(
    state: SchedulerState,
    observation: JobObservation,
    requirements: Resolution,
    heartbeat: DriverHeartbeat,
    now: datetime,
    executor: ExecutorShape,
) -> Iterator[Event]:
    """Yield the events that happened since the previous observation, in the order in which the scheduler takes them.

    `heartbeat` is the one before this observation.
    """
    is_held = observation.status is not None and observation.status.decommission.held
    # The slots of a held application come back with its executors: until then, nothing is decided on slots and bounds.
    is_frozen = is_held and not observation.is_driver_over
    slots = [] if is_frozen else list(_slot_events(state, observation, heartbeat, now, executor))
    driver = list(driver_events(state, observation, heartbeat, now))
    wanted, by = requirements.requirements, filter(None, (requirements.source.description, requirements.limited))
    is_changed = not is_frozen and wanted != latest_requirements(state)
    changed = [events.RequirementsChanged(at=now, requirements=wanted, by="; ".join(by))] if is_changed else []
    if state.plan is None:
        yield from changed  # the first plan is made within the new requirements
    # The end of a driver comes before the loss of its slots, which follows from the end. Otherwise slots come first, so that
    # the scheduler decides on the slots that exist when the events about the driver lead to a plan.
    yield from standby_events(state, observation, now)
    yield from driver + slots if observation.is_driver_over else slots + driver
    yield from _desired_state_events(state, observation.control_requests, now)
    if state.plan is not None:
        yield from changed


def _slot_events(
    state: SchedulerState,
    observation: JobObservation,
    heartbeat: DriverHeartbeat,
    now: datetime,
    executor: ExecutorShape,
) -> Iterator[Event]:
    has_driver = state.driver is not None and not observation.is_driver_over
    # Without a driver status the slots that the driver holds are unknown, which is not the same as none. A driver that the cluster lost
    # may be dead, and its slots follow from its end: they count only if the driver still reports.
    is_lost = may_be_dead(state, observation, heartbeat)
    is_unknown = has_driver and (observation.status is None or is_lost) and state.held_slots > 0
    if observation.cluster is None or is_unknown:
        return
    # Without a driver, the job has the executors of the standby.
    status = observation.status if has_driver else observation.standby_status
    offers = slot_offers(observation.cluster, observation.share.executors, status, executor)
    standby = _standby_offer(state, observation) if has_driver else None
    if (offers, standby) != (state.offers, state.standby_offer):
        yield events.SlotsChanged(at=now, offers=offers, standby=standby)


def _standby_offer(state: SchedulerState, observation: JobObservation) -> SlotOffer | None:
    """Return the slots that the cluster has granted to the standby, and those that only a standby may take."""
    share, status, cluster = observation.share, observation.standby_status, observation.cluster
    if share.standby is None and state.standby.driver is None:
        return None
    application = "" if status is None else status.application_id or ""
    held = 0 if cluster is None else cluster.granted.get(application, 0)
    return SlotOffer(worker="", held=held, free=share.standby or 0, accepts=share.fits_standby)


def _desired_state_events(state: SchedulerState, control_requests: ControlRequests, now: datetime) -> Iterator[Event]:
    match control_requests.desired_state:
        case DesiredState.CANCELED if not isinstance(state.current, Canceling | Finished):
            yield events.CancelRequested(at=now)
        case DesiredState.SUSPENDED if not isinstance(state.current, StopWithSavepoint | Canceling | Finished):
            yield events.SuspendRequested(at=now)
        case _:
            pass


def outdated_requests(control_requests: ControlRequests) -> str | None:
    """Return why the job may not follow the newest control requests, None if they are known."""
    if control_requests.age <= MAX_REQUEST_AGE:
        return None
    return (
        f"the control requests were not read for {MAX_REQUEST_AGE}, because Airflow's API server, or the metadata database behind it, does "
        "not answer: check both. The job continues with the requests that it knows, and publishes its state when they answer again"
    )


def slot_offers(
    cluster: ClusterSnapshot, share: Executors, status: DriverStatus | None, executor: ExecutorShape
) -> tuple[SlotOffer, ...]:
    """Return the slot offers of all workers that have any: the slots per worker that a job holds or can have.

    `share` is the capacity share of the job, in addition to the executors that it has; `status` is that of the running driver, None without one.

    Returns:
        Offers in the order of the workers, then offers of workers that the cluster manager does not list any more, although executors
        run on them. The last offer may have no worker: it stands for cores that the cluster manager has granted to executors which have
        not registered yet.
    """
    held = _held(cluster, status, executor)
    workers = {worker.worker_id: worker for worker in cluster.workers}
    names = (*workers, *sorted(name for name in held if name not in workers))
    offers = [
        SlotOffer(
            worker=name,
            held=held.get(name, 0),
            free=share.get(name, 0) * executor.cores,
            address=workers[name].address if name in workers else name,
            accepts=name in workers and workers[name].accepts(executor.request.placement),
        )
        for name in names
        if name in held or name in share
    ]
    granted = 0 if status is None else cluster.granted.get(status.application_id or "", 0)
    arriving = granted - sum(held.values())
    if arriving > 0:
        offers.append(SlotOffer(worker="", free=arriving))
    return tuple(offer for offer in offers if offer.held or offer.free)


def _held(cluster: ClusterSnapshot, status: DriverStatus | None, executor: ExecutorShape) -> Mapping[str, int]:
    """Return slots of registered executors by worker.

    The driver status is older than the cluster snapshot. Executors are lost that the cluster manager does not know any more. If the cluster
    manager does not know the workers of executors, the executors on a worker that has died are lost, and so are executors whose resources
    the worker reports as free.
    """
    if status is None or not status.executors:
        return {}
    if cluster.executor_workers is not None:
        return _known_slots(cluster.executor_workers.get(status.application_id or "", {}), status)
    workers = {worker.address: worker for worker in cluster.workers}
    held: dict[str, int] = {}
    for registered in status.executors:
        worker = workers.get(registered.worker)
        if worker is not None:
            reported = held.get(worker.worker_id, 0) + registered.cores
            held[worker.worker_id] = min(reported, _taken_slots(worker, executor))
    return held


def _known_slots(workers: Mapping[str, str], status: DriverStatus) -> Mapping[str, int]:
    """Return slots by worker; `workers` contains the worker of each executor."""
    held: Counter[str] = Counter()
    for registered in status.executors:
        if registered.executor_id in workers:
            held[workers[registered.executor_id]] += registered.cores
    return held


def _taken_slots(worker: Worker, executor: ExecutorShape) -> int:
    """Return the slots for which the CPU is sufficient that the worker has granted to drivers and executors."""
    taken = worker.total - worker.free
    return taken.cpu_millicores * executor.cores // executor.request.cpu_millicores
