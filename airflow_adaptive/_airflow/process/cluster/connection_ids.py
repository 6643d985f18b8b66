"""The Airflow connections through which a job reaches its cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress, read_namespace
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook


@dataclass(frozen=True, slots=True)
class ConnectionIds:
    """Ids of Airflow connections. Triggers and events contain the ids as plain data (`dataclasses.asdict`).

    Attributes:
        spark: connection of type `adaptive_spark` or `spark`, which selects the cluster manager and the cluster.
        kubernetes: connection of type `kubernetes` with the credentials; other cluster managers do not read it.
        namespace: Kubernetes namespace instead of the one in the connection `spark`, "" for that one.
        kafka: connection of type `kafka` of the brokers of the sources, "" without one.
    """

    spark: str
    kubernetes: str = "kubernetes_default"
    namespace: str = ""
    kafka: str = ""

    def address(self) -> ClusterAddress | KubernetesAddress:
        """Return the address of the cluster; blocks on Airflow's connections.

        Raises:
            AddressError: the connection does not exist or does not describe a cluster, or the cluster has no namespaces.
        """
        address = AdaptiveSparkHook(self.spark).address()
        if not self.namespace:
            return address
        if isinstance(address, KubernetesAddress):
            return replace(address, namespace=read_namespace(self.namespace))
        raise AddressError(
            f"namespace {self.namespace!r} has no effect, because connection {self.spark!r} names a standalone cluster: leave it out, or "
            "use a connection with the host k8s://https://host:port"
        )
