"""A driver status, the end of a driver and its heartbeat, and the slots that it holds become events."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import MIB, ClusterSnapshot, Resources, SubmissionState, SubmissionStatus, Worker
from airflow_adaptive._core.protocol.documents import (
    Capability,
    DriverState,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    QueryReport,
    SparkReport,
)
from airflow_adaptive._core.requirements.resolution import DECLARED, Resolution
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    DriverEnded,
    DriverHeartbeatTimedOut,
    MoveAnnounced,
    PlanActivated,
    QueryFailed,
    RequirementsChanged,
    SlotOffer,
)
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.directive import directive
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.observation.driver_events import KILLED_IN_BATCH, driver_events, may_be_dead
from airflow_adaptive._engine.observation.observed_events import derive_events, slot_offers
from airflow_adaptive._engine.observation.observer import JobObservation
from airflow_adaptive._engine.spec import ExecutorShape
from tests.lab.scenario import UNENDED, Scenario

NOTE = "the script starts its queries itself"


@pytest.fixture
def job() -> Scenario:
    return Scenario().given_deploying(1).when_slots(held=1)


def report(job: Scenario) -> DriverStatus:
    """Of a driver that runs the newest plan."""
    assert job.state.plan is not None
    version = job.state.plan.version
    return DriverStatus(job="job", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, version=version)


def observed(
    job: Scenario, status: DriverStatus, submission: SubmissionStatus | None = None, resolved: Resolution | None = None
) -> list[Any]:
    observation = JobObservation(status=status, submission=submission)
    heartbeat = DriverHeartbeat(epoch=1, received_at=job.now)
    resolved = resolved or Resolution(requirements=job.state.requirements, source=DECLARED)
    return list(derive_events(job.state, observation, resolved, heartbeat, job.now, ExecutorShape(cores=1)))


def test_change_of_the_bounds_names_its_source_and_the_limit(job: Scenario):
    bounds = {"job": ParallelismRange(1, 2)}
    *_, event = observed(job, report(job), resolved=Resolution(requirements=bounds, source=DECLARED, limited="a limit"))
    assert event == RequirementsChanged(at=job.now, requirements=bounds, by="the DAG; a limit")


def test_note_of_an_unmanaged_script_is_reported_with_its_first_plan(job: Scenario):
    for event in observed(job, replace(report(job), vertices_read=(), notice=NOTE)):
        job.when(event)
    job.then("Executing", reason=NOTE)
    assert job.state.driver is not None
    assert job.state.driver.vertices_read == ()


@pytest.mark.parametrize(("sequence", "committed", "commits"), [(0, 3, 1), (0, 4, 0), (1, 3, 0)])
def test_new_status_that_counts_more_batches_is_a_commit(sequence: int, committed: int, commits: int):
    job = Scenario().given_executing(1).when_committed()
    status = replace(report(job), queries=(QueryReport(name="q", active=True, committed=4),))
    heartbeat = DriverHeartbeat(epoch=1, received_at=job.now, sequence=sequence, committed=committed)
    found = driver_events(job.state, JobObservation(status=status), heartbeat, job.now)
    assert [it for it in found if isinstance(it, BatchCommitted)] == [BatchCommitted(at=job.now, epoch=1)] * commits


@pytest.mark.parametrize(
    ("unaccounted_s", "silence_s", "expected"),
    [(None, 9, False), (0, 0, True), (5, 0, True), (6, 0, False), (6, 2, False), (6, 3, True)],
)
def test_driver_that_the_cluster_lost_may_be_dead_until_it_reports(
    unaccounted_s: int | None, silence_s: int, expected: bool
):
    job = Scenario().given_executing(1)
    since = None if unaccounted_s is None else timedelta(seconds=unaccounted_s)
    heartbeat = DriverHeartbeat(epoch=1, received_at=job.now - timedelta(seconds=silence_s), sequence=1)
    observation = JobObservation(status=report(job), status_read_at=job.now, unaccounted_for=since)
    assert may_be_dead(job.state, observation, heartbeat) is expected


@pytest.mark.parametrize(
    ("intervals", "longest"),
    [
        ((None, 500, 2000), timedelta(seconds=2)),
        ((math.nan, 500), timedelta(milliseconds=500)),
        ((math.inf, 1 << 80, -1), None),
    ],
)
def test_trigger_interval_is_the_longest_that_is_possible(
    job: Scenario, intervals: tuple[Any, ...], longest: timedelta | None
):
    queries = tuple(QueryReport(name="q", active=True, trigger_interval_ms=interval) for interval in intervals)
    activations = [it for it in observed(job, replace(report(job), queries=queries)) if isinstance(it, PlanActivated)]
    assert [it.trigger_interval for it in activations] == [longest]


def test_activation_contains_what_the_spark_of_the_driver_cannot_do(job: Scenario):
    status = replace(report(job), spark=SparkReport(version="4.1.4", lacks={Capability.REPARTITION: "4.2"}))
    activations = [it for it in observed(job, status) if isinstance(it, PlanActivated)]
    assert [it.cannot_repartition for it in activations] == [
        "Spark 4.1.4 cannot change the number of state partitions; Spark 4.2 can"
    ]


@pytest.mark.parametrize(
    ("error_class", "message"),
    [
        ("SPARK_CONTEXT_STOPPED", "stopped; exit code 143: the pod was deleted"),
        ("java.lang.IllegalStateException", "stopped"),
    ],
)
def test_end_of_a_session_has_the_reason_of_the_cluster_manager(job: Scenario, error_class: str, message: str):
    failure = FailureReport(error_class=error_class, message="stopped")
    submission = SubmissionStatus(state=SubmissionState.FAILED, message="exit code 143: the pod was deleted")
    status = replace(report(job), state=DriverState.FAILED, failure=failure)
    ends = [it for it in observed(job, status, submission) if isinstance(it, DriverEnded)]
    assert [it.failure.message for it in ends] == [message]


@pytest.mark.parametrize("state", [SubmissionState.UNKNOWN, SubmissionState.FAILED])
def test_failure_of_a_driver_that_others_end_is_a_consequence(job: Scenario, state: SubmissionState):
    """A session that ends in the middle of a batch fails in many ways: here with a NullPointerException of Spark."""
    failure = FailureReport(error_class="java.lang.NullPointerException", message="session() is null")
    submission = SubmissionStatus(state=state, message="exit code 143", ended_by="driver pod p was deleted")
    status = replace(report(job), state=DriverState.FAILED, failure=failure)
    failures = [it.failure for it in observed(job, status, submission) if isinstance(it, DriverEnded | QueryFailed)]
    assert {it.error_class for it in failures} == {"DRIVER_LOST"}
    assert {it.message for it in failures} == {
        "driver pod p was deleted; java.lang.NullPointerException: session() is null"
    }
    assert {it.causes for it in failures} == {("java.lang.NullPointerException",)}


def test_driver_that_could_not_stop_a_batch_reports_no_failed_query_but_its_end(job: Scenario):
    failure = FailureReport(error_class=UNENDED.error_class, message=UNENDED.message)
    status = replace(report(job), state=DriverState.FAILED, failure=failure)
    assert not [it for it in observed(job, status) if isinstance(it, QueryFailed)]
    (end,) = observed(job, status, SubmissionStatus(state=SubmissionState.FAILED))
    assert (type(end), end.failure) == (DriverEnded, UNENDED)


RUNNING = SubmissionStatus(state=SubmissionState.RUNNING)
STOPPED = DriverStatus(job="job", epoch=1, nonce="n", sequence=1, at="", state=DriverState.STOPPED, is_managed=True)


def failures(
    seconds: float = 0, submission: SubmissionStatus | None = RUNNING, status: DriverStatus | None = None
) -> list[tuple[str, str]]:
    """The events about the driver of a job that runs, this time after its newest status: kind, and failure."""
    job = Scenario(driver_heartbeat_timeout="20 s", driver_lease_timeout="30 s").given_executing(2)
    now = job.now + timedelta(seconds=seconds)
    observation = JobObservation(status=status, status_read_at=now, submission=submission)
    heartbeat = DriverHeartbeat(epoch=job.state.epoch, received_at=job.now, sequence=1)
    found = driver_events(job.state, observation, heartbeat, now)
    return [
        (type(event).__name__, event.failure.summary)
        for event in found
        if isinstance(event, DriverEnded | DriverHeartbeatTimedOut)
    ]


def test_driver_without_a_new_status_times_out() -> None:
    assert failures(19.9) == []
    assert failures(20) == [
        ("DriverHeartbeatTimedOut", "DRIVER_HEARTBEAT_TIMEOUT: the driver has written no status for 20 s")
    ]


@pytest.mark.parametrize("submission", [None, SubmissionStatus(state=SubmissionState.UNKNOWN)], ids=["", "unknown"])
def test_lease_of_a_driver_that_the_cluster_does_not_know_expires_after_its_margin(
    submission: SubmissionStatus | None,
) -> None:
    """The directive allows queries, so the timeout stops the driver before it counts as ended."""
    assert failures(39.9, submission)[0][1].startswith("DRIVER_HEARTBEAT_TIMEOUT: ")
    assert failures(40, submission) == [
        (
            "DriverHeartbeatTimedOut",
            "DRIVER_LEASE_OVER: the driver has written no status for 40 s: its lease has expired",
        )
    ]
    assert failures(40, RUNNING)[0][1].startswith("DRIVER_HEARTBEAT_TIMEOUT: ")


@pytest.mark.parametrize(
    ("status", "submission", "failure"),
    [
        (
            None,
            SubmissionStatus(state=SubmissionState.FAILED, message="exit code 1"),
            "DRIVER_LOST: the driver's process has ended (FAILED): exit code 1",
        ),
        (
            None,
            SubmissionStatus(
                state=SubmissionState.FAILED, worker_address="node-1", log_command="kubectl --namespace a logs b"
            ),
            "DRIVER_LOST: the driver's process has ended (FAILED); its output: kubectl --namespace a logs b",
        ),
        (
            None,
            SubmissionStatus(state=SubmissionState.KILLED, worker_address="node-1", log_command=""),
            "DRIVER_LOST: the driver's process has ended (KILLED)",
        ),
        (
            STOPPED,
            SubmissionStatus(state=SubmissionState.FINISHED),
            "DRIVER_ORPHANED: no loop wrote to the journal for orphan_timeout: the driver stopped by itself, at a batch boundary",
        ),
        (
            None,
            SubmissionStatus(state=SubmissionState.FINISHED),
            "SCRIPT_WITHOUT_JOB: the script ended without a streaming query: start a query in the script, or call AdaptiveJob(...).run(); if the "
            "script is a batch, set job_type='batch'",
        ),
        (
            replace(STOPPED, state=DriverState.RUNNING, is_moving=True),
            SubmissionStatus(state=SubmissionState.KILLED),
            f"DRIVER_LOST: {KILLED_IN_BATCH}; the driver's process has ended (KILLED)",
        ),
    ],
    ids=["lost", "lost with a log", "lost without a log", "orphaned", "without a query", "killed in its batch"],
)
def test_end_of_a_driver_has_a_cause(status: DriverStatus | None, submission: SubmissionStatus, failure: str) -> None:
    assert failures(0, submission, status) == [("DriverEnded", failure)]


MOVED = replace(STOPPED, is_moving=True)
DELETED = SubmissionStatus(state=SubmissionState.UNKNOWN, ended_by="driver pod p is being deleted")


def ends(job: Scenario, status: DriverStatus, submission: SubmissionStatus | None) -> list[DriverEnded]:
    return [it for it in observed(job, status, submission) if isinstance(it, DriverEnded)]


@pytest.mark.parametrize(
    ("submission", "by"), [(None, "SIGTERM"), (RUNNING, "SIGTERM"), (DELETED, "SIGTERM, driver pod p is being deleted")]
)
def test_driver_that_others_end_hands_over_before_its_process_ends(
    job: Scenario, submission: SubmissionStatus | None, by: str
) -> None:
    (end,) = ends(job.when_plan_activated().when_committed(), MOVED, submission)
    assert (end.is_move, end.in_order, end.is_confirmed) == (True, True, False)
    assert f"({by})" in end.failure.message


@pytest.mark.parametrize(
    "status",
    [
        replace(MOVED, is_managed=False),
        replace(MOVED, queries=(QueryReport(name="q", active=True),)),
    ],
)
def test_driver_that_others_end_and_that_may_still_write_hands_over_with_its_end(
    job: Scenario, status: DriverStatus
) -> None:
    assert ends(job, status, RUNNING) == []
    (end,) = ends(job, status, SubmissionStatus(state=SubmissionState.FINISHED))
    assert (end.is_move, end.is_confirmed) == (False, True), "something may end each driver before its first batch"


def test_driver_that_reports_its_first_batch_and_its_move_at_once_has_moved(job: Scenario) -> None:
    (end,) = ends(job, replace(MOVED, queries=(QueryReport(name="q", committed=1, active=False),)), RUNNING)
    assert end.is_move


def test_driver_that_has_found_no_data_has_moved(job: Scenario) -> None:
    job.when_plan_activated()
    idle = replace(report(job), queries=(QueryReport(name="q", active=True, idle=True),))
    for event in observed(job, idle):
        job.when(event)
    (end,) = ends(job, MOVED, RUNNING)
    assert end.is_move


def test_driver_that_leaves_must_write_its_status() -> None:
    job = Scenario(upper=1).given_executing(1).when_slots(held=1, free=1).when_committed()
    job.when(MoveAnnounced(at=job.now, epoch=1, reason="its node was cordoned")).when_prepared()
    assert directive(job.state, "n", ExecutorShape(cores=1)).is_move
    now = job.now + timedelta(hours=1)
    observation = JobObservation(status=report(job), status_read_at=now, submission=RUNNING)
    heartbeat = DriverHeartbeat(epoch=1, received_at=job.now, sequence=1)
    kinds = [type(it) for it in driver_events(job.state, observation, heartbeat, now)]
    assert kinds == [DriverHeartbeatTimedOut]


def test_announcement_that_the_driver_will_have_to_leave_is_one_event(job: Scenario) -> None:
    cordoned = SubmissionStatus(state=SubmissionState.RUNNING, leaves="node a of the driver was cordoned")
    (event,) = (it for it in observed(job, report(job), cordoned) if isinstance(it, MoveAnnounced))
    assert event.reason == "node a of the driver was cordoned"
    job.when(event)
    for leaves in (cordoned.leaves, None, ""):
        known = replace(cordoned, leaves=leaves)
        assert not [it for it in observed(job, report(job), known) if isinstance(it, MoveAnnounced)]


def test_announcement_is_withdrawn_as_soon_as_a_running_driver_is_known_to_stay() -> None:
    job = Scenario().given_executing(1)
    job.when(MoveAnnounced(at=job.now, epoch=1, reason="node a of the driver was cordoned"))
    for leaves, reasons in ((None, []), ("", [""])):
        known = SubmissionStatus(state=SubmissionState.RUNNING, leaves=leaves)
        found = [it.reason for it in observed(job, report(job), known) if isinstance(it, MoveAnnounced)]
        assert found == reasons


def test_end_of_the_machine_of_a_driver_that_has_to_stop_is_no_event() -> None:
    leaves = SubmissionStatus(state=SubmissionState.RUNNING, leaves="node a of the driver was cordoned")
    job = Scenario().given_executing(1).when_suspended()
    assert not [it for it in observed(job, report(job), leaves) if isinstance(it, MoveAnnounced)]


def test_driver_that_others_end_while_it_has_to_stop_has_not_moved() -> None:
    job = Scenario().given_executing(1).when_canceled()
    assert ends(job, MOVED, RUNNING) == []
    (end,) = ends(job, MOVED, SubmissionStatus(state=SubmissionState.FINISHED))
    assert (end.is_move, end.in_order) == (False, True)


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
        SlotOffer(worker="w2", held=1, free=0, address="w2", accepts=False),
    )


def test_executors_that_the_cluster_manager_does_not_know_hold_nothing() -> None:
    assert known_offers({"1": "w1"}, status(2)) == (SlotOffer(worker="w1", held=1, free=0, address=ADDRESS),)
    none_left = ClusterSnapshot(workers=(worker(cores_free=1),), executor_workers={})
    assert slot_offers(none_left, {}, status(2), ExecutorShape(cores=1)) == ()
