"""What a driver is submitted with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_adaptive._clusters.standalone.client import REST_HINT
from airflow_adaptive._core.ports import ClusterUnreachableError, DriverSubmission, SubmissionState
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._core.scheduler.events import DriverHeartbeatTimedOut
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._core.scheduler.steps import KillDriver, SubmitDriver
from airflow_adaptive._engine.step_executor import execute, submission
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import newest_driver, outcome, request

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.parametrize(
    ("name", "default", "given"),
    [
        ("spark.log.level", "WARN", "INFO"),
        ("spark.executorEnv.MALLOC_TRIM_THRESHOLD_", "131072", "1048576"),
        (PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider", "my.Provider"),
    ],
)
def test_driver_has_defaults_that_its_author_overrides(name: str, default: str, given: str) -> None:
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    found = [submission(command, replace(Simulation().spec, conf=conf), "n").conf[name] for conf in ({}, {name: given})]
    assert found == [default, given]


def test_templates_reach_the_cluster_manager() -> None:
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    spec = replace(Simulation().spec, driver_template='{"a": 1}', executor_template='{"b": 2}')
    submitted = submission(command, spec, "nonce")
    assert (submitted.driver_template, submitted.executor_template) == ('{"a": 1}', '{"b": 2}')


CODE = {"file:///jobs/code/0a/run.py": b"123456", "file:///jobs/code/0a/airflow_adaptive.zip": b"7890"}


class Recorder(FakeCluster):
    """A cluster that keeps what is submitted."""

    submitted: DriverSubmission

    async def submit(self, submission: DriverSubmission) -> str:
        self.submitted = submission
        return await super().submit(submission)


async def code(directory: FakeJobDirectory, most_bytes: int) -> Mapping[str, bytes]:
    """Return the code that the cluster can read from a submission."""
    script, archive = CODE
    spec = replace(Simulation().spec, script=script, py_files=(archive, "https://example.com/other.zip"))
    cluster = Recorder()
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    await execute(command, spec, "nonce", cluster, directory, datetime(2026, 1, 1, tzinfo=UTC))
    return await cluster.submitted.read_code(most_bytes)


@pytest.fixture
def directory() -> FakeJobDirectory:
    found = FakeJobDirectory()
    found.files = {**CODE, "https://example.com/other.zip": b"other"}
    return found


@pytest.mark.asyncio
async def test_the_cluster_reads_the_staged_code(directory: FakeJobDirectory) -> None:
    assert await code(directory, 10) == CODE


@pytest.mark.asyncio
async def test_code_that_is_too_large_is_not_read(directory: FakeJobDirectory) -> None:
    assert await code(directory, 9) == {}


@pytest.mark.asyncio
async def test_code_that_cannot_be_read_now_is_not_an_error(
    directory: FakeJobDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.available = False
    assert await code(directory, 10) == {}
    assert "The driver loads its code from the job directory" in caplog.text


class Unexpected:
    """Lets the next submissions of a cluster fail in a way that the port does not know."""

    def __init__(self, cluster: FakeCluster, failures: int) -> None:
        self.failures = failures
        self._submit = cluster.submit
        cluster.submit = self.submit  # type: ignore[method-assign]

    async def submit(self, submission: DriverSubmission) -> str:
        if self.failures > 0:
            self.failures -= 1
            raise TypeError("'list' object is not a mapping; password=hunter2")
        return await self._submit(submission)


def test_first_submission_that_fails_unexpectedly_is_one_clear_error(small: Simulation) -> None:
    Unexpected(small.cluster, failures=1_000_000)
    ended = small.run_to_end()
    assert ended.outcome is Outcome.FAILED
    assert ended.cause is not None
    assert ended.cause.error_class == "SUBMISSION_REFUSED"
    assert "TypeError: 'list' object is not a mapping" in ended.cause.message
    assert "hunter2" not in ended.cause.message


def test_job_restarts_after_a_later_submission_that_fails_unexpectedly(small: Simulation) -> None:
    submissions = Unexpected(small.cluster, failures=0)
    small.clock.at(20, lambda: setattr(submissions, "failures", 1))
    small.clock.at(20, lambda: small.cluster.kill_driver(newest_driver(small)))
    small.clock.at(240, request(small, DesiredState.SUSPENDED))
    state = small.run()
    assert outcome(state) is Outcome.SUSPENDED
    assert [record.failure.error_class for record in state.failures] == ["DRIVER_LOST", "SUBMISSION_REFUSED"]
    assert small.states[-3:] == ["Executing", "StopWithSavepoint", "Finished"]


@pytest.mark.asyncio
async def test_driver_whose_submission_has_no_answer_is_killed_by_its_epoch() -> None:
    cluster, spec, now = FakeCluster(), Simulation().spec, datetime(2026, 1, 1, tzinfo=UTC)
    submitted = [
        await cluster.submit(submission(SubmitDriver(epoch=epoch, slots=1, cause="TimerFired"), spec, "nonce"))
        for epoch in (1, 2)
    ]
    command = KillDriver(epoch=2, submission_id=None, cause="TimerFired")
    assert await execute(command, spec, "nonce", cluster, FakeJobDirectory(), now) == []
    states = [(await cluster.status(driver)).state for driver in submitted]
    assert states == [SubmissionState.SUBMITTED, SubmissionState.KILLED]


@pytest.mark.asyncio
async def test_driver_of_a_submission_that_failed_unexpectedly_may_exist() -> None:
    """A driver that the cluster has started nevertheless must have lost its lease before the next one starts."""
    cluster, now = FakeCluster(), datetime(2026, 1, 1, tzinfo=UTC)
    Unexpected(cluster, failures=1)
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    [event] = await execute(command, Simulation().spec, "nonce", cluster, FakeJobDirectory(), now)
    assert isinstance(event, DriverHeartbeatTimedOut)


def test_submissions_without_an_answer_end_a_job_that_was_never_accepted(small: Simulation) -> None:
    """For example because the REST port of the connection is another port of the master."""

    async def submit(submission: DriverSubmission) -> str:
        raise ClusterUnreachableError(
            f"http://spark:7077/v1/submissions/create: no answer (Server disconnected): {REST_HINT}"
        )

    small.cluster.submit = submit  # type: ignore[method-assign]
    state = small.run()
    ended = state.current
    assert isinstance(ended, Finished)
    assert ended.outcome is Outcome.FAILED
    assert ended.cause is not None
    assert "this happened 3 times" in ended.cause.message
    for text in (ended.cause.message, *(record.failure.message for record in state.failures)):
        assert "http://spark:7077/v1/submissions/create: no answer" in text
        assert "that this is its port (extra `rest-port`" in text
    assert [it for it in small.states if it == "Deploying"] == ["Deploying"] * 3
