"""What a driver is submitted with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_adaptive.ports import DriverSubmission
from airflow_adaptive.runtime.command_executor import execute, submission
from airflow_adaptive.scheduler.commands import SubmitDriver
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.job_directory import FakeJobDirectory
from airflow_adaptive.testing.simulation.one_job import Simulation


@pytest.mark.parametrize(("conf", "level"), [({}, "WARN"), ({"spark.log.level": "INFO"}, "INFO")])
def test_driver_logs_warnings_only_unless_its_author_wants_more(conf: dict[str, str], level: str) -> None:
    spec = replace(Simulation().spec, conf=conf)
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    assert submission(command, spec, "nonce").conf["spark.log.level"] == level


PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.parametrize(
    ("conf", "provider"), [({}, "RocksDBStateStoreProvider"), ({PROVIDER: "my.Provider"}, "my.Provider")]
)
def test_new_state_can_be_repartitioned_unless_its_author_keeps_it_elsewhere(
    conf: dict[str, str], provider: str
) -> None:
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    submitted = submission(command, replace(Simulation().spec, conf=conf), "nonce").conf
    assert submitted[PROVIDER].endswith(provider)


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
