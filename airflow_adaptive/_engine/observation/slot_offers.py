"""Slot offers: the slots per worker that a job holds or can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from airflow_adaptive._core.ports import ClusterSnapshot, Worker
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._engine.cluster.free_capacity import Executors
from airflow_adaptive._engine.spec import ExecutorShape


def slot_offers(
    cluster: ClusterSnapshot, share: Executors, status: DriverStatus | None, executor: ExecutorShape
) -> tuple[SlotOffer, ...]:
    """Return the slot offers of all workers that have any.

    Args:
        cluster: workers and grants.
        share: capacity share of the job: executors by worker, in addition to those that the job has.
        status: status of the running driver, None without one.
        executor: size of an executor.

    Returns:
        Offers in the order of the workers, then offers of workers that the cluster manager does not list any more, although executors
        run on them. The last offer may have no worker: it stands for cores that the cluster manager has granted to executors which have
        not registered yet.
    """
    held = _held(cluster, status, executor)
    addresses = {worker.worker_id: worker.address for worker in cluster.workers}
    unlisted = {name: name for name in sorted(held) if name not in addresses}
    offers = [
        SlotOffer(worker=name, held=held.get(name, 0), free=share.get(name, 0) * executor.cores, address=address)
        for name, address in (addresses | unlisted).items()
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
