"""The test cluster as the contract of cluster clients needs it: workers that join and die, on the real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kubernetes_asyncio.client import ApiClient, Configuration

from airflow_adaptive._clusters.kubernetes.address import ApiSource, KubernetesAddress
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import is_terminal, resources
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from airflow_adaptive._core.ports import MIB, Resources
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.local.cluster import HOST, free_port
from airflow_adaptive.local.waiting import wait_until
from tests.lab.contracts.cluster_client import MEMORY_MB, Script
from tests.support.kubernetes.client.api_sources import KubeconfigSource
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import PAUSE
from tests.support.kubernetes.namespace import Namespace, cordon, wait_for_node

OVERHEAD_MB: Final = 200

SCRIPTS: Final = {
    Script.RUNS: "import threading\nthreading.Event().wait()\n",
    Script.FINISHES: "",
    Script.FAILS: "raise RuntimeError('no flights today')\n",
    Script.COMPUTES: """
import threading
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
threading.Event().wait()
""",
}


class ClusterUnderTest:
    """The nodes are cordoned, and therefore no workers, until a test adds them. A pod takes what a worker must not have."""

    memory_mb = MEMORY_MB + OVERHEAD_MB
    unknown_driver = "departures-1-00000000@00000000-0000-0000-0000-000000000000"
    needs_clean_up = True

    def __init__(self, cluster: KubernetesCluster, team: Namespace, scripts: Path) -> None:
        self._cluster = cluster
        self._team = team
        self._scripts = scripts
        self._unused = [node.name for node in cluster.nodes]
        self._frozen: list[str] = []
        url = cluster.control_plane.url
        self._conf = {
            name: value for name, value in pod_properties(scripts, url).items() if not name.endswith(".request.cores")
        }
        address = KubernetesAddress(server=url, namespace=team.name, conf=self._conf)
        self.client = self._client(address, KubeconfigSource(cluster.control_plane, cluster.control_plane.admin))
        scripts.mkdir(exist_ok=True)
        scripts.chmod(0o777)
        for name in self._unused:
            cordon(team.api, name)

    @property
    def stranded_client(self) -> Client:
        server = f"https://{HOST}:{free_port()}"
        return self._client(KubernetesAddress(server=server, conf=self._conf), StrandedSource(server))

    def uri(self, script: Script) -> str:
        file = self._scripts / script
        file.write_text(SCRIPTS[script])
        return str(file)

    def add_worker(self, cores: int, memory_mb: int) -> str:
        name = self._unused.pop()
        excess = self._free(name) - Resources(1000 * cores, memory_mb * MIB)
        assert excess.cpu_millicores >= 0, excess
        assert excess.memory_bytes >= 0, excess
        requests = {"cpu": f"{excess.cpu_millicores}m", "memory": str(excess.memory_bytes)}
        container = {"name": "pause", "image": PAUSE, "resources": {"requests": requests}}
        self._team.create("Pod", f"excess-of-{name}", {"spec": {"nodeName": name, "containers": [container]}})
        cordon(self._team.api, name, unschedulable=False)
        return name

    def kill_worker(self, worker_id: str) -> None:
        """Freeze the kubelet: for the control plane, a node that does not answer is like a dead node."""
        self._cluster.node(worker_id).kubelet.freeze()
        self._frozen.append(worker_id)
        wait_for_node(self._team.api, worker_id, "Unknown")

    def kill_driver(self, submission_id: str) -> None:
        uid = submission_id.partition("@")[2]
        for node in self._cluster.nodes:
            node.kill_pod(uid)

    def repair(self) -> None:
        """Thaw the kubelets, and allow pods on all nodes."""
        for name in self._frozen:
            self._cluster.node(name).kubelet.thaw()
            wait_for_node(self._team.api, name, "True")
        for node in self._cluster.nodes:
            cordon(self._team.api, node.name, unschedulable=False)

    def _free(self, name: str) -> Resources:
        """Return what a node has beside its pods. The pods of an earlier test disappear."""
        api = self._team.api

        def pods() -> list[object]:
            return [
                pod for pod in api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}") if not is_terminal(pod)
            ]

        wait_until(lambda: not pods(), 180, f"end of all pods on {name}")
        return resources(api.get(f"/api/v1/nodes/{name}")["status"]["allocatable"])

    @staticmethod
    def _client(address: KubernetesAddress, source: ApiSource) -> Client:
        return Client(address, source, SystemClock())


class StrandedSource:
    """An `ApiSource` of a server that does not exist."""

    def __init__(self, server: str) -> None:
        self._client = ApiClient(Configuration(host=server))

    async def client(self) -> ApiClient:
        return self._client

    async def renew(self, refused: ApiClient) -> bool:
        return False

    def explain_refusal(self) -> str:
        return "start the server"

    async def close(self) -> None:
        await self._client.close()
