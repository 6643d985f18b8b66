"""A namespace of a test, and what tests do in it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.api import TIMEOUT_S, ApiError, Json, KubernetesApi

RBAC: Final = "rbac.authorization.k8s.io"

DRIVER_RULES: Final = (
    {
        "apiGroups": [""],
        "resources": ["pods", "configmaps", "services", "persistentvolumeclaims"],
        "verbs": ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"],
    },
)
"""What Spark does in a driver pod."""

OWN_OBJECTS: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
"""Objects that the controllers create in each namespace."""

KUBECTL_INTERVAL_S: Final = 5.0
"""Time between two evictions that a disruption budget refuses, as in `kubectl drain`."""

_numbers = itertools.count(1)


class Namespace:
    """Creates and reads the objects of one namespace.

    Attributes:
        api: a client whose user may do everything in the namespace.
        name: name of the namespace.
    """

    def __init__(self, api: KubernetesApi, name: str) -> None:
        self.api = api
        self.name = name

    def begin(self) -> None:
        """Create the namespace, and wait until the controllers have created what each namespace contains."""
        self.api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        )
        self.api.wait_for(self.path("serviceaccounts", "default"), lambda _: True, "service account")

    def path(self, resource: str, name: str = "", group: str = "v1") -> str:
        """Return the path of a collection, or of an object if `name` is set."""
        root = "/api" if group == "v1" else "/apis"
        return f"{root}/{group}/namespaces/{self.name}/{resource}" + (f"/{name}" if name else "")

    def create(self, kind: str, name: str, content: Json, *, group: str = "v1") -> Json:
        """Create an object and return it as the API server completed it."""
        manifest = {"apiVersion": group, "kind": kind, "metadata": {"name": name}, **content}
        return self.api.create(self.path(f"{kind.lower()}s", group=group), manifest)

    def set_quota(self, hard: Mapping[str, str | int]) -> None:
        """Set the quota of the namespace, for example `{"pods": 3, "requests.memory": "2Gi"}`. Running pods continue.

        Returns when the quota is known to the API server.
        """
        path = self.path("resourcequotas", "quota")
        limits = {name: str(value) for name, value in hard.items()}
        if self.api.find(path) is None:
            self.create("ResourceQuota", "quota", {"spec": {"hard": limits}})
        else:
            self.api.delete(path)
            self.create("ResourceQuota", "quota", {"spec": {"hard": limits}})
        self.api.wait_for(path, lambda quota: quota["status"].get("hard") == limits, "quota")

    def create_service_account(self, name: str, rules: Sequence[Json] = DRIVER_RULES) -> None:
        """Create a service account with a role of these rules in the namespace."""
        self.create("ServiceAccount", name, {})
        self.create("Role", name, {"rules": rules}, group=f"{RBAC}/v1")
        self.bind(name, {"kind": "ServiceAccount", "name": name, "namespace": self.name})

    def grant(self, user: str, rules: Sequence[Json]) -> None:
        """Give a user a role of these rules in the namespace."""
        self.create("Role", user, {"rules": rules}, group=f"{RBAC}/v1")
        self.bind(user, {"kind": "User", "name": user, "apiGroup": RBAC})

    def bind(self, role: str, subject: Json) -> None:
        """Bind a role of the namespace to a user or a service account."""
        reference = {"apiGroup": RBAC, "kind": "Role", "name": role}
        self.create("RoleBinding", role, {"roleRef": reference, "subjects": [subject]}, group=f"{RBAC}/v1")

    def token(self, service_account: str, *, lifetime_s: int = 3600) -> str:
        """Return a new token of a service account. The API server accepts lifetimes from ten minutes."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"{self.path('serviceaccounts', service_account)}/token"
        answer = self.api.create(path, {**request, "spec": {"expirationSeconds": lifetime_s}})
        return str(answer["status"]["token"])

    def pods(self, selector: str = "") -> list[Json]:
        """Return the pods that match a label selector."""
        return self.api.list(self.path("pods"), labelSelector=selector)

    def wait_for_pod(self, name: str, condition: Callable[[Json], bool], timeout_s: float = TIMEOUT_S) -> Json:
        """Wait until a condition of a pod is true.

        Raises:
            TimeoutError: the message contains the status of the pod.
        """
        return self.api.wait_for(self.path("pods", name), condition, f"condition of pod {name}", timeout_s)

    def log(self, pod: str) -> str:
        """Return the log of the only container of a pod."""
        return self.api.text(f"{self.path('pods', pod)}/log")

    def remaining_objects(self) -> list[str]:
        """Return the kinds and names of all objects of the namespace, except events and what each namespace contains."""
        return sorted(f"{kind} {name}" for kind, name in set(self._objects()) - OWN_OBJECTS)

    def delete(self) -> None:
        """Delete the pods, wait until they are gone, and then delete the namespace, for which the controllers need more time."""
        for pod in self.pods():
            self.api.delete(self.path("pods", pod["metadata"]["name"]), grace_period_s=1)
        wait_until(lambda: not self.pods(), TIMEOUT_S, f"end of the pods of {self.name}")
        self.api.delete(f"/api/v1/namespaces/{self.name}")

    def _objects(self) -> Iterator[tuple[str, str]]:
        for path, kind in _collections(self.api, self.name):
            if kind != "Event":
                for item in self.api.list(path):
                    yield kind, item["metadata"]["name"]


@contextmanager
def created_namespace(api: KubernetesApi) -> Iterator[Namespace]:
    """Create a namespace, and delete it with all its objects at the end of the block."""
    namespace = Namespace(api, f"airflow-adaptive-test-{os.getpid()}-{next(_numbers)}")
    namespace.begin()
    try:
        yield namespace
    finally:
        namespace.delete()


def cordon(api: KubernetesApi, node: str, *, unschedulable: bool = True) -> None:
    """Keep new pods off a node, or allow them again."""
    api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": unschedulable}})


def drain(api: KubernetesApi, node: str) -> None:
    """Cordon a node and evict its pods, as `kubectl drain` does: again and again while a disruption budget refuses. Returns when the pods are gone."""
    cordon(api, node)
    pods = [pod["metadata"] for pod in api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")]
    refused = [pod for pod in pods if not _evicts(api, pod)]
    for pod in refused:
        wait_until(partial(_evicts, api, pod), TIMEOUT_S, f"eviction of {pod['name']}", KUBECTL_INTERVAL_S)
    for pod in pods:
        api.wait_until_gone(Namespace(api, pod["namespace"]).path("pods", pod["name"]))


def _evicts(api: KubernetesApi, pod: Json) -> bool:
    """Return whether the API server evicts a pod. The pod may be gone."""
    try:
        evict(api, pod["namespace"], pod["name"])
    except ApiError as error:
        if error.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_FOUND):
            raise
        return error.status == HTTPStatus.NOT_FOUND
    return True


def evict(api: KubernetesApi, namespace: str, pod: str) -> None:
    """Request the eviction of a pod, which a disruption budget may refuse."""
    metadata = {"name": pod, "namespace": namespace}
    path = f"{Namespace(api, namespace).path('pods', pod)}/eviction"
    api.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})


def wait_for_node(api: KubernetesApi, node: str, status: str) -> None:
    """Wait until the condition Ready of a node has a status: `True`, `False` or `Unknown`."""

    def reached() -> bool:
        conditions = api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
        return any(condition["type"] == "Ready" and condition["status"] == status for condition in conditions)

    wait_until(reached, TIMEOUT_S, f"condition Ready={status} of {node}")


def _collections(api: KubernetesApi, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield path and kind of each collection of a namespace that the API server can list."""
    groups = [group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"]]
    for root in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        for resource in api.get(root)["resources"]:
            if resource["namespaced"] and "list" in resource["verbs"]:
                yield f"{root}/namespaces/{namespace}/{resource['name']}", resource["kind"]


def terminated(pod: Json) -> Mapping[str, Any] | None:
    """Return the terminated state of the first container that the kubelet reported, or None."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return next((status["state"]["terminated"] for status in statuses if "terminated" in status["state"]), None)
