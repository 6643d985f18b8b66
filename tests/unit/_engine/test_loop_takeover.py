"""The next loop of a job continues the work of the previous loop, also after an upgrade of Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive._core.ports import ClusterUnreachableError
from airflow_adaptive._core.protocol import documents
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState, Requester
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing, Finished, Outcome
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive._engine.spec import ExecutorShape
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import QUICK, outcome, request


def test_next_loop_goes_on_with_the_same_driver(small: Simulation) -> None:
    first = small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert isinstance(first.current, Executing)
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    second = small.run()
    assert outcome(second) is Outcome.SUSPENDED
    assert len(small.drivers.started) == 1


def test_loop_kills_the_drivers_whose_epochs_are_not_named_any_more(small: Simulation) -> None:
    """An earlier loop may have ended before it killed them. The second call has no answer."""
    calls: list[Collection[int]] = []

    async def kill_epochs(_job: str, _nonce: str, epochs: Collection[int]) -> None:
        calls.append({*epochs})
        if len(calls) == 2:
            raise ClusterUnreachableError("no answer")

    small.cluster.kill_epochs = kill_epochs  # type: ignore[method-assign, assignment]
    small.clock.at(20, lambda: kill_driver(small))
    run_until(small, 60)
    run_until(small, 90)
    assert calls == [set(), {1}, {1}]


def test_bounds_that_were_edited_in_the_dag_are_followed(small: Simulation) -> None:
    small.cluster.add_worker(cores=2, memory_mb=1024)
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    small.spec = replace(small.spec, graph=Simulation(parallelism=(1, 2)).spec.graph)
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.run()
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [3, 2]


ADMIN = Requester(requested_by="admin")


@pytest.mark.parametrize(
    ("requests", "name"),
    [
        (ControlRequests(requirements={"job": ParallelismRange(1, 2)}, requester=ADMIN), "admin"),
        (ControlRequests(calendar={"job": ParallelismRange(1, 2)}, calendar_requester=ADMIN), "calendar"),
    ],
    ids=["user", "calendar"],
)
def test_request_that_a_restored_database_does_not_contain_stays_in_effect(
    small: Simulation, requests: ControlRequests, name: str
) -> None:
    """A user or a calendar changes the bounds, and then Airflow's database is restored from a backup."""
    small.cluster.add_worker(cores=2, memory_mb=1024)
    small.store.requests = requests
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    small.store.requests = ControlRequests()
    small.run(RunLimits(recycle_at=START + timedelta(seconds=90)))
    source = small.store.views[-1].requirements_source
    assert source is not None
    assert source.name == name
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [2]


def test_same_attempt_does_not_start_a_finished_job_again(small: Simulation) -> None:
    small.clock.at(20, small.drivers.finish)
    small.run()
    assert isinstance(small.run().current, Finished)
    assert len(small.cluster.submissions) == 1


def test_next_attempt_starts_a_finished_job_again_under_the_next_epoch(small: Simulation) -> None:
    small.clock.at(20, small.drivers.finish)
    small.run()
    small.spec = replace(small.spec, attempt="attempt-2")
    small.clock.at(60, request(small, DesiredState.CANCELED))
    small.run()
    assert [epoch for epoch, _, _ in small.drivers.started] == [1, 2]


def test_next_attempt_waits_for_the_end_of_the_job_that_it_finds_ending(small: Simulation) -> None:
    def hang() -> None:
        small.drivers.hang = True
        small.store.requests = ControlRequests(desired_state=DesiredState.CANCELED)

    small.clock.at(20, hang)
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    small.spec = replace(small.spec, attempt="attempt-2")
    small.store.requests = ControlRequests()
    small.clock.at(85, lambda: setattr(small.drivers, "hang", False))
    small.clock.at(150, request(small, DesiredState.SUSPENDED))
    state = small.run()
    assert outcome(state) is Outcome.SUSPENDED
    assert [epoch for epoch, _, _ in small.drivers.started] == [1, 2]


def test_killing_the_task_of_a_job_that_ended_before_starts_nothing(small: Simulation) -> None:
    small.clock.at(20, small.drivers.finish)
    small.run()
    small.spec = replace(small.spec, attempt="attempt-2")
    asyncio.run(small.loop().cancel())
    assert len(small.cluster.submissions) == 1


def test_other_jobs_do_not_get_the_planned_slots_of_a_new_loop(small: Simulation) -> None:
    """An executor is lost, and the next loop waits for the control requests before its first poll of the cluster."""
    run_until(small, 30)
    (driver,) = small.cluster.submissions
    small.cluster.set_executor_limit(driver, 0)
    small.cluster.release_executors(driver, list(small.cluster.executors_by_id(driver)))
    shared = SharedCluster(small.clock)
    small.ports = replace(small.ports, shared=shared)
    read_requests, free_cores = small.store.control_requests, []

    async def slow_requests() -> ControlRequests:
        cluster = await shared.unclaimed(small.cluster, timedelta(0))
        free_cores.append(sum(worker.free.cpu_millicores for worker in cluster.workers))
        return await read_requests()

    small.store.control_requests = slow_requests  # type: ignore[method-assign]
    run_until(small, 32)
    assert free_cores[0] == 0


def test_deadline_that_passed_between_two_loops_waits_for_the_slots_of_the_next() -> None:
    """A job waits for a worker, its loop ends, the worker joins, and the next loop begins after the deadline of the wait."""
    job = Simulation(**QUICK, resource_wait_timeout="60 s")
    run_until(job, 30)
    job.cluster.add_worker(cores=2, memory_mb=1024)
    asyncio.run(job.clock.sleep(60))
    run_until(job, 150)
    assert job.states == ["WaitingForResources", "Deploying", "Executing"]


OLD, NEW = (1,), (1, 2)


def formats(small: Simulation) -> list[int]:
    """Formats of the journal documents, oldest first."""
    return [
        documents.decode_document(documents.JournalDocument, data).format
        for _, data in sorted(small.directory.journal.items())
    ]


def run_until(small: Simulation, seconds: float) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=seconds)))


def kill_driver(small: Simulation) -> None:
    (driver,) = small.cluster.submissions
    small.cluster.kill_driver(driver)


@pytest.fixture
def upgraded(small: Simulation, monkeypatch: pytest.MonkeyPatch) -> Simulation:
    """A job whose driver is of the old version, and whose next loop is of the new version."""
    small.drivers.formats = OLD
    run_until(small, 30)
    small.drivers.formats = NEW
    monkeypatch.setattr(documents, "FORMATS", NEW)
    return small


def test_loop_of_a_newer_version_writes_the_format_that_its_driver_reads(upgraded: Simulation) -> None:
    """The loop of the old version starts a driver, Airflow is upgraded, and a worker joins: the driver must continue."""
    before = len(formats(upgraded))
    upgraded.clock.at(40, lambda: upgraded.cluster.add_worker(cores=2, memory_mb=1024))
    run_until(upgraded, 120)
    assert set(formats(upgraded)[before:]) == {1}
    assert {epoch for epoch, _, _ in upgraded.drivers.started} == {1}
    assert [parallelism["job"] for _, _, parallelism in upgraded.drivers.started][-1] > 1


def test_loop_writes_the_newer_format_once_a_driver_reports_that_it_reads_it(upgraded: Simulation) -> None:
    """The driver of the old version is killed, so the next driver is of the new version."""
    upgraded.clock.at(40, lambda: kill_driver(upgraded))
    upgraded.clock.at(100, lambda: upgraded.cluster.add_worker(cores=2, memory_mb=1024))
    run_until(upgraded, 160)
    assert [epoch for epoch, _, _ in upgraded.drivers.started][-1] == 2
    assert formats(upgraded)[-1] == 2
    first_of_new_driver = next(
        documents.decode_document(documents.JournalDocument, data)
        for _, data in sorted(upgraded.directory.journal.items())
        if documents.decode_document(documents.JournalDocument, data).directive.epoch == 2
    )
    assert first_of_new_driver.format == 1, "the new driver may be of any version before its first status"


def test_loop_of_the_old_version_continues_after_rescales_of_the_newer_version(
    upgraded: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The triggerer is upgraded and goes back: the driver continues, and no rescale is lost."""
    upgraded.clock.at(40, lambda: upgraded.cluster.add_worker(cores=2, memory_mb=1024))
    run_until(upgraded, 120)
    monkeypatch.setattr(documents, "FORMATS", OLD)
    upgraded.clock.at(150, request(upgraded, DesiredState.SUSPENDED))
    assert outcome(upgraded.run()) is Outcome.SUSPENDED
    assert {epoch for epoch, _, _ in upgraded.drivers.started} == {1}
    assert [document.number for document in asyncio.run(upgraded.directory.rescales(10))] == [1, 2]


def test_job_that_ended_under_a_newer_version_starts_again_under_the_old_version(
    upgraded: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver of the newer version runs, so the job is suspended before Airflow goes back."""
    upgraded.clock.at(40, lambda: kill_driver(upgraded))
    upgraded.clock.at(150, request(upgraded, DesiredState.SUSPENDED))
    assert outcome(upgraded.run()) is Outcome.SUSPENDED
    assert formats(upgraded)[-2:] == [2, 1]
    monkeypatch.setattr(documents, "FORMATS", OLD)
    upgraded.drivers.formats = OLD
    upgraded.store.requests = ControlRequests()
    upgraded.spec = replace(upgraded.spec, attempt="attempt-2")
    run_until(upgraded, 250)
    assert [epoch for epoch, _, _ in upgraded.drivers.started][-1] == 3


def test_driver_lost_during_a_preparation_is_replaced_by_one_of_the_working_code(small: Simulation) -> None:
    """The next loop gets the new deployment only: the journal has the old one. Executors of another size wait for the new driver, too."""
    small.cluster.add_worker(cores=8, memory_mb=8192)
    run_until(small, 30)
    old = small.spec
    new, executor = "file:///jobs/job/code/new.py", ExecutorShape(cores=2, memory_mb=512)
    small.spec = replace(old, attempt="attempt-2", script=new, executor=executor)
    small.clock.at(50, lambda: small.cluster.kill_driver(next(iter(small.cluster.submissions))))
    run_until(small, 90)
    first, prepared, again, restarted, *_ = small.cluster.submissions.values()
    assert [it.script for it in (first, prepared, again, restarted)] == [old.script, new, new, old.script]
    assert (restarted.executor_cores, prepared.executor_cores) == (1, 2)
    newest = asyncio.run(small.directory.newest())
    assert newest is not None
    assert newest.directive.plan is not None
    assert newest.directive.plan.executors == newest.directive.plan.parallelism["job"]
