"""Slot offers: registered executors hold slots, and other granted cores are still arriving."""

from __future__ import annotations

from airflow_adaptive._core.ports import MIB, ClusterSnapshot, Resources, Worker
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, ExecutorReport
from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._engine.observation.slot_offers import slot_offers
from airflow_adaptive._engine.spec import ExecutorShape

ADDRESS = "http://w1:8081"


def worker(*, cores_free: int) -> Worker:
    return Worker(
        worker_id="w1",
        address=ADDRESS,
        total=Resources(4000, 4096 * MIB),
        free=Resources(1000 * cores_free, 4096 * MIB),
    )


def status(executors: int, worker: str = ADDRESS) -> DriverStatus:
    reports = tuple(ExecutorReport(executor_id=str(number), cores=1, worker=worker) for number in range(executors))
    return DriverStatus(
        job="job",
        epoch=1,
        nonce="n",
        sequence=1,
        at="",
        state=DriverState.RUNNING,
        executors=reports,
        application_id="app",
    )


def offers(cores_free: int, granted: int, reported: DriverStatus) -> tuple[SlotOffer, ...]:
    cluster = ClusterSnapshot(workers=(worker(cores_free=cores_free),), granted={"app": granted})
    return slot_offers(cluster, {}, reported, ExecutorShape(cores=1))


def test_registered_executors_hold_their_cores() -> None:
    assert offers(1, 3, status(3)) == (SlotOffer(worker="w1", held=3, free=0, address=ADDRESS),)


def test_executors_whose_cores_are_free_again_hold_nothing() -> None:
    """The driver status still contains three executors; the worker has released two."""
    assert offers(3, 1, status(3)) == (SlotOffer(worker="w1", held=1, free=0, address=ADDRESS),)


def test_executors_of_a_lost_worker_hold_nothing() -> None:
    assert offers(4, 0, status(3, worker="http://w2:8081")) == ()


def test_granted_cores_without_a_registered_executor_are_arriving() -> None:
    assert offers(1, 3, status(1)) == (
        SlotOffer(worker="w1", held=1, free=0, address=ADDRESS),
        SlotOffer(worker="", free=2),
    )


def known_offers(workers: dict[str, str], reported: DriverStatus) -> tuple[SlotOffer, ...]:
    """Slot offers on a cluster whose manager knows the workers of executors; all cores of its worker are free."""
    cluster = ClusterSnapshot(
        workers=(worker(cores_free=4),), granted={"app": len(workers)}, executor_workers={"app": workers}
    )
    return slot_offers(cluster, {}, reported, ExecutorShape(cores=1))


def test_executors_hold_slots_on_the_workers_that_the_cluster_manager_names() -> None:
    """The executors report the names of their nodes, and the account of the client may not list nodes."""
    held = known_offers({"0": "w1", "1": "w1"}, status(2, worker="node-7"))
    assert held == (SlotOffer(worker="w1", held=2, free=0, address=ADDRESS),)


def test_executors_on_a_worker_that_is_not_listed_hold_slots() -> None:
    """The node was cordoned, or does not report; its executors run."""
    assert known_offers({"0": "w1", "1": "w2"}, status(2)) == (
        SlotOffer(worker="w1", held=1, free=0, address=ADDRESS),
        SlotOffer(worker="w2", held=1, free=0, address="w2"),
    )


def test_executors_that_the_cluster_manager_does_not_know_hold_nothing() -> None:
    assert known_offers({"1": "w1"}, status(2)) == (SlotOffer(worker="w1", held=1, free=0, address=ADDRESS),)
    none_left = ClusterSnapshot(workers=(worker(cores_free=1),), executor_workers={})
    assert slot_offers(none_left, {}, status(2), ExecutorShape(cores=1)) == ()
