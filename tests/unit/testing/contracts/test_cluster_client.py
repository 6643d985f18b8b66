"""The contract of `ClusterClient`, with the fake cluster and with the real client of a fake master."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from airflow_adaptive.ports import ClusterClient, DriverLog, SubmissionState
from airflow_adaptive.spark.standalone.client import StandaloneCluster
from airflow_adaptive.testing.contracts.cluster_client import MEMORY_MB, ClusterClientContract, Script
from airflow_adaptive.testing.fakes.cluster import FakeCluster, FakeScript
from tests.support.servers.fake_master import FakeMaster

FAKE_SCRIPTS: dict[str, FakeScript] = {
    Script.FINISHES: FakeScript(ends=SubmissionState.FINISHED),
    Script.FAILS: FakeScript(ends=SubmissionState.FAILED, log=DriverLog(stdout="RuntimeError: no flights today\n")),
    Script.COMPUTES: FakeScript(executors=1, executor_memory_mb=MEMORY_MB),
}


class FakeUnderTest:
    """The fake cluster, with the scripts of the contract."""

    def __init__(self, fake: FakeCluster, client: ClusterClient) -> None:
        self.client = client
        self.add_worker = fake.add_worker
        self.kill_worker = fake.kill_worker
        self.kill_driver = fake.kill_driver

    @property
    def stranded_client(self) -> ClusterClient:
        client = FakeCluster()
        client.reachable = False
        return client

    def uri(self, script: Script) -> str:
        return script


class TestFakeCluster(ClusterClientContract):
    @pytest.fixture
    def cluster(self) -> FakeUnderTest:
        fake = FakeCluster(FAKE_SCRIPTS)
        return FakeUnderTest(fake, fake)


class TestClientOfFakeMaster(ClusterClientContract):
    """The real client, with the fake cluster behind HTTP."""

    @pytest_asyncio.fixture
    async def cluster(self) -> AsyncIterator[FakeUnderTest]:
        with FakeMaster(FAKE_SCRIPTS) as master:
            client = StandaloneCluster(master.address)
            yield FakeUnderTest(master.cluster, client)
            await client.close()
