"""The loop against a simulated world: what a user would see, in simulated time."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import ClusterUnreachableError, SubmissionStatus
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._engine.loop import RunLimits
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import QUICK, newest_driver, outcome, request


def worker(simulation: Simulation) -> Callable[[], str]:
    return lambda: simulation.cluster.add_worker(cores=1, memory_mb=512)


def test_starts_with_what_there_is_and_grows_when_a_worker_joins(small: Simulation) -> None:
    small.clock.at(20, worker(small))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    state = small.run()
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [1, 2]
    assert len(small.cluster.submissions) == 1, "a rescale keeps the driver"
    assert outcome(state) is Outcome.SUSPENDED
    assert small.states == [
        "WaitingForResources", "Deploying", "Executing", "Restarting", "Deploying", "Executing", "StopWithSavepoint",
        "Finished",
    ]  # fmt: skip


def test_idle_query_is_rescaled_without_waiting_for_a_batch() -> None:
    simulation = Simulation(**QUICK | {"max_trigger_delay": "10 min"})
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.drivers.commits = False
    simulation.clock.at(20, worker(simulation))
    simulation.clock.at(40, request(simulation, DesiredState.SUSPENDED))
    simulation.run()
    assert [parallelism["job"] for _, _, parallelism in simulation.drivers.started] == [1, 2]


def test_overrides_that_can_not_hold_are_refused_once(small: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    small.store.requests = ControlRequests(requirements={"job": ParallelismRange(3, 2)})
    small.clock.at(20, small.drivers.finish)
    assert outcome(small.run()) is Outcome.FINISHED
    (message,) = [it for it in caplog.messages if it.startswith("resource requirements")]
    assert message == (
        "resource requirements: The requested lower bound [3] for job vertex [job] is higher than the upper bound [2]. "
        "They are ignored."
    )


def test_lost_worker_shrinks_the_job(small: Simulation) -> None:
    joined = small.cluster.add_worker(cores=1, memory_mb=512)
    small.clock.at(30, lambda: small.cluster.kill_worker(joined))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.run()
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [2, 1]
    assert "RestartingLocally" in small.states


def test_lost_worker_with_room_elsewhere_recovers_locally(small: Simulation) -> None:
    first = small.cluster.add_worker(cores=1, memory_mb=512)
    small.spec = replace(small.spec, graph=Simulation(parallelism=(2, 2)).spec.graph)
    small.clock.at(20, worker(small))
    small.clock.at(30, lambda: small.cluster.kill_worker(first))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.run()
    assert len(small.drivers.started) == 1
    assert small.clock.elapsed < 65


def test_killed_driver_is_replaced_after_the_backoff(small: Simulation) -> None:
    small.clock.at(20, lambda: small.cluster.kill_driver(newest_driver(small)))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    state = small.run()
    assert [(epoch, parallelism["job"]) for epoch, _, parallelism in small.drivers.started] == [(1, 1), (2, 1)]
    assert "Restarting" in small.states
    assert "RestartingLocally" not in small.states
    assert state.num_restarts == 1
    assert state.num_rescales == 0


def test_driver_that_does_not_stop_is_killed(small: Simulation) -> None:
    def hang() -> None:
        small.drivers.hang = True
        small.store.requests = ControlRequests(desired_state=DesiredState.CANCELED)

    small.clock.at(20, hang)
    state = small.run()
    assert outcome(state) is Outcome.CANCELED
    assert small.clock.elapsed == pytest.approx(80, abs=5)


def test_new_requirements_are_followed(small: Simulation) -> None:
    small.cluster.add_worker(cores=2, memory_mb=1024)
    small.clock.at(
        30, lambda: setattr(small.store, "requests", ControlRequests(requirements={"job": ParallelismRange(1, 1)}))
    )
    small.clock.at(
        60, lambda: setattr(small.store, "requests", ControlRequests(requirements={"job": ParallelismRange(1, 3)}))
    )
    small.clock.at(90, request(small, DesiredState.SUSPENDED))
    small.run()
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [3, 1, 3]


class TwoServers:
    """A cluster whose REST server fails in words of its own."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def status(self, submission_id: str) -> SubmissionStatus:
        if self._cluster.reachable:
            return await self._cluster.status(submission_id)
        raise ClusterUnreachableError("http://h1:6066: connection refused")


def test_cluster_none_of_whose_servers_answers_is_reported_once(
    small: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    small.clock.at(15, lambda: setattr(small.cluster, "reachable", False))
    small.clock.at(30, lambda: setattr(small.cluster, "reachable", True))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.ports = replace(small.ports, cluster=TwoServers(small.cluster))
    small.run()
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1
    assert len(small.drivers.started) == 1


def test_task_that_is_out_of_time_cancels_the_job(small: Simulation) -> None:
    state = small.run(RunLimits(cancel_at=START + timedelta(seconds=30)))
    assert outcome(state) is Outcome.CANCELED
    assert 30 <= small.clock.elapsed < 40


def test_loop_of_an_idle_job_confirms_the_lease_of_its_driver_at_intervals() -> None:
    idle = Simulation(trigger_lifetime="1 h", poll_interval="1 min", **QUICK)
    idle.cluster.add_worker(cores=2, memory_mb=1024)
    begun: list[int] = []
    idle.clock.at(600, lambda: begun.append(max(idle.directory.journal)))
    idle.run(RunLimits(recycle_at=START + timedelta(hours=10)))
    assert 8 <= max(idle.directory.journal) - begun[0] <= 10
    assert len(idle.cluster.submissions) == 1


def require(simulation: Simulation, lower: int, upper: int) -> Callable[[], None]:
    return lambda: setattr(
        simulation.store, "requests", ControlRequests(requirements={"job": ParallelismRange(lower, upper)})
    )


def test_higher_lower_bound_is_a_rescale_if_the_cluster_has_room_for_it() -> None:
    narrow = Simulation(parallelism=(1, 4), **QUICK)
    narrow.cluster.add_worker(cores=5, memory_mb=2560)
    narrow.store.requests = ControlRequests(requirements={"job": ParallelismRange(1, 2)})
    narrow.clock.at(60, require(narrow, 4, 4))
    narrow.clock.at(120, request(narrow, DesiredState.SUSPENDED))
    narrow.run()
    assert [parallelism["job"] for _, _, parallelism in narrow.drivers.started] == [2, 4]
    assert len(narrow.cluster.submissions) == 1, "the driver lives on"


def test_cluster_is_cleaned_up_once_after_the_job_has_ended(small: Simulation) -> None:
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.clock.at(59, lambda: cleaned_before_the_end.extend(small.cluster.cleaned_up))
    cleaned_before_the_end: list[str] = []
    small.run()
    assert (cleaned_before_the_end, small.cluster.cleaned_up) == ([], ["job"])


def test_loop_that_is_recycled_does_not_clean_up(small: Simulation) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert small.cluster.cleaned_up == []


def test_job_ends_although_the_clean_up_fails(small: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(job: str) -> None:
        raise ClusterUnreachableError(f"no answer about {job}")

    small.cluster.clean_up = fail  # type: ignore[method-assign]
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    assert outcome(small.run()) is Outcome.SUSPENDED
    assert "The objects of job job remain on the cluster: no answer about job" in caplog.text
