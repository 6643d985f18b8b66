"""The triggerer, where the loop runs, is ended, killed and frozen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from airflow_adaptive.local.airflow import Component
from tests.lab.faults.airflow.airflow_job import AirflowJob, still
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

ENDS = {"SIGTERM": lambda job: None, "SIGKILL": lambda job: job.airflow.kill(Component.TRIGGERER)}


@pytest.mark.parametrize("end", ENDS)
def test_triggerer_that_ends_and_comes_back(job: AirflowJob, record: Record, end: str) -> None:
    job.begin()
    owner = job.owner()
    job.fault()
    ENDS[end](job)
    job.airflow.restart(Component.TRIGGERER)  # in order, if it still runs
    job.wait_loop(owner)
    job.recover()
    assert (job.epoch(), job.task_state()) == (1, "deferred")
    record("Airflow's triggerer is ended", end, job.suspend())


@pytest.fixture
def second(job: AirflowJob) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts another triggerer."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        count = "SELECT count(*) FROM job WHERE job_type = 'TriggererJob' AND state = 'running'"
        before = job.database(count)
        started.append(job.command("triggerer", "--skip-serve-logs"))
        job.wait_for("the second triggerer", lambda: job.database(count) > before)
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait()


def test_triggerer_that_ends_and_hands_its_triggers_over(
    job: AirflowJob, record: Record, second: Callable[[], subprocess.Popen[bytes]]
) -> None:
    job.begin()
    owner = job.owner()
    second()
    job.fault()
    job.airflow._processes[Component.TRIGGERER].terminate()
    job.wait_loop(owner)
    job.recover()
    assert (job.epoch(), job.task_state()) == (1, "deferred")
    outcome = job.suspend()
    job.airflow.restart(Component.TRIGGERER)
    record("Airflow's triggerer is ended", "another triggerer takes over", outcome)


def test_triggerer_that_thaws_when_another_has_taken_over(
    job: AirflowJob, record: Record, second: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """Two loops of one attempt at once. Airflow calls `on_kill` of the duplicate loop, although no user killed the task."""
    job.begin()
    owner = job.owner()
    second()
    first = job.airflow._processes[Component.TRIGGERER]
    with still(first):
        job.fault()
        other = job.wait_loop(owner)
        job.recover()
        job.cluster.kill_driver(job.driver())
        job.wait_for("the next driver", lambda: job.epoch() == 2 and job.is_in("Executing"))
    job.wait_for_log("was written by another loop")
    job.wait_for_log("Another trigger continues the task")
    job.run_well()
    assert (job.owner(), job.epoch(), job.task_state()) == (other, 2, "deferred")
    record(
        "Airflow's triggerer is frozen, then resumed",
        "until another triggerer had taken over and replaced the driver",
        job.suspend(),
    )
