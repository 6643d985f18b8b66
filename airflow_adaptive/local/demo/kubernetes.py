"""The demo in a namespace of a Kubernetes cluster that the user names, such as kind or minikube.

The quota of the namespace takes the place of the workers of a standalone cluster: it gives and takes slots.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, ApiException
from kubernetes_asyncio.config import ConfigException

from airflow_adaptive.local.demo.cluster import ClusterChange, DemoEnvironmentError, KubernetesOptions
from airflow_adaptive.local.waiting import wait_until

ACCOUNT: Final = "spark-driver"
QUOTA: Final = "slots"

RULES: Final = (
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["create", "get", "list", "watch", "patch", "delete", "deletecollection"],
    },
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["create", "deletecollection"],
    },
)
"""Permissions of the account of drivers."""

RBAC: Final = "rbac.authorization.k8s.io"

SPARK_GROUP: Final = 185
"""Group of the folders in Spark's own image."""

END_TIMEOUT_S: Final = 180.0
"""Maximum time until the namespace and all its objects are gone."""


class KubernetesDemo:
    """Creates a namespace with a quota, and deletes it with all its objects."""

    dag = "flight_departures_kubernetes"

    def __init__(self, options: KubernetesOptions, directory: Path) -> None:
        """Read the kubeconfigs.

        Args:
            options: what the user chooses.
            directory: working directory of the demo. Each node of the cluster must have it at the same path.

        Raises:
            DemoEnvironmentError: no kubeconfig has such a context.
        """
        self._options = options
        self._directory = directory
        self._api = DemoKubernetesApi(options.kubeconfigs, options.context)
        self._namespace = f"airflow-adaptive-demo-{secrets.token_hex(3)}"

    def __enter__(self) -> Self:
        self._api.create("/api/v1/namespaces", manifest("v1", "Namespace", self._namespace))
        try:
            for collection, created in self._objects().items():
                self._api.create(f"{collection}", created)
        except BaseException:
            self._delete_namespace()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._delete_namespace()

    @property
    def description(self) -> str:
        """One line about the cluster that the user can open."""
        return f"namespace {self._namespace} of {self._api.server} (context {self._options.context})"

    @property
    def airflow_environment(self) -> Mapping[str, str]:
        """Environment variables of Airflow with its connections to the cluster."""
        spark = {
            "conn_type": "spark",
            "host": f"k8s://{self._api.server}",
            "extra": {"namespace": self._namespace, "conf": dict(self._options.conf)},
        }
        credentials = {
            "conn_type": "kubernetes",
            "extra": {
                "kube_config_path": str(self._api.kubeconfig),
                "cluster_context": self._options.context,
            },
        }
        return {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(credentials),
        }

    def parameters(self, flights: Path) -> Mapping[str, str]:
        """Return the parameters of the DAG run, and write the pod template. The pods write files as the user of this process."""
        template = self._directory / "pod.json"
        context = {"runAsUser": os.getuid(), "runAsGroup": 0, "supplementalGroups": [SPARK_GROUP]}
        template.write_text(json.dumps({"spec": {"securityContext": context}}))
        return {
            "directory": str(flights),
            "image": self._options.image,
            "service_account": ACCOUNT,
            "pod_template": str(template),
        }

    def generator_target(self, flights: Path) -> Sequence[str]:
        """Return the directory that the job reads."""
        return ("--directory", str(flights / "input"))

    def changes(self) -> Sequence[ClusterChange]:
        """Return the changes in their order."""
        return (
            ClusterChange(
                title="The job waits for resources; the quota allows the driver and one executor",
                apply=lambda: self._set_quota(2),
                slots=1,
            ),
            ClusterChange(
                title="The quota allows a second executor: the job scales up",
                apply=lambda: self._set_quota(3),
                slots=2,
            ),
            ClusterChange(
                title="The quota shrinks and an executor pod is deleted: the job continues with the remaining slot",
                apply=self._take_executor,
                slots=1,
            ),
            ClusterChange(
                title="The driver pod is deleted: the job restarts after a backoff",
                apply=lambda: self._delete_pod("driver"),
                slots=1,
            ),
        )

    def add_two_slots(self) -> None:
        """Allow a driver and three executors."""
        self._set_quota(4)

    def _objects(self) -> Mapping[str, Json]:
        root, rbac = self._path(), f"/apis/{RBAC}/v1/namespaces/{self._namespace}"
        role = {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT}
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self._namespace}
        return {
            f"{root}/serviceaccounts": manifest("v1", "ServiceAccount", ACCOUNT),
            f"{rbac}/roles": manifest(f"{RBAC}/v1", "Role", ACCOUNT, rules=RULES),
            f"{rbac}/rolebindings": manifest(f"{RBAC}/v1", "RoleBinding", ACCOUNT, roleRef=role, subjects=[subject]),
            f"{root}/resourcequotas": quota(0),
        }

    def _set_quota(self, pods: int) -> None:
        self._api.replace(f"{self._path()}/resourcequotas/{QUOTA}", quota(pods))

    def _take_executor(self) -> None:
        self._set_quota(2)
        self._delete_pod("executor")

    def _delete_pod(self, role: str) -> None:
        """Delete the newest pod of a role."""
        found = self._api.get(f"{self._path()}/pods?labelSelector=spark-role%3D{role}")
        pods = sorted((found or {"items": []})["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        if not pods:
            raise DemoEnvironmentError(f"the namespace {self._namespace} has no {role} pod")
        self._api.delete(f"{self._path()}/pods/{pods[-1]['metadata']['name']}")

    def _delete_namespace(self) -> None:
        path = self._path()
        self._api.delete(path)
        wait_until(lambda: self._api.get(path) is None, END_TIMEOUT_S, f"end of namespace {self._namespace}", 1.0)

    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}"


def manifest(version: str, kind: str, name: str, **content: Any) -> Json:
    """Return an object."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


def quota(pods: int) -> Json:
    """Return the quota of the namespace: one pod for each slot, and one for the driver."""
    return manifest("v1", "ResourceQuota", QUOTA, spec={"hard": {"pods": str(pods)}})


Json = Mapping[str, Any]

HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}

TIMEOUT_S = 30.0

NOT_FOUND = 404


class DemoKubernetesApi:
    """Sends one request at a time.

    Attributes:
        kubeconfig: the file that contains the context.
        server: URL of the API server.
    """

    def __init__(self, kubeconfigs: Sequence[Path], context: str) -> None:
        """Read the kubeconfigs.

        Raises:
            DemoEnvironmentError: no kubeconfig has such a context.
        """
        self._context = context
        self.kubeconfig, self.server = self._find(kubeconfigs)

    def get(self, path: str) -> Json | None:
        """Return an object or a collection, None if it does not exist. Raises `DemoEnvironmentError`."""
        return asyncio.run(self._request("GET", path))

    def create(self, path: str, manifest: Json) -> None:
        """Create an object. Raises `DemoEnvironmentError`."""
        asyncio.run(self._request("POST", path, manifest))

    def replace(self, path: str, manifest: Json) -> None:
        """Replace an object. Raises `DemoEnvironmentError`."""
        asyncio.run(self._request("PUT", path, manifest))

    def delete(self, path: str) -> None:
        """Delete an object, which may exist for some time. An object that does not exist is no error. Raises `DemoEnvironmentError`."""
        asyncio.run(self._request("DELETE", path))

    def _find(self, kubeconfigs: Sequence[Path]) -> tuple[Path, str]:
        """Return the first kubeconfig that contains the context, and the URL of its API server."""
        errors: list[str] = []
        for file in kubeconfigs:
            try:
                return file, asyncio.run(self._server(file))
            except (ConfigException, OSError, TypeError, yaml.YAMLError) as error:
                errors.append(f"{file}: {error}")
        raise DemoEnvironmentError(
            f"no kubeconfig has the context {self._context!r} ({'; '.join(errors)}): correct --context (make: CONTEXT=...), or name the file with "
            "--kubeconfig or KUBECONFIG"
        )

    async def _server(self, kubeconfig: Path) -> str:
        async with await self._client(kubeconfig) as client:
            return str(client.configuration.host)

    async def _client(self, kubeconfig: Path) -> ApiClient:
        return await config.new_client_from_config(str(kubeconfig), self._context)

    async def _request(self, method: str, path: str, body: Json | None = None) -> Json | None:
        async with await self._client(self.kubeconfig) as client:
            try:
                response = await client.call_api(
                    path,
                    method,
                    header_params=dict(HEADERS),
                    body=body,
                    auth_settings=["BearerToken"],
                    _preload_content=False,
                    _request_timeout=TIMEOUT_S,
                )
                status, text = response.status, await response.text()
            except (ApiException, aiohttp.ClientError, TimeoutError) as error:
                raise DemoEnvironmentError(
                    f"the API server {self.server} of context {self._context!r} in {self.kubeconfig} cannot be reached: {error}"
                ) from error
        if status == NOT_FOUND and method in ("GET", "DELETE"):
            return None
        answer: Json = json.loads(text) if text.startswith("{") else {"message": text}
        if not response.ok:
            raise DemoEnvironmentError(f"{method} {path}: {answer.get('message')}")
        return answer
