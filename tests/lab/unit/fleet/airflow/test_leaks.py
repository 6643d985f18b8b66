"""A triggerer without jobs holds nothing, and everything that it holds is named."""

from __future__ import annotations

import asyncio

import pytest

from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from tests.support.fleet.small_fleet import SmallFleet


@pytest.fixture
def fleet():
    fleet = SmallFleet()
    with fleet.installed():
        fleet.start("triggerer-1")
        yield fleet


@pytest.fixture
def triggerer(fleet):
    return fleet.airflow.triggerers[0]


def end(fleet):
    for job in fleet.jobs:
        fleet.request(job, "canceled")
    fleet.run(60)


def test_a_triggerer_holds_resources_while_its_jobs_run_and_none_after_they_have_ended(fleet, triggerer):
    fleet.run(30)
    held = " ".join(triggerer.leaks())
    for name in ("AdaptiveJobTrigger._run_loop", "rate limiter of files", "participants", "clients"):
        assert name in held
    assert triggerer.idle_s == 0.0
    end(fleet)
    assert triggerer.idle_s > 0.0
    assert triggerer.leaks() == []


def test_everything_is_released_after_faults_and_recycling(fleet, triggerer):
    fleet.run(30)
    faults = [fleet.storage.faults.hang("*/job-1/*"), fleet.airflow.api.faults.hang("job-2")]
    fleet.run(200)
    for end_fault in faults:
        end_fault()
    fleet.run(60)
    end(fleet)
    assert triggerer.leaks() == []


def join_limiter(resources, fleet):
    resources.files.join()


def register(resources, fleet):
    shared = resources._shared.setdefault((), SharedCluster(resources.clock))
    shared.register("participant")
    return shared


def wait(resources, fleet):
    return asyncio.ensure_future(asyncio.sleep(1000))


def hang(resources, fleet):
    return asyncio.ensure_future(StorageThreads.of("storage").call(fleet.kernel.hang, 1000.0))


def open_client(resources, fleet):
    resources._clients._entries.append(object())


@pytest.mark.parametrize(
    ("hold", "name"),
    [(join_limiter, "member"), (register, "participant"), (wait, "task"), (hang, "thread"), (open_client, "client")],
)
def test_each_leak_is_named(fleet, triggerer, hold, name):
    fleet.run(30)
    end(fleet)
    held = []
    triggerer.loop.call_soon(lambda: held.append(hold(ProcessResources.current(), fleet)))
    fleet.run(1)
    assert name in " ".join(triggerer.leaks())
