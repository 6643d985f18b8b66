"""The clusters on which the tiers are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_driver, planned_executor
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.distribution import find_spark
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.cluster import KubernetesCluster, running_cluster
from tests.support.kubernetes.namespace import Namespace, created_namespace

STANDALONE: Final = "standalone"
KUBERNETES: Final = "Kubernetes"

MEMORY_MB: Final = 1024
"""Of the driver and of an executor."""

DRIVERS: Final = "spark-role=driver"


def archive_conf(archive: Path) -> dict[str, str]:
    """Return the conf of docs/guides/start-faster.md, with the jars of the embedded cluster."""
    jars, shared = str(find_spark().home / "jars" / "*"), f"-XX:SharedArchiveFile={archive.resolve()}"
    return {
        f"spark.{role}.{key}": value
        for role in ("driver", "executor")
        for key, value in (("defaultJavaOptions", shared), ("extraClassPath", jars))
    }


class Place(Protocol):
    """A cluster with room for the driver and two executors.

    Attributes:
        cluster: the cluster itself.
        loop: module of the process that runs the loop.
        conf: Spark properties that the cluster needs.
        driver: size of the driver.
        executor: size of an executor.
    """

    cluster: Any
    loop: str
    conf: Mapping[str, str]
    driver: DriverShape
    executor: ExecutorShape

    def loop_config(self) -> Mapping[str, Any]:
        """How the loop reaches the cluster."""
        ...

    def has_drivers(self) -> bool:
        """Whether a driver runs."""
        ...


class StandalonePlace:
    """An embedded standalone cluster."""

    loop = "tests.lab.faults.harness.loop_process"
    conf: Mapping[str, str] = {}
    driver = DriverShape(cores=1, memory_mb=MEMORY_MB)
    executor = ExecutorShape(cores=1, memory_mb=MEMORY_MB)

    def __init__(self, cluster: LocalCluster) -> None:
        """Use a running cluster."""
        self.cluster = cluster

    def loop_config(self) -> Mapping[str, Any]:
        """See `Place`."""
        rest, ui = (urlsplit(url).port for url in (self.cluster.rest_url, self.cluster.ui_url))
        return {"master": self.cluster.master_url, "extra": {"rest-port": rest, "ui-port": ui}}

    def has_drivers(self) -> bool:
        """See `Place`."""
        return bool(self.cluster.state()["activedrivers"])


class KubernetesPlace:
    """A namespace of a test cluster with two real nodes."""

    loop = "tests.lab.benchmarks.rescale.spark.kubernetes_loop"

    def __init__(self, cluster: KubernetesCluster, namespace: Namespace, root: Path) -> None:
        """Use a running cluster, whose pods mount the folder `root` of this machine."""
        self.cluster = cluster
        self._namespace = namespace
        plane = cluster.control_plane
        self._kubeconfig = plane.write_kubeconfig("loop", plane.admin)
        overheads = {"spark.driver.memoryOverhead": "450m", "spark.executor.memoryOverhead": "300m"}
        self.conf: Mapping[str, str] = {**pod_properties(root, plane.url), **overheads}
        self.driver = DriverShape(cores=1, memory_mb=MEMORY_MB, requested=planned_driver(self.conf, 1, MEMORY_MB))
        self.executor = ExecutorShape(cores=1, memory_mb=MEMORY_MB, requested=planned_executor(self.conf, 1, MEMORY_MB))

    def loop_config(self) -> Mapping[str, Any]:
        """See `Place`."""
        server = self.cluster.control_plane.url
        return {"server": server, "namespace": self._namespace.name, "kubeconfig": str(self._kubeconfig)}

    def has_drivers(self) -> bool:
        """See `Place`."""
        return bool(self._namespace.pods(DRIVERS))


@contextmanager
def running_place(where: str, root: Path) -> Iterator[Place]:
    """Start a cluster for the duration of the block."""
    if where == STANDALONE:
        with LocalCluster(root / "cluster") as standalone:
            standalone.add_worker(cores=4, memory_mb=4 * MEMORY_MB + 2048)
            yield StandalonePlace(standalone)
        return
    with running_cluster() as cluster:
        cluster.start_nodes()
        plane = cluster.control_plane
        with plane.api(plane.admin) as api, created_namespace(api) as namespace:
            namespace.create_service_account("spark")
            yield KubernetesPlace(cluster, namespace, root)
