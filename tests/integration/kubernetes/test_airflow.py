"""Jobs of a real Airflow with the accounts of the documentation, and with no other permission."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from airflow_adaptive._core.ports import ClusterClient, DriverSubmission
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.kubernetes.accounts.airflow_job import SECRET, AirflowJob
from tests.support.kubernetes.accounts.audit import requested
from tests.support.kubernetes.accounts.manifests import (
    AIRFLOW,
    AIRFLOW_ACCOUNT,
    DRIVER,
    DRIVER_ACCOUNT,
    NODES,
    access_to_nodes,
    apply_accounts,
    granted,
)
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.control_plane import Credentials
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.timeout(900)

TIMEOUT_S = 240.0

FAILING = """
import os
print("the last output of the driver, token=" + os.environ["DB_LOGIN"], flush=True)
import no_such_module
"""

NOT_ALWAYS = {"delete pods", "deletecollection pods", "deletecollection configmaps"}
"""Requests that Spark does not always send. It deletes a pod by its name only when an executor ends before the driver stops it; it deletes
the others as collections when the driver ends. Spark gives these up if its Kubernetes client gets no connection within 10 s; the objects then
end with the pod of the driver."""

ACCOUNTS = [f"{kind} {name}" for kind in ("Role", "RoleBinding", "ServiceAccount") for name in (AIRFLOW, DRIVER)]


@pytest.fixture(scope="module")
def namespaces(kubernetes_cluster: KubernetesCluster) -> Iterator[list[Namespace]]:
    """Two namespaces with the accounts of the documentation. The first account of Airflow may read nodes."""
    control_plane = kubernetes_cluster.control_plane
    with (
        control_plane.api(control_plane.admin) as api,
        created_namespace(api) as first,
        created_namespace(api) as second,
    ):
        for namespace in (first, second):
            apply_accounts(namespace)
        second.set_quota({"requests.cpu": "2", "requests.memory": "4Gi"})
        with access_to_nodes(api, first):
            yield [first, second]


@pytest.fixture(scope="module")
def jobs(
    kubernetes_cluster: KubernetesCluster, namespaces: list[Namespace], tmp_path_factory: pytest.TempPathFactory
) -> list[AirflowJob]:
    """A job with access to nodes, a job without, and a job whose script cannot be loaded."""
    folder, control_plane = tmp_path_factory.mktemp("jobs"), kubernetes_cluster.control_plane
    script = folder / "failing.py"
    script.write_text(FAILING)
    nodes, quota = namespaces
    return [
        AirflowJob("Copy_With_Nodes", folder / "nodes", control_plane, nodes),
        AirflowJob("copy", folder / "copy", control_plane, quota, {"parallelism": 1}),
        AirflowJob("failing", folder / "failing", control_plane, quota, {"parallelism": 1, "application": str(script)}),
    ]


@pytest.fixture(scope="module")
def airflow(jobs: list[AirflowJob], tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowUnderTest]:
    """An Airflow on which the jobs have ended."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    for job in jobs:
        job.write_dag(home / "dags")
    connections = {name: value for job in jobs for name, value in job.connections.items()}
    with AirflowUnderTest(home, home / "dags", env=connections) as running:
        run(jobs, running)
        yield running


def run(jobs: list[AirflowJob], airflow: AirflowUnderTest) -> None:
    """Run all jobs to their end. The first job grows to two executors, and shrinks."""
    growing, steady, failing = jobs
    for job in jobs:
        job.feed()
        job.start(airflow)
    growing.wait_parallelism(airflow, 2)
    growing.require(airflow, 1)
    steady.wait_rows()
    steady.suspend(airflow)
    growing.wait_parallelism(airflow, 1)
    growing.feed()
    growing.wait_rows()
    growing.suspend(airflow)
    growing.wait_end(airflow, "success")
    steady.wait_end(airflow, "success")
    failing.wait_end(airflow, "failed")


@pytest.fixture(scope="module")
def repeated(airflow: AirflowUnderTest, kubernetes_cluster: KubernetesCluster, namespaces: list[Namespace]) -> None:
    """Drivers that Airflow's account has submitted twice, as after a lost response, and that wait for a volume."""
    asyncio.run(submit_drivers(kubernetes_cluster, namespaces[0]))


async def submit_drivers(cluster: KubernetesCluster, namespace: Namespace) -> None:
    conf = {"spark.kubernetes.container.image": SPARK, "spark.kubernetes.node.selector.missing": "node"}
    submission = DriverSubmission(
        name="twice", epoch=1, nonce="n", script="/run.py", conf=conf, secret_env={"DB_LOGIN": SECRET}
    )
    credentials = Credentials(token=namespace.token(AIRFLOW))
    async with cluster_client(cluster.control_plane, namespace.name, credentials=credentials) as client:
        assert await client.submit(submission) == await client.submit(submission)
        await client.clean_up("twice")
        await wait_for_missing_volume(client)
        await client.clean_up("unmounted")


async def wait_for_missing_volume(client: ClusterClient) -> None:
    """Submit a driver whose volume needs a Secret that does not exist, and wait until the client names the Secret."""
    volumes = [{"name": "keys", "secret": {"secretName": "no-such-secret"}}]
    container = {"volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}  # The kubelet ignores other volumes.
    template = {"spec": {"volumes": volumes, "containers": [container]}}
    conf = {"spark.kubernetes.container.image": SPARK}
    submission = DriverSubmission(
        name="unmounted", epoch=1, nonce="n", script="/run.py", conf=conf, driver_template=json.dumps(template)
    )
    submitted = await client.submit(submission)

    async def is_named() -> bool:
        return 'secret "no-such-secret" not found' in (await client.status(submitted)).message

    await wait_until_async(is_named, TIMEOUT_S, "the cause of the wait")


def test_each_row_is_written_once(airflow: AirflowUnderTest, jobs: list[AirflowJob]) -> None:
    for job in jobs[:2]:
        job.check_output()


def test_no_object_remains(airflow: AirflowUnderTest, repeated: None, namespaces: list[Namespace]) -> None:
    for namespace, others in zip(namespaces, ([], ["ResourceQuota quota"]), strict=True):
        expected = sorted([*ACCOUNTS, *others])
        wait_until(lambda: namespace.remaining_objects() == expected, TIMEOUT_S, "the end of all objects")  # noqa: B023


def test_account_of_airflow_has_exactly_the_verbs_that_it_needs(
    repeated: None, kubernetes_cluster: KubernetesCluster, namespaces: list[Namespace]
) -> None:
    log = kubernetes_cluster.control_plane.audit_log
    assert requested(log, AIRFLOW, namespaces) == granted(AIRFLOW_ACCOUNT)
    assert requested(log, AIRFLOW, namespaces, cluster=True) == granted(NODES)


def test_account_of_the_driver_has_exactly_the_verbs_that_it_needs(
    airflow: AirflowUnderTest, kubernetes_cluster: KubernetesCluster, namespaces: list[Namespace]
) -> None:
    log, grants = kubernetes_cluster.control_plane.audit_log, granted(DRIVER_ACCOUNT)
    assert grants - NOT_ALWAYS <= requested(log, DRIVER, namespaces) <= grants
    assert requested(log, DRIVER, namespaces, cluster=True) == set()


def test_task_log_has_the_commands_for_the_logs_and_the_spark_ui(
    airflow: AirflowUnderTest, jobs: list[AirflowJob]
) -> None:
    for job in jobs:
        log, namespace = job.log(airflow), job.namespace.name
        assert f"kubectl --namespace {namespace} logs " in log
        assert f"kubectl --namespace {namespace} port-forward " in log


def test_task_log_has_the_last_output_of_a_driver_that_ended_normally(
    airflow: AirflowUnderTest, jobs: list[AirflowJob]
) -> None:
    assert " stderr | " in jobs[0].log(airflow)


def test_task_log_has_the_last_output_of_a_driver_that_failed(
    airflow: AirflowUnderTest, jobs: list[AirflowJob]
) -> None:
    log = jobs[2].log(airflow)
    assert "the last output of the driver, token=***" in log
    assert "ModuleNotFoundError: No module named 'no_such_module'" in log
    assert "job 'failing' failed: ModuleNotFoundError: No module named 'no_such_module' (failing.py:4)" in log
    assert SECRET not in log
