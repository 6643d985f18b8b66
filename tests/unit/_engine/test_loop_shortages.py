"""The loop on a cluster with limits: a user reads which limit keeps the job from more slots."""

from __future__ import annotations

import logging

import pytest

from airflow_adaptive._core.ports import MIB, Limit, LimitKind
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from tests.lab.simulation.one_job import MEMORY_MB, Simulation
from tests.support.runtime.loop_simulation import QUICK, request


def quota(executors: int, spare_mib: int = 0) -> Limit:
    """A quota for a driver and this number of executors."""
    return Limit(kind=LimitKind.QUOTA, name="team-a", memory_bytes=MIB * (spare_mib + MEMORY_MB * (1 + executors)))


@pytest.fixture
def simulation() -> Simulation:
    simulation = Simulation(**QUICK)
    simulation.cluster.add_worker(cores=8, memory_mb=16 * MEMORY_MB)
    return simulation


SMALLER = "or declare lower bounds or smaller executors"

CAP = Limit(kind=LimitKind.CAP, cpu_millicores=1500)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (quota(executors=0, spare_mib=100), f"quota `team-a` allows 100 MiB more: raise the quota, {SMALLER}"),
        (CAP, f"the cap of the connection allows 0.5 cores more: raise the cap, {SMALLER}"),
        (quota(executors=40), f"no worker has room for another executor: add workers, {SMALLER}"),
        (
            quota(executors=-1, spare_mib=100),
            "quota `team-a` allows 100 MiB more, which is too little for the driver: raise the quota, or declare a smaller driver",
        ),
    ],
    ids=["quota", "cap", "workers", "driver"],
)
def test_failure_of_a_job_whose_resources_never_come_names_the_limit(limit: Limit, text: str) -> None:
    simulation = Simulation(parallelism=(20, 20), **QUICK)
    simulation.cluster.add_worker(cores=8, memory_mb=16 * MEMORY_MB)
    simulation.cluster.limits = [limit]
    end = simulation.run_to_end()
    assert end.cause is not None
    need = "need at least 20 (vertex 'job' at least 20)"
    assert end.cause.message.endswith(f"{need}: {text}")
    history = simulation.store.views[-1].history
    assert history.decisions[-1].reason == history.transitions[-1].reason == end.cause.message
    assert simulation.store.views[-1].recent_failures[-1].failure == end.cause


def reasons(simulation: Simulation) -> list[str]:
    published = simulation.store.views[-1].history.decisions
    return [decision.reason for decision in published if decision.reason_code is ReasonCode.SLOTS_PENDING]


def test_waiting_job_reports_the_limit_that_keeps_it_from_its_driver(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    simulation.cluster.limits = [quota(executors=-1, spare_mib=100)]
    simulation.clock.at(20, request(simulation, DesiredState.SUSPENDED))
    with caplog.at_level(logging.INFO):
        simulation.run()
    text = "0 slots: quota `team-a` allows 100 MiB more, which is too little for the driver"
    assert text in reasons(simulation)
    assert caplog.messages.count(text) == 1


def test_job_starts_within_the_limit_and_reports_it(simulation: Simulation) -> None:
    simulation.cluster.limits = [quota(executors=1, spare_mib=100)]
    simulation.clock.at(20, request(simulation, DesiredState.SUSPENDED))
    simulation.run()
    assert [parallelism for _, _, parallelism in simulation.drivers.started] == [{"job": 1}]
    assert "1 slot: quota `team-a` allows 100 MiB more" in reasons(simulation)


def test_job_grows_when_the_limit_allows_more_and_reports_the_limit_again(simulation: Simulation) -> None:
    simulation.cluster.limits = [quota(executors=1)]
    simulation.clock.at(20, lambda: setattr(simulation.cluster, "limits", [quota(executors=2, spare_mib=10)]))
    simulation.clock.at(60, request(simulation, DesiredState.SUSPENDED))
    simulation.run()
    assert [parallelism["job"] for _, _, parallelism in simulation.drivers.started] == [1, 2]
    assert reasons(simulation)[-1] == "2 slots: quota `team-a` allows 10 MiB more"
    assert len(simulation.cluster.submissions) == 1
