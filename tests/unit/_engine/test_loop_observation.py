"""Observations of a loop whose parts are read at different times, and of loops that share the resources of a process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.deployment import Preparation
from airflow_adaptive._core.ports import ClusterSnapshot, JobDirectoryError
from airflow_adaptive._core.protocol.documents import DriverStatus, FailureReport, JournalDocument
from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, PolicyMemory
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._engine.journal import history
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive.autoscaling.advisor import PolicyAdvisor
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from tests.lab.fakes.manual_clock import START
from tests.lab.fleet.jobs import Call, JobFleet
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.quick_jobs import QUICK

FAILURE = FailureReport(error_class="SparkException", message="a task failed", causes=("SparkException",))


def just_before_a_poll(simulation: Simulation, at_s: float, happens: Callable[[], None]) -> None:
    """Let something happen between the read of the driver status and the poll of the cluster."""
    planned = [happens]
    poll = simulation.cluster.snapshot

    async def snapshot() -> ClusterSnapshot:
        if planned and simulation.clock.elapsed >= at_s:
            planned.pop()()
        return await poll()

    simulation.cluster.snapshot = snapshot  # type: ignore[method-assign]


@pytest.fixture
def job() -> Simulation:
    simulation = Simulation(resource_stabilization_timeout="2 s")
    simulation.cluster.add_worker(cores=5, memory_mb=4096)
    return simulation


def end_driver(job: Simulation) -> None:
    """Let the driver write its last status and exit."""
    for _ in range(2):
        job.drivers.tick(job.cluster.states)


def end_of(job: Simulation) -> Finished:
    """Run the job for at most three minutes, and return its end."""
    end = job.run(RunLimits(recycle_at=START + timedelta(minutes=3))).current
    assert isinstance(end, Finished)
    return end


def test_job_that_finishes_between_status_and_poll_does_not_run_again(job: Simulation) -> None:
    """The loop reads RUNNING; the driver writes FINISHED and exits; the cluster reports that the driver process has ended."""

    def finish() -> None:
        job.drivers.finish()
        end_driver(job)

    just_before_a_poll(job, 30, finish)
    assert end_of(job).outcome is Outcome.FINISHED
    assert len(job.cluster.submissions) == 1


def test_job_that_stops_between_the_read_of_its_status_and_the_poll_is_suspended(job: Simulation) -> None:
    """The loop reads RUNNING; the driver stops at a batch boundary and exits; the cluster reports the end of its process."""
    suspended = ControlRequests(desired_state=DesiredState.SUSPENDED)
    job.clock.at(30, lambda: setattr(job.store, "requests", suspended))
    job.drivers.commits = False
    tick, job.clock.tick = job.clock.tick, lambda: None if 30 <= job.clock.elapsed < 40 else tick()
    just_before_a_poll(job, 35, lambda: end_driver(job))
    end = end_of(job)
    assert (end.outcome, end.cause) == (Outcome.SUSPENDED, None)
    assert len(job.cluster.submissions) == 1


def test_end_of_a_driver_is_no_failure_while_its_last_status_is_unreadable(job: Simulation) -> None:
    """The driver writes FINISHED and exits, and the job directory is unavailable for three seconds."""

    async def unavailable(*, of_standby: bool = False) -> DriverStatus | None:
        if 30 <= job.clock.elapsed < 33:
            raise JobDirectoryError("unavailable")
        return await read(of_standby=of_standby)

    def finish() -> None:
        job.drivers.finish()
        end_driver(job)
        job.directory.status = unavailable  # type: ignore[method-assign]

    read = job.directory.status
    just_before_a_poll(job, 30, finish)
    assert end_of(job).outcome is Outcome.FINISHED
    assert len(job.cluster.submissions) == 1


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("ahead", [timedelta(seconds=3), HOUR])
def test_loop_detects_a_failed_query_while_the_clock_of_another_loop_is_ahead(ahead: timedelta) -> None:
    """The wall clock steps back between the starts of two loops, both jobs are idle, and the query of the second job fails."""
    fleet = JobFleet()
    triggerer = fleet.add_triggerer()
    fleet.add_workers(8)
    triggerer.wall_offset = ahead
    fleet.add_job("first", (1, 1), **QUICK)
    second = fleet.add_job("second", (1, 1), starts_s=2, **QUICK)
    fleet.kernel.at(1, lambda: setattr(triggerer, "wall_offset", timedelta(0)))
    fleet.run(60)
    fleet.kernel.after(5, second.model.fail_queries(FAILURE))
    fleet.run(20)
    assert second.path[:4] == ["WaitingForResources", "Deploying", "Executing", "Restarting"]


def test_loop_remembers_what_a_prepared_standby_has_reported() -> None:
    fleet = JobFleet()
    fleet.add_triggerer()
    fleet.add_workers(8)
    job = fleet.add_job("first", (1, 1), standby="driver", **QUICK)
    fleet.run(120)
    view = job.store.views[-1]
    assert view.preparation == Preparation(deployment=view.scheduler.deployment)


def test_next_loop_does_not_kill_the_standby_as_a_driver_that_is_forgotten() -> None:
    forgotten: list[frozenset[int]] = []

    async def intercept(name: str, call: Call) -> Any:
        if name == "kill_epochs":
            forgotten.append(call.args[2])
        return await call()

    fleet = JobFleet()
    fleet.add_triggerer()
    fleet.add_workers(8)
    job = fleet.add_job("first", (1, 1), standby="driver", **QUICK)
    fleet.run(120)
    job.start_loop(intercept=intercept)
    fleet.run(20)
    assert (job.store.views[-1].scheduler.last_epoch, forgotten) == (2, [frozenset()])


@pytest.fixture
def unread_history(job: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the read of the history never end."""
    monkeypatch.setattr(history, "PENDING_TIMEOUT_S", math.inf)
    monkeypatch.setattr(job.directory, "history", lambda *_: asyncio.Event().wait())


@pytest.mark.usefixtures("unread_history")
def test_policy_is_not_consulted_in_each_cycle_while_costs_are_unread(
    job: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    consulted: list[datetime] = []
    advise = PolicyAdvisor.advise

    def count(
        advisor: PolicyAdvisor, memory: PolicyMemory | None, policy_input: PolicyInput
    ) -> tuple[PolicyMemory | None, Advice | None]:
        consulted.append(policy_input.at)
        return advise(advisor, memory, policy_input)

    monkeypatch.setattr(PolicyAdvisor, "advise", count)
    job.follow(scheduled_policy(zone="UTC", windows=[window("always", (1, 2))]))
    job.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert consulted == [START]


@pytest.mark.usefixtures("unread_history")
def test_nothing_is_published_without_the_past_while_the_history_is_not_read_yet(job: Simulation) -> None:
    job.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert job.drivers.started
    assert job.store.views == []


@pytest.mark.usefixtures("unread_history")
def test_end_of_a_job_is_published_although_the_history_is_not_read(
    job: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "END_TIMEOUT_S", 0.1)
    job.clock.at(20, job.drivers.finish)
    job.run_to_end()
    assert {view.outcome for view in job.store.views} == {Outcome.FINISHED}


def test_end_of_a_job_waits_for_the_history(job: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    read = job.directory.history

    async def late(limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        await asyncio.sleep(0.5)
        return await read(limit, before)

    monkeypatch.setattr(job.directory, "history", late)
    job.clock.at(1, job.drivers.finish)
    job.run_to_end()
    published = job.store.views[-1]
    assert (published.outcome, published.history.transitions[0].source) == (Outcome.FINISHED, "Created")
