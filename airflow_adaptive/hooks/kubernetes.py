"""The hook for Airflow's connections of type `kubernetes`: reads the credentials of a cluster, without a request to the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.sdk import BaseHook

from airflow_adaptive._airflow.connections import CREDENTIALS_TYPE, kubernetes_credentials


class KubernetesConnectionHook(BaseHook):
    """Reads the credentials of a Kubernetes cluster from a connection of type `kubernetes`, as `KubernetesPodOperator` does.

    The hook reads these extra fields, and ignores all others:

    - in_cluster: use the service account of the pod in which Airflow runs.
    - kube_config_path: path of a kubeconfig file.
    - kube_config: the kubeconfig itself, in JSON or YAML.
    - cluster_context: context of the kubeconfig; by default its current context.
    - disable_verify_ssl: do not check the certificate of the API server.

    In contrast to Airflow's own hook, a connection that is missing or selects no credentials is an error. The default kubeconfig of a
    process (`KUBECONFIG`, `~/.kube/config`) may belong to another cluster.
    """

    conn_name_attr: ClassVar[str] = "kubernetes_conn_id"
    default_conn_name: ClassVar[str] = "kubernetes_default"
    conn_type: ClassVar[str] = CREDENTIALS_TYPE

    def __init__(self, kubernetes_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kubernetes_conn_id = kubernetes_conn_id

    def fields(self) -> Mapping[str, Any]:
        """Return the extra fields, with a kubeconfig as a mapping; blocks on Airflow's connections.

        Raises:
            UndefinedConnectionError: Airflow does not find the connection.
            AddressError: Airflow refuses the connection, or the connection does not select credentials.
        """
        return kubernetes_credentials(self.kubernetes_conn_id)
