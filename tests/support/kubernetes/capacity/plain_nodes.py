"""Nodes without kubelets: the scheduler binds pods to them, and nothing runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.support.kubernetes.api import Json, KubernetesApi
from tests.support.waiting import repeated


class PlainNodes:
    """Node objects without kubelets, which a thread keeps ready."""

    def __init__(self, api: KubernetesApi, group: str):
        self.api = api
        self.group = group
        self.names: list[str] = []

    def create(self, cpu: str, memory: str, *, pods: str = "110", taints: Sequence[Json] = (), **labels: str) -> str:
        name = f"{self.group}-{len(self.names) + 1}"
        metadata = {"name": name, "labels": {"group": self.group, "kubernetes.io/hostname": name, **labels}}
        self.api.create("/api/v1/nodes", {"kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}})
        self.names.append(name)
        size = {"cpu": cpu, "memory": memory, "pods": pods}
        self.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": size, "allocatable": size}})
        self.renew()
        self.api.wait_for(f"/api/v1/nodes/{name}", lambda node: not_ready(node) == [], "taints of the node")
        return name

    def renew(self) -> None:
        """Report that all nodes are ready, as kubelets do."""
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        for name in self.names:
            self.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})

    def delete(self) -> None:
        for name in self.names:
            self.api.delete(f"/api/v1/nodes/{name}")


def not_ready(node: Json) -> list[str]:
    return [
        taint["key"] for taint in node["spec"].get("taints", ()) if taint["key"].startswith("node.kubernetes.io/not-")
    ]


@contextmanager
def kept_ready(nodes: PlainNodes) -> Iterator[None]:
    try:
        with repeated(nodes.renew, 2):
            yield
    finally:
        nodes.delete()
