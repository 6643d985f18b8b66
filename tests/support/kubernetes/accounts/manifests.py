"""The manifests of the documentation, applied to a namespace of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import yaml

from tests.support.kubernetes.api import KubernetesApi
from tests.support.kubernetes.namespace import RBAC, Namespace
from tests.support.repository import ROOT

FOLDER: Final = ROOT / "docs" / "kubernetes"

NAMESPACE: Final = "spark-jobs"
"""Namespace in the manifests."""

AIRFLOW: Final = "airflow-adaptive"
DRIVER: Final = "spark-driver"
"""Names of the service accounts."""

AIRFLOW_ACCOUNT: Final = "airflow-account.yaml"
DRIVER_ACCOUNT: Final = "driver-account.yaml"
NODES: Final = "airflow-nodes.yaml"

COLLECTIONS: Final = {
    "ClusterRole": f"/apis/{RBAC}/v1/clusterroles",
    "ClusterRoleBinding": f"/apis/{RBAC}/v1/clusterrolebindings",
}


def read(file: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """Return the objects of a file, for another namespace."""
    return [*yaml.safe_load_all((FOLDER / file).read_text().replace(NAMESPACE, namespace))]


def apply_accounts(namespace: Namespace) -> None:
    """Create the accounts of Airflow and of the drivers."""
    for file in (AIRFLOW_ACCOUNT, DRIVER_ACCOUNT):
        for manifest in read(file, namespace.name):
            namespace.create(manifest["kind"], manifest["metadata"]["name"], manifest, group=manifest["apiVersion"])


@contextmanager
def access_to_nodes(api: KubernetesApi, namespace: Namespace) -> Iterator[None]:
    """Give the account of Airflow access to nodes during the block."""
    manifests = read(NODES, namespace.name)
    for manifest in manifests:
        api.create(COLLECTIONS[manifest["kind"]], manifest)
    try:
        yield
    finally:
        for manifest in manifests:
            api.delete(f"{COLLECTIONS[manifest['kind']]}/{manifest['metadata']['name']}")


def granted(file: str) -> set[str]:
    """Return the verbs and resources that the role of a file grants, such as `get pods/log`."""
    roles = [manifest for manifest in read(file) if manifest["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    return {f"{verb} {resource}" for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
