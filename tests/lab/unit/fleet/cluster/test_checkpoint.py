"""The checkpoint of a simulated query on a simulated storage, and two queries that share one."""

from __future__ import annotations

import pytest

from tests.lab.fleet.cluster.checkpoint import Batch, Head, SimulatedCheckpoint
from tests.lab.fleet.cluster.job_model import JobModel, WorkloadShape
from tests.lab.fleet.cluster.query import QueryRun
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture(params=["s3", "s3-compatible"])
def checkpoint(request, kernel):
    storage = SimulatedStorage(kernel, Entropy(1), lambda text: None, request.param)
    return SimulatedCheckpoint(storage, "bucket/checkpoints/query")


def test_the_head_has_the_newest_batch_and_commit_although_listings_lag(kernel, checkpoint):
    heads = []

    def run():
        heads.append(checkpoint.head())
        for number in range(3):
            checkpoint.log_offsets(Batch(number, 10 * number, 10 * number + 10))
            heads.append(checkpoint.head())
            checkpoint.commit(number)
        heads.append(checkpoint.head())

    kernel.start_thread(run)
    kernel.run(until=60)
    assert heads[0] == Head(None, -1)
    assert heads[2:] == [Head(Batch(1, 10, 20), 0), Head(Batch(2, 20, 30), 1), Head(Batch(2, 20, 30), 2)]


def test_a_query_fails_when_another_one_logs_the_same_batch(kernel, checkpoint):
    model = JobModel(kernel, lambda text: None, "query", WorkloadShape())
    runs = [QueryRun(kernel, model, checkpoint, lambda: 1) for _ in range(2)]
    for run in runs:
        run.start()
    kernel.run(until=30)
    assert sorted(run.is_active for run in runs) == [False, True]
    (failed,) = (run for run in runs if not run.is_active)
    assert failed.failure is not None
    assert failed.failure.error_class == "CONCURRENT_STREAM_LOG_UPDATE"
