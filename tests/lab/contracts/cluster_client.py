"""The contract of `ClusterClient`. To test a client, subclass `ClusterClientContract` and define the fixture `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

import pytest

from airflow_adaptive._core.ports import (
    MIB,
    ClusterClient,
    ClusterSnapshot,
    ClusterUnreachableError,
    DriverLog,
    DriverSubmission,
    Resources,
    SubmissionRefusedError,
    SubmissionState,
    SubmissionStatus,
    Worker,
)
from tests.support.waiting import wait_until_async

TIMEOUT_S = 240.0

MEMORY_MB = 512
"""Heap of each driver and executor, in MiB. Spark requires at least 450 MiB."""


class Script(StrEnum):
    """Behavior of the script of a driver. The value is the file name of the script."""

    RUNS = "runs.py"
    """Runs until the driver ends."""
    FINISHES = "finishes.py"
    FAILS = "fails.py"
    """Raises a `RuntimeError` with the message "no flights today"."""
    COMPUTES = "computes.py"
    """Runs an application with one executor, with one core and a heap of `MEMORY_MB`, until the driver ends."""


class Cluster(Protocol):
    """An empty cluster."""

    @property
    def memory_mb(self) -> int:
        """Memory that a driver or an executor with a heap of `MEMORY_MB` takes from the cluster, in MiB."""
        ...

    @property
    def unknown_driver(self) -> str:
        """Submission ID, in the form of the cluster manager, of a driver that never existed."""
        ...

    @property
    def client(self) -> ClusterClient:
        """A client of the cluster."""
        ...

    @property
    def stranded_client(self) -> ClusterClient:
        """A client of a cluster that does not answer."""
        ...

    @property
    def needs_clean_up(self) -> bool:
        """Whether drivers leave objects on the cluster that only a request of the client removes."""
        ...

    def uri(self, script: Script) -> str:
        """Return the URI of a script."""
        ...

    def add_worker(self, cores: int, memory_mb: int) -> str:
        """Add a worker with these free resources to the cluster. Return the ID of the worker."""
        ...

    def kill_worker(self, worker_id: str) -> None:
        """Kill a worker."""
        ...

    def kill_driver(self, submission_id: str) -> None:
        """Kill the processes of a running driver."""
        ...


@pytest.mark.asyncio
class ClusterClientContract:
    """The tests of the contract."""

    async def test_snapshot_shows_a_worker_from_when_it_joins_until_it_dies(self, cluster: Cluster) -> None:
        """A snapshot contains exactly the workers that can run drivers."""
        memory_mb = 3 * cluster.memory_mb
        assert open_workers(await cluster.client.snapshot()) == []
        worker_id = cluster.add_worker(cores=2, memory_mb=memory_mb)
        snapshot = await wait_for_free(cluster, 2, memory_mb)
        (worker,) = open_workers(snapshot)
        assert (worker.worker_id, worker.free) == (worker_id, Resources(2000, memory_mb * MIB))
        assert worker.total.cpu_millicores >= worker.free.cpu_millicores
        assert worker.total.memory_bytes >= worker.free.memory_bytes
        assert worker.address
        assert snapshot.master_url
        cluster.kill_worker(worker_id)
        snapshot = await wait_for_free(cluster, 0, 0)
        assert open_workers(snapshot) == []

    async def test_driver_takes_cores_and_memory_until_it_is_killed(self, cluster: Cluster) -> None:
        """The cores and the memory of a driver are not free for other drivers. A second kill is not an error."""
        cluster.add_worker(cores=2, memory_mb=3 * cluster.memory_mb)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.RUNS))
        status = await wait_for(cluster, submission_id, SubmissionState.RUNNING)
        assert status.worker_address
        snapshot = await wait_for_free(cluster, 1, 2 * cluster.memory_mb)
        assert snapshot.drivers[submission_id].state is SubmissionState.RUNNING
        await cluster.client.kill(submission_id)
        await cluster.client.kill(submission_id)
        await wait_for(cluster, submission_id, SubmissionState.KILLED)
        await cluster.client.kill(submission_id)
        await wait_for_free(cluster, 2, 3 * cluster.memory_mb)

    async def test_driver_waits_when_no_worker_has_free_capacity(self, cluster: Cluster) -> None:
        """A cluster without free capacity accepts a driver, and starts the driver when a worker joins."""
        cluster.add_worker(cores=1, memory_mb=cluster.memory_mb - 1)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.FINISHES))
        assert (await cluster.client.status(submission_id)).state is SubmissionState.SUBMITTED
        ((waiting_id, waiting),) = (await cluster.client.snapshot()).drivers.items()
        assert (waiting_id, waiting.state, waiting.can_start) == (submission_id, SubmissionState.SUBMITTED, True)
        assert waiting.request == Resources(1000, cluster.memory_mb * MIB)
        cluster.add_worker(cores=1, memory_mb=cluster.memory_mb)
        await wait_for(cluster, submission_id, SubmissionState.FINISHED)
        assert (await cluster.client.snapshot()).drivers == {}

    async def test_waiting_driver_can_be_killed(self, cluster: Cluster) -> None:
        """A kill ends a driver that has not started."""
        submission_id = await cluster.client.submit(submission_of(cluster, Script.RUNS))
        await cluster.client.kill(submission_id)
        await wait_for(cluster, submission_id, SubmissionState.KILLED)

    async def test_repeated_submission_is_the_same_driver(self, cluster: Cluster) -> None:
        """The name, the epoch and the nonce identify a driver. Another epoch or another nonce is another driver."""
        submission = submission_of(cluster, Script.RUNS)
        first = await cluster.client.submit(submission)
        assert await cluster.client.submit(submission) == first
        assert [*(await cluster.client.snapshot()).drivers] == [first]
        others = [replace(submission, nonce="m"), replace(submission, epoch=2), replace(submission, name="other job")]
        submitted = [first, *[await cluster.client.submit(other) for other in others]]
        assert len({*submitted}) == len(submitted)
        for submission_id in submitted:
            await cluster.client.kill(submission_id)

    async def test_repeated_clean_up_is_not_an_error(self, cluster: Cluster) -> None:
        """The end of a job leaves nothing on the cluster. A clean-up of an unknown job has no effect."""
        submission = submission_of(cluster, Script.RUNS)
        submission_id = await cluster.client.submit(submission)
        await cluster.client.clean_up("a job that never existed")
        assert [*(await cluster.client.snapshot()).drivers] == [submission_id]
        await cluster.client.kill(submission_id)
        await wait_for(cluster, submission_id, SubmissionState.KILLED)
        for _ in range(2):
            await cluster.client.clean_up(submission.name)
        assert (await cluster.client.snapshot()).drivers == {}

    async def test_clean_up_raises_when_the_cluster_does_not_answer(self, cluster: Cluster) -> None:
        """Otherwise the caller does not know that objects remain. A client that needs no request does not raise an error."""
        client = cluster.stranded_client
        with pytest.raises(ClusterUnreachableError) if cluster.needs_clean_up else nullcontext():
            await client.clean_up("contract")
        await client.close()

    async def test_driver_is_failed_when_its_script_fails(self, cluster: Cluster) -> None:
        """An exception of the script fails the driver, and is a line of the output of the driver."""
        cluster.add_worker(cores=1, memory_mb=cluster.memory_mb)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.FAILS))
        await wait_for(cluster, submission_id, SubmissionState.FAILED)
        log = await cluster.client.driver_log(submission_id)
        assert "RuntimeError: no flights today" in log.stdout.splitlines()

    async def test_driver_is_failed_when_its_process_dies(self, cluster: Cluster) -> None:
        """The death of the process fails the driver."""
        cluster.add_worker(cores=1, memory_mb=cluster.memory_mb)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.RUNS))
        await wait_for(cluster, submission_id, SubmissionState.RUNNING)
        cluster.kill_driver(submission_id)
        await wait_for(cluster, submission_id, SubmissionState.FAILED)

    async def test_driver_is_unknown_when_its_worker_dies(self, cluster: Cluster) -> None:
        """The master does not know whether the driver still runs, so the state must not be a final state."""
        worker_id = cluster.add_worker(cores=1, memory_mb=cluster.memory_mb)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.RUNS))
        await wait_for(cluster, submission_id, SubmissionState.RUNNING)
        cluster.kill_worker(worker_id)
        status = await wait_for(cluster, submission_id, SubmissionState.UNKNOWN)
        assert status.message
        assert await cluster.client.driver_log(submission_id) == DriverLog()
        assert submission_id not in (await cluster.client.snapshot()).log_pages

    async def test_executors_are_granted_while_their_driver_runs(self, cluster: Cluster) -> None:
        """The snapshot lists the cores of executors under their application. The cores are free after the end of the driver."""
        cluster.add_worker(cores=2, memory_mb=3 * cluster.memory_mb)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.COMPUTES))

        async def granted() -> Mapping[str, int]:
            return (await cluster.client.snapshot()).granted

        async def executors() -> Mapping[str, int]:
            """An application registers before it requests executors."""
            return {name: cores for name, cores in (await granted()).items() if cores}

        assert tuple((await wait_until_async(executors, TIMEOUT_S, "executors")).values()) == (1,)
        snapshot = await wait_for_free(cluster, 0, cluster.memory_mb)
        assert [*snapshot.names.items()] == [(*snapshot.granted, "contract: COMPUTES")]
        await cluster.client.kill(submission_id)
        await wait_for_free(cluster, 2, 3 * cluster.memory_mb)
        assert await granted() == {}

    async def test_unknown_driver_is_unknown(self, cluster: Cluster) -> None:
        """A status request or a kill for a driver that never existed is not an error."""
        assert await cluster.client.driver_log(cluster.unknown_driver) == DriverLog()
        assert (await cluster.client.status(cluster.unknown_driver)).state is SubmissionState.UNKNOWN
        await cluster.client.kill(cluster.unknown_driver)

    @pytest.mark.parametrize(
        "refused",
        [
            DriverSubmission(
                name="supervised", epoch=1, nonce="n", script="runs.py", conf={"spark.driver.supervise": "true"}
            ),
            DriverSubmission(name="without cores", epoch=1, nonce="n", script="runs.py", driver_cores=0),
            DriverSubmission(name="without memory", epoch=1, nonce="n", script="runs.py", driver_memory_mb=0),
            DriverSubmission(name="without executors", epoch=1, nonce="n", script="runs.py", executors=0),
            DriverSubmission(
                name="with too many executors", epoch=1, nonce="n", script="runs.py", executors=3, max_executors=2
            ),
        ],
        ids=lambda submission: submission.name,
    )
    async def test_submission_is_refused(self, cluster: Cluster, refused: DriverSubmission) -> None:
        """The client refuses drivers without resources, and drivers that the master would restart. The error names the driver."""
        with pytest.raises(SubmissionRefusedError, match=refused.name):
            await cluster.client.submit(refused)

    async def test_every_call_raises_when_the_cluster_does_not_answer(self, cluster: Cluster) -> None:
        """All calls to an unreachable cluster raise the same error."""
        client = cluster.stranded_client
        for call in (
            client.snapshot(),
            client.submit(submission_of(cluster, Script.RUNS)),
            client.status(cluster.unknown_driver),
            client.driver_log(cluster.unknown_driver),
            client.kill(cluster.unknown_driver),
        ):
            with pytest.raises(ClusterUnreachableError):
                await call
        await client.close()


def submission_of(cluster: Cluster, script: Script) -> DriverSubmission:
    """Return the submission of a driver that runs a script."""
    return DriverSubmission(
        name=f"contract: {script.name}",
        epoch=1,
        nonce="n",
        script=cluster.uri(script),
        conf={"spark.ui.enabled": "false"},
        driver_memory_mb=MEMORY_MB,
        executor_memory_mb=MEMORY_MB,
    )


def open_workers(snapshot: ClusterSnapshot) -> list[Worker]:
    """Return the workers on which a driver without constraints may run."""
    return [worker for worker in snapshot.workers if worker.accepts("")]


async def wait_for_free(cluster: Cluster, cores: int, memory_mb: int) -> ClusterSnapshot:
    """Return a snapshot whose workers have exactly these free resources. A client may read the workers at intervals."""
    expected = Resources(1000 * cores, memory_mb * MIB)

    async def read() -> ClusterSnapshot | None:
        snapshot = await cluster.client.snapshot()
        return snapshot if sum((it.free for it in open_workers(snapshot)), Resources()) == expected else None

    return await wait_until_async(read, TIMEOUT_S, f"{expected} on all workers")


async def wait_for(cluster: Cluster, submission_id: str, state: SubmissionState) -> SubmissionStatus:
    """Return the status of a driver as soon as the driver is in a state."""

    async def reached() -> SubmissionStatus | None:
        status = await cluster.client.status(submission_id)
        if status.state is not state and status.state.over:
            raise AssertionError(f"{submission_id} is {status}, not {state}")
        return status if status.state is state else None

    return await wait_until_async(reached, TIMEOUT_S, f"{state} of {submission_id}")
