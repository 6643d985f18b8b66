"""The contract of `ClusterClient`, with the fake cluster and with the real client of a fake master."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import ClusterClient, DriverLog, SubmissionState
from airflow_adaptive.local.cluster import HOST, free_port
from tests.lab.contracts.cluster_client import MEMORY_MB, Script
from tests.lab.contracts.standalone_cluster import StandaloneClusterContract
from tests.lab.fakes.cluster import FakeCluster, FakeScript
from tests.support.servers.fake_master import FakeMaster

FAKE_SCRIPTS: dict[str, FakeScript] = {
    Script.FINISHES: FakeScript(ends=SubmissionState.FINISHED),
    Script.FAILS: FakeScript(ends=SubmissionState.FAILED, log=DriverLog(stdout="RuntimeError: no flights today\n")),
    Script.COMPUTES: FakeScript(executors=1, executor_memory_mb=MEMORY_MB),
}


class FakeUnderTest:
    """The fake cluster, with the scripts of the contract."""

    memory_mb = MEMORY_MB
    unknown_driver = "driver-20130101000000-9999"

    def __init__(
        self, fake: FakeCluster, client: ClusterClient, stranded_client: ClusterClient, *, needs_clean_up: bool
    ) -> None:
        self.client = client
        self.stranded_client = stranded_client
        self.needs_clean_up = needs_clean_up
        self.add_worker = fake.add_worker
        self.kill_worker = fake.kill_worker
        self.kill_driver = fake.kill_driver

    def uri(self, script: Script) -> str:
        return script


class TestFakeCluster(StandaloneClusterContract):
    @pytest.fixture
    def cluster(self) -> FakeUnderTest:
        fake = FakeCluster(FAKE_SCRIPTS)
        stranded = FakeCluster()
        stranded.reachable = False
        return FakeUnderTest(fake, fake, stranded, needs_clean_up=True)


class TestClientOfFakeMaster(StandaloneClusterContract):
    """The real client, with the fake cluster behind HTTP."""

    @pytest_asyncio.fixture
    async def cluster(self) -> AsyncIterator[FakeUnderTest]:
        with FakeMaster(FAKE_SCRIPTS) as master:
            client = StandaloneCluster(master.address)
            port = free_port()
            stranded = StandaloneCluster(
                ClusterAddress(masters=(MasterAddress(host=HOST, ui_port=port, rest_port=port),))
            )
            yield FakeUnderTest(master.cluster, client, stranded, needs_clean_up=False)
            await client.close()
