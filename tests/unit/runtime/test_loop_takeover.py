"""The next loop of a job continues the work of the previous loop."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive.ports import (
    ControlRequests,
    DesiredState,
)
from airflow_adaptive.runtime.journal.journal import SupersededError
from airflow_adaptive.runtime.loop import RunLimits
from airflow_adaptive.scheduler.state import Executing, Finished, Outcome
from airflow_adaptive.testing.fakes.manual_clock import START
from airflow_adaptive.testing.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import outcome, request


def test_next_loop_goes_on_with_the_same_driver(small: Simulation) -> None:
    first = small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert isinstance(first.current, Executing)
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    second = small.run()
    assert outcome(second) is Outcome.SUSPENDED
    assert len(small.drivers.started) == 1


def test_bounds_that_were_edited_in_the_dag_are_followed(small: Simulation) -> None:
    small.cluster.add_worker(cores=2, memory_mb=1024)
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    small.spec = replace(small.spec, graph=Simulation(parallelism=(1, 2)).spec.graph)
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.run()
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [3, 2]


def test_slower_of_two_loops_is_superseded(small: Simulation) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    first = small.loop()

    async def thaw() -> None:
        taken_over = asyncio.create_task(first.run())
        await asyncio.sleep(0)
        await small.loop(RunLimits(recycle_at=START + timedelta(seconds=90))).run()
        await taken_over

    with pytest.raises(SupersededError):
        asyncio.run(thaw())
    assert len(small.drivers.started) == 1


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
