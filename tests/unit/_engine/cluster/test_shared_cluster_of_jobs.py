"""The shared cluster with loops whose clocks differ, with masters that answer slowly, and with many jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.lab.simulation.several_jobs import Competition
from tests.support.runtime.quick_jobs import QUICK, quiet  # noqa: F401  an autouse fixture

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_job_grows_after_the_timeout_although_the_journal_of_a_waiting_job_is_ahead(ahead: timedelta) -> None:
    """A job with a journal that is an hour ahead waits for its minimum, a worker joins, and the other job may grow after two minutes."""
    simulation = Competition()
    simulation.add_worker(4)
    simulation.add_job("running", (1, 12), **QUICK)
    options = QUICK | {"deploy_timeout": "2 min"}
    simulation.add_job("too large", (20, 20), starts_s=30, clock_ahead=ahead, **options)
    simulation.at(60, lambda: simulation.add_worker(2))
    grown: list[float] = []
    running = simulation.jobs["running"]
    simulation.checks.append(lambda: grown.append(simulation.clock.elapsed) if running.runs_on == 5 else None)
    assert simulation.run(240)["running"] == 5
    assert 150 <= grown[0] <= 180


@pytest.mark.parametrize("latency_s", [1.01, 5.0])
def test_hundred_jobs_proceed_while_the_master_answers_slowly(latency_s: float) -> None:
    """Each answer of the master takes longer than the poll interval. All jobs await the same poll, and no job waits for a second one."""
    simulation = Competition()
    simulation.latency_s = latency_s
    simulation.add_worker(200)
    for number in range(100):
        simulation.add_job(f"job-{number}", (1, 1), **QUICK)
    assert set(simulation.run(60 + 6 * latency_s).values()) == {1}


def test_hundred_jobs_detect_failures_while_the_master_is_frozen() -> None:
    """All jobs run, the master does not answer any more, and the query of each job fails. Each loop restarts its queries."""
    simulation = Competition()
    simulation.add_worker(200)
    for number in range(100):
        simulation.add_job(f"job-{number}", (1, 1), **QUICK)

    def freeze() -> None:
        simulation.cluster.reachable = False
        simulation.latency_s = 10
        for job in simulation.jobs.values():
            job.drivers.fail_query()

    simulation.at(40, freeze)
    simulation.run(80)
    assert {tuple(job.path[:4]) for job in simulation.jobs.values()} == {
        ("WaitingForResources", "Deploying", "Executing", "Restarting")
    }
