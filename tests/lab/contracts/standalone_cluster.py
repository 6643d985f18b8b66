"""The contract of a client of a Spark standalone cluster: the contract of all clients, and the addresses of the master and of its workers."""

from __future__ import annotations

from airflow_adaptive._core.ports import SubmissionState
from tests.lab.contracts.cluster_client import (
    Cluster,
    ClusterClientContract,
    Script,
    submission_of,
    wait_for,
)


class StandaloneClusterContract(ClusterClientContract):
    """The tests of the contract."""

    async def test_snapshot_has_the_addresses_of_the_master_and_of_its_workers(self, cluster: Cluster) -> None:
        """Executors report the address of the web UI of their worker, and users open the web UIs."""
        cluster.add_worker(cores=1, memory_mb=cluster.memory_mb)
        snapshot = await cluster.client.snapshot()
        assert snapshot.master_url.startswith("spark://")
        assert snapshot.ui_url.startswith("http://")
        assert snapshot.workers[0].address.startswith("http://")

    async def test_ended_driver_has_its_exception_and_log_pages(self, cluster: Cluster) -> None:
        """The worker publishes the output of a driver also after its end. An exception of the script is the last line."""
        cluster.add_worker(cores=1, memory_mb=cluster.memory_mb)
        submission_id = await cluster.client.submit(submission_of(cluster, Script.FAILS))
        await wait_for(cluster, submission_id, SubmissionState.FAILED)
        log = await cluster.client.driver_log(submission_id)
        assert log.stdout.rstrip().endswith("RuntimeError: no flights today")
        pages = (await cluster.client.snapshot()).log_pages[submission_id]
        assert pages.stdout.startswith("http://")
        assert pages.stderr.startswith("http://")
