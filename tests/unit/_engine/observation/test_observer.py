"""The observer: reads of the driver status, and polls of the cluster and of the driver process."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from airflow_adaptive._core.ports import DriverSubmission, JobDirectoryError, SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Driver
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand
from airflow_adaptive._engine.cluster.shared_cluster import Participant, SharedCluster
from airflow_adaptive._engine.observation.observer import GRACE_PERIOD, JobObservation, Observer
from airflow_adaptive._engine.rate_limit import FilePolling, RateLimiter
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START, ManualClock

SECOND = timedelta(seconds=1)

pytestmark = pytest.mark.asyncio


class Scene:
    """A job on a cluster of one worker, and the observer of its loop."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_worker(cores=4, memory_mb=4096)
        self.directory = FakeJobDirectory()
        self.file_polling = FilePolling(RateLimiter(100, ManualClock()))
        participant = Participant(SharedCluster(ManualClock()), self.cluster)
        self.observer = Observer(self.cluster, self.directory, participant, self.file_polling)
        self.queried: list[str] = []
        query = self.cluster.status

        async def counted(submission_id: str) -> SubmissionStatus:
            self.queried.append(submission_id)
            return await query(submission_id)

        self.cluster.status = counted  # type: ignore[method-assign]

    def report(self, sequence: int) -> DriverStatus:
        status = DriverStatus(
            job="job", epoch=1, nonce="n", sequence=sequence, at="", state=DriverState.RUNNING, version=1
        )
        self.directory.report(status)
        return status

    async def submit(self) -> Driver:
        return Driver(
            epoch=1,
            submission_id=await self.cluster.submit(DriverSubmission(name="job", epoch=1, nonce="n", script="s.py")),
        )

    async def observe(
        self,
        driver: Driver | None = None,
        now: datetime = START,
        status: DriverStatus | None = None,
        standby: DriverStatus | None = None,
    ) -> JobObservation:
        demand = SlotDemand(job="job", minimum=1, maximum=2)
        state = replace(machine.create(JobGraph.single("job", ParallelismRange(1, 2)), Options()), driver=driver)
        return await self.observer.observe_cluster(
            JobObservation(status=status, standby_status=standby), demand, state, timedelta(0), now
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_newest_status_is_read(scene: Scene) -> None:
    await scene.observer.read_status(START)
    assert scene.observer.status is None
    for sequence in (1, 2):
        written = scene.report(sequence)
        await scene.observer.read_status(START)
        assert scene.observer.status == written


async def test_status_that_disappears_is_kept(scene: Scene) -> None:
    written = scene.report(1)
    await scene.observer.read_status(START)
    scene.directory.reported = None
    await scene.observer.read_status(START)
    assert scene.observer.status == written


async def test_status_is_not_read_when_file_polling_is_not_due(scene: Scene) -> None:
    scene.report(1)
    scene.file_polling.is_due = False
    assert await scene.observer.read_status(START + GRACE_PERIOD) is None
    assert scene.observer.status is None
    assert not scene.observer.has_read_status


async def test_silence_of_a_driver_counts_after_the_grace_period(scene: Scene) -> None:
    """After its first read, the observer cannot distinguish a driver without a heartbeat from a driver that is about to write."""
    scene.report(1)
    assert await scene.observer.read_status(START) is None
    assert scene.observer.has_read_status
    assert await scene.observer.read_status(START + GRACE_PERIOD - SECOND) is None
    assert await scene.observer.read_status(START + GRACE_PERIOD) == START + GRACE_PERIOD


async def test_grace_period_starts_again_after_an_interruption(scene: Scene) -> None:
    await scene.observer.read_status(START)
    scene.observer.interrupt()
    assert not scene.observer.has_read_status
    assert await scene.observer.read_status(START + GRACE_PERIOD) is None


async def test_unreadable_status_is_an_error(scene: Scene) -> None:
    scene.directory.available = False
    with pytest.raises(JobDirectoryError):
        await scene.observer.read_status(START)


async def test_observation_contains_the_cluster_and_the_capacity_share(scene: Scene) -> None:
    await scene.observe()
    observation = await scene.observe()
    assert observation.cluster == await scene.cluster.snapshot()
    assert sum(observation.share.executors.values()) == 2
    assert observation.submission is None
    assert scene.observer.last_error is None


async def test_silence_of_a_standby_begins_with_its_newest_status(scene: Scene) -> None:
    status = DriverStatus(job="job", epoch=2, nonce="n", sequence=1, at="", state=DriverState.PREPARED)
    silences = []
    for second, sequence in ((0, 1), (5, 1), (6, 2), (8, 2), (9, 2)):
        if second == 9:
            scene.observer.interrupt()  # An outage of the job directory is no silence.
        now = START + second * SECOND
        silences.append((await scene.observe(now=now, standby=replace(status, sequence=sequence))).standby_silence)
    assert silences == [0 * SECOND, 5 * SECOND, 0 * SECOND, 2 * SECOND, 0 * SECOND]


async def test_running_driver_is_found_in_the_snapshot_without_a_query(scene: Scene) -> None:
    observation = await scene.observe(await scene.submit())
    assert observation.submission == SubmissionStatus(state=SubmissionState.RUNNING, leaves="")
    assert scene.queried == []


async def test_master_is_queried_for_a_driver_that_the_snapshot_does_not_contain(scene: Scene) -> None:
    driver = await scene.submit()
    assert driver.submission_id is not None
    scene.cluster.kill_driver(driver.submission_id)
    observation = await scene.observe(driver)
    assert observation.is_driver_over
    assert scene.queried == [driver.submission_id]


async def test_driver_of_unknown_id_is_not_queried(scene: Scene) -> None:
    observation = await scene.observe(Driver(epoch=1))
    assert observation.submission is None
    assert scene.queried == []


async def test_cluster_without_an_answer_is_unknown_and_keeps_its_error_until_one(scene: Scene) -> None:
    driver = await scene.submit()
    scene.cluster.reachable = False
    observation = await scene.observe(driver)
    assert (observation.cluster, observation.submission, dict(observation.share.executors)) == (None, None, {})
    assert "the cluster does not answer" in str(scene.observer.last_error)
    scene.cluster.reachable = True
    await scene.observe(driver)
    assert scene.observer.last_error is None


async def test_driver_on_an_unreachable_cluster_is_queried_only_when_polling_is_due(scene: Scene) -> None:
    """Many idle jobs must not each wait for a master that does not answer."""
    driver = await scene.submit()
    scene.cluster.reachable = False
    scene.file_polling.is_due = False
    await scene.observe(driver)
    assert scene.queried == []
    scene.file_polling.is_due = True
    await scene.observe(driver)
    assert scene.queried == [driver.submission_id]


async def test_time_counts_for_which_the_cluster_cannot_account_for_a_driver(scene: Scene) -> None:
    driver = await scene.submit()
    assert (await scene.observe(driver)).unaccounted_for is None
    lost = Driver(epoch=1, submission_id="driver-lost")
    assert (await scene.observe(lost)).unaccounted_for == timedelta(0)
    assert (await scene.observe(lost, START + SECOND)).unaccounted_for == SECOND
    other = Driver(epoch=2, submission_id="driver-other")
    assert (await scene.observe(other, START + 2 * SECOND)).unaccounted_for == timedelta(0)
    assert (await scene.observe(driver, START + 3 * SECOND)).unaccounted_for is None


async def test_cluster_is_queried_about_a_driver_that_reports_a_failure(scene: Scene) -> None:
    """A shared snapshot may be older than the deletion that is the cause of the failure."""
    driver, status = await scene.submit(), scene.report(1)
    await scene.observe()
    await scene.observe(driver, status=status)
    assert scene.queried == []
    await scene.observe(driver, status=replace(status, state=DriverState.FAILED))
    assert scene.queried == [driver.submission_id]
