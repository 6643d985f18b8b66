"""The fake cluster beyond the contract: executors, and lost answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive.ports import ClusterUnreachableError, DriverSubmission, SubmissionState
from tests.lab.fakes.cluster import FakeCluster, FakeScript

DRIVER = DriverSubmission(name="departures", epoch=1, nonce="n", script="departures.py", driver_memory_mb=512)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.mark.asyncio
async def test_executors_are_spread_over_workers(cluster: FakeCluster) -> None:
    driver_worker, second, third = (cluster.add_worker(cores=3, memory_mb=4096) for _ in range(3))
    submission_id = await cluster.submit(DRIVER)
    cluster.request_executors(submission_id, 4)
    assert sorted(cluster.executors(submission_id)) == sorted([driver_worker, driver_worker, second, third])


@pytest.mark.asyncio
async def test_executors_are_granted_when_workers_have_free_capacity(cluster: FakeCluster) -> None:
    cluster.add_worker(cores=2, memory_mb=2048)
    submission_id = await cluster.submit(DRIVER)
    application_id = cluster.request_executors(submission_id, 3)
    assert (await cluster.snapshot()).granted == {application_id: 1}
    cluster.add_worker(cores=8, memory_mb=1024)
    assert (await cluster.snapshot()).granted == {application_id: 2}
    cluster.add_worker(cores=8, memory_mb=8192)
    assert (await cluster.snapshot()).granted == {application_id: 3}


@pytest.mark.asyncio
async def test_executor_of_a_dead_worker_is_replaced(cluster: FakeCluster) -> None:
    cluster.add_worker(cores=1)
    dying, spare = cluster.add_worker(), cluster.add_worker()
    submission_id = await cluster.submit(DRIVER)
    cluster.request_executors(submission_id, 1)
    assert cluster.executors(submission_id) == (dying,)
    cluster.kill_worker(dying)
    assert cluster.executors(submission_id) == (spare,)


@pytest.mark.asyncio
async def test_newest_executors_end_when_fewer_are_requested(cluster: FakeCluster) -> None:
    cluster.add_worker(cores=4, memory_mb=8192)
    submission_id = await cluster.submit(DRIVER)
    application_id = cluster.request_executors(submission_id, 3)
    assert cluster.request_executors(submission_id, 1) == application_id
    snapshot = await cluster.snapshot()
    assert snapshot.granted == {application_id: 1}
    assert snapshot.workers[0].free.cpu_millicores == 2000


@pytest.mark.asyncio
async def test_waiting_driver_takes_the_place_of_one_that_finishes(cluster: FakeCluster) -> None:
    cluster.add_worker(cores=1)
    first, second = await cluster.submit(DRIVER), await cluster.submit(replace(DRIVER, epoch=2))
    assert (await cluster.status(second)).state is SubmissionState.SUBMITTED
    cluster.finish_driver(first)
    assert (await cluster.status(first)).state is SubmissionState.FINISHED
    assert (await cluster.status(second)).state is SubmissionState.RUNNING


@pytest.mark.asyncio
async def test_submission_with_a_lost_answer_was_accepted(cluster: FakeCluster) -> None:
    cluster.add_worker()
    cluster.answers = False
    with pytest.raises(ClusterUnreachableError):
        await cluster.submit(DRIVER)
    cluster.answers = True
    (submission_id,) = cluster.submissions
    assert (await cluster.status(submission_id)).state is SubmissionState.RUNNING


@pytest.mark.asyncio
async def test_repeated_submissions_are_listed(cluster: FakeCluster) -> None:
    await cluster.submit(DRIVER)
    assert cluster.repeated == []
    await cluster.submit(DRIVER)
    assert cluster.repeated == [DRIVER]
    await cluster.clean_up(DRIVER.name)
    await cluster.submit(DRIVER)
    assert cluster.repeated == [DRIVER]
    assert len(cluster.submissions) == 2


@pytest.mark.asyncio
async def test_submission_to_an_unreachable_master_was_not_accepted(cluster: FakeCluster) -> None:
    cluster.reachable = False
    with pytest.raises(ClusterUnreachableError):
        await cluster.submit(DRIVER)
    assert cluster.submissions == {}


@pytest.mark.asyncio
async def test_scripts_behave_as_described() -> None:
    cluster = FakeCluster({"batch.py": FakeScript(executors=1, ends=SubmissionState.FINISHED)})
    cluster.add_worker(cores=2, memory_mb=2048)
    submission_id = await cluster.submit(DriverSubmission(name="batch", epoch=1, nonce="n", script="batch.py"))
    assert (await cluster.status(submission_id)).state is SubmissionState.FINISHED
    assert (await cluster.snapshot()).granted == {}


@pytest.mark.asyncio
async def test_a_lower_limit_ends_no_executor_and_grants_none(cluster: FakeCluster) -> None:
    cluster.add_worker(cores=4, memory_mb=8192)
    submission_id = await cluster.submit(DRIVER)
    cluster.set_executor_limit(submission_id, 3)
    cluster.set_executor_limit(submission_id, 1)
    assert list(cluster.executors_by_id(submission_id)) == ["0", "1", "2"]
    cluster.release_executors(submission_id, ["0", "2", "7"])
    assert list(cluster.executors_by_id(submission_id)) == ["1"]
    cluster.set_executor_limit(submission_id, 2)
    assert list(cluster.executors_by_id(submission_id)) == ["1", "3"]


@pytest.mark.asyncio
async def test_a_waiting_driver_launches_when_a_worker_has_capacity() -> None:
    launched: list[str] = []
    cluster = FakeCluster(on_launch=launched.append)
    submission_id = await cluster.submit(DRIVER)
    assert launched == []
    cluster.add_worker()
    assert launched == [submission_id]
