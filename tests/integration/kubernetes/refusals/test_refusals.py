"""Jobs that a real cluster cannot run: each fails with one error that names the cause and the remedy, before `deploy_timeout`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.kubernetes_api import ConnectionApiSource
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from airflow_adaptive._clusters.kubernetes.prerequisites import PERMISSIONS
from airflow_adaptive._core.ports import ClusterRefusedError, ClusterUnreachableError
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.accounts.manifests import AIRFLOW
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.refusals import accepts_driver, failure_of
from tests.support.kubernetes.client.streaming_job import TIMEOUT_S as STORY_TIMEOUT_S
from tests.support.kubernetes.client.streaming_job import StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.control_plane import ControlPlane, Credentials
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace
from tests.support.servers.empty_registry import empty_registry
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.asyncio

IMAGE = "spark.kubernetes.container.image"
CLAIM = "spark.kubernetes.driver.volumes.persistentVolumeClaim.data"
EXECUTOR_IMAGE = "spark.kubernetes.executor.container.image"
EXECUTOR_SECRET = "spark.kubernetes.executor.secrets.no-such-secret"
WITHOUT_SECRET = {
    "spec": {
        "volumes": [{"name": "keys", "secret": {"secretName": "no-such-secret"}}],
        "containers": [{"name": "driver", "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}],
    }
}
"""Only the events of the pod explain why the driver waits."""
POLICIES = "/apis/admissionregistration.k8s.io/v1"


@pytest.mark.parametrize(
    ("conf", "driver_template", "causes"),
    [
        ({IMAGE: "{registry}/team/spark:1"}, None, ["/team/spark:1' cannot be pulled", "correct `image`"]),
        ({IMAGE: "No:Valid:Name"}, None, ["'No:Valid:Name' cannot be pulled: InvalidImageName", "correct `image`"]),
        (
            {f"{CLAIM}.options.claimName": "no-such-claim", f"{CLAIM}.mount.path": "/data"},
            None,
            ['persistentvolumeclaim "no-such-claim" not found', "create what is missing"],
        ),
        ({}, WITHOUT_SECRET, ['FailedMount: MountVolume.SetUp failed for volume "keys"', "create what is missing"]),
        ({EXECUTOR_IMAGE: "{registry}/team/spark:1"}, None, ["-exec-1 cannot start: the image 'localhost:"]),
        (
            {EXECUTOR_SECRET: "/keys"},
            None,
            ["-exec-1 cannot start: FailedMount: ", '"no-such-secret" not found'],
        ),
    ],
    ids=["image", "name of the image", "claim", "volume", "image of executors", "volume of executors"],
)
async def test_a_driver_that_cannot_start_fails_the_task_with_its_cause(
    kubernetes_cluster: KubernetesCluster,
    team: Namespace,
    tmp_path: Path,
    conf: dict[str, str],
    driver_template: dict[str, Any] | None,
    causes: list[str],
) -> None:
    parameters = KubernetesParameters(driver_pod_template=driver_template)
    with empty_registry() as registry:
        conf = {name: value.format(registry=registry) for name, value in conf.items()}
        message = await failure_of(kubernetes_cluster.control_plane, team.name, tmp_path / "job", conf, parameters)
    assert [cause for cause in causes if cause not in message] == [], message


INIT_CONTAINER = {
    "name": "wait-for-db",
    "image": SPARK,
    "command": ["/bin/sh", "-c", "echo looking for db; echo 'no route to db' >&2; exit 3"],
}


@pytest.mark.parametrize(
    ("role", "cause"),
    [
        ("driver", "the init container 'wait-for-db' failed: exit code 3"),
        ("executor", "the container 'wait-for-db' of an executor ended with exit code 3"),
    ],
)
async def test_an_init_container_that_fails_is_named_with_its_output(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path, role: str, cause: str
) -> None:
    control_plane, root = kubernetes_cluster.control_plane, tmp_path / "job"
    template = {"spec": {"initContainers": [INIT_CONTAINER]}}
    parameters = KubernetesParameters(
        driver_pod_template=template if role == "driver" else None,
        executor_pod_template=template if role == "executor" else None,
    )
    async with cluster_client(control_plane, team.name) as client:
        job = StreamingJob(root, pod_properties(root, control_plane.url), client, parameters=parameters)
        async with job.running() as loop:

            async def is_named() -> bool:
                return any(cause in str(view.history.decisions) for view in job.store.views)

            await wait_until_async(is_named, STORY_TIMEOUT_S, cause)
            if role == "driver":
                assert "no route to db" in str(loop.state.failures)
            else:
                assert loop.driver is not None
                assert "no route to db" in (await client.driver_log(loop.driver)).waits
            await job.cancel(loop)


async def test_an_account_of_the_driver_without_permissions_fails_the_task(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
) -> None:
    """Only the log of the driver contains the answer of the API server."""
    conf = {"spark.kubernetes.authenticate.driver.serviceAccountName": "default"}
    message = await failure_of(kubernetes_cluster.control_plane, team.name, tmp_path / "job", conf)
    assert f'User "system:serviceaccount:{team.name}:default" cannot ' in message
    assert "bind the Role of docs/kubernetes/driver-account.yaml" in message


async def test_a_missing_namespace_fails_the_task(kubernetes_cluster: KubernetesCluster, tmp_path: Path) -> None:
    message = await failure_of(kubernetes_cluster.control_plane, "absent", tmp_path / "job", {})
    assert 'namespaces "absent" not found: create the namespace, or correct `namespace`' in message


async def test_a_driver_that_an_admission_policy_refuses_fails_the_task(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
) -> None:
    with admission_policy(team):
        message = await failure_of(kubernetes_cluster.control_plane, team.name, tmp_path / "job", {})
    assert "ValidatingAdmissionPolicy 'no-drivers'" in message
    assert "drivers need the label cost-center" in message


@contextmanager
def admission_policy(team: Namespace) -> Iterator[None]:
    """Refuse driver pods in a namespace. Returns when the API server has loaded the policy."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    rule = {
        "expression": "!has(object.metadata.labels) || !('spark-role' in object.metadata.labels)",
        "message": "drivers need the label cost-center",
    }
    policy: dict[str, Any] = {"matchConstraints": {"resourceRules": [pods]}, "validations": [rule]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": team.name}}
    binding = {
        "policyName": "no-drivers",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    kinds = {"ValidatingAdmissionPolicy": policy, "ValidatingAdmissionPolicyBinding": binding}
    collections = {
        "ValidatingAdmissionPolicy": f"{POLICIES}/validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": f"{POLICIES}/validatingadmissionpolicybindings",
    }
    for kind, spec in kinds.items():
        manifest = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "no-drivers"}}
        team.api.create(collections[kind], {**manifest, "spec": spec})
    try:
        wait_until(lambda: not accepts_driver(team), 180, "the admission policy")
        yield
    finally:
        for collection in collections.values():
            team.api.delete(f"{collection}/no-drivers")


class Connection:
    """A connection of type `kubernetes`, whose kubeconfig a test can replace."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.control_plane = control_plane
        self.address = KubernetesAddress(server=control_plane.url, namespace=namespace, max_cpu_millicores=4000)
        self.file = Path()

    def set(self, credentials: Credentials) -> None:
        self.file = self.control_plane.write_kubeconfig("connection", credentials)

    async def read(self) -> Mapping[str, Any]:
        return {"in_cluster": False, "disable_verify_ssl": False, "kube_config_path": str(self.file)}

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        source = ConnectionApiSource("kubernetes_default", self.read, self.address)
        client = Client(self.address, source, SystemClock())
        try:
            yield client
        finally:
            await client.close()


async def test_an_expired_client_certificate_is_named(kubernetes_cluster: KubernetesCluster, team: Namespace) -> None:
    connection = Connection(kubernetes_cluster.control_plane, team.name)
    certificates = kubernetes_cluster.control_plane.certificates
    connection.set(Credentials(certificate=certificates.user("me", expires_in=timedelta(hours=-1))))
    async with connection.client() as client:
        with pytest.raises(
            ClusterRefusedError, match="client certificate of connection 'kubernetes_default' expired at 20"
        ):
            await client.check()


async def test_each_missing_verb_is_named_with_the_user(kubernetes_cluster: KubernetesCluster, team: Namespace) -> None:
    connection = Connection(kubernetes_cluster.control_plane, team.name)
    connection.set(kubernetes_cluster.control_plane.user("powerless"))
    missing = ", ".join(f"{verb} {resource}" for resource, verb in PERMISSIONS)
    async with connection.client() as client:
        with pytest.raises(ClusterRefusedError) as raised:
            await client.check()
    assert f"the user 'powerless' may not {missing} in namespace '{team.name}'" in str(raised.value)


@pytest.mark.long
async def test_a_token_that_the_api_server_rejects_is_replaced(
    kubernetes_cluster: KubernetesCluster, team: Namespace
) -> None:
    """The service account is deleted and created again, so its old token is not valid any more."""
    connection = Connection(kubernetes_cluster.control_plane, team.name)
    connection.set(Credentials(token=team.token(AIRFLOW)))
    async with connection.client() as client:
        await client.check()
        team.api.delete(team.path("serviceaccounts", AIRFLOW))

        async def refuses() -> bool:
            try:
                await client.clean_up("none")
            except ClusterUnreachableError as error:
                return "replace the credentials of connection 'kubernetes_default'" in str(error)
            return False

        await wait_until_async(refuses, 180, "the rejection of the token")
        team.create("ServiceAccount", AIRFLOW, {})
        connection.set(Credentials(token=team.token(AIRFLOW)))

        async def accepts() -> bool:
            try:
                await client.clean_up("none")
            except ClusterUnreachableError:
                return False
            return True

        await wait_until_async(accepts, 180, "new credentials")
