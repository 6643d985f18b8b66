"""The resources of a job disappear: its quota, the room for its executors, its image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.faults.kubernetes.accounts import OBJECTS, airflow_account
from tests.lab.faults.kubernetes.cluster_job import EXECUTORS, ClusterJob, created_job
from tests.lab.faults.kubernetes.conftest import CLIENT_TIMEOUT_S
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, cordon
from tests.support.servers.empty_registry import empty_registry

pytestmark = pytest.mark.timeout(900)

Record = Callable[..., None]


def test_quota_below_usage(job: ClusterJob, record: Record) -> None:
    """Running pods continue. An executor that ends is not replaced, and the refused requests do not end the driver."""
    job.strike(lambda: job.team.set_quota({"pods": 2}))
    job.recover(parallelism=2)
    job.team.api.delete(job.team.path("pods", job.team.pods(EXECUTORS)[0]["metadata"]["name"]))
    job.feed()
    job.recover(parallelism=1)
    job.team.set_quota({"pods": 3})
    job.feed()
    job.recover(parallelism=2)
    assert job.epoch == 1
    record("quota below usage", "then an executor pod is deleted", job.finish("ResourceQuota quota"))


def test_executors_that_stay_pending(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path, record: Record
) -> None:
    """Airflow may not read the nodes, so it learns only from the Pending executor that the cluster has no room."""
    team.set_quota({"pods": 3})
    options: dict[str, Any] = {"credentials": airflow_account(team), "timeout_s": CLIENT_TIMEOUT_S}
    with created_job(kubernetes_cluster, team, tmp_path / "job", **options) as job:
        job.deploy()
        job.request(1)
        job.run_well(parallelism=1)
        for name in job.node_names:
            cordon(team.api, name)
        job.strike(lambda: job.request(2))
        job.wait_for("a Pending executor", lambda: len(team.pods(EXECUTORS)) == 2)
        job.recover()
        job.wait_for("one executor", lambda: job.is_executing(1) and len(team.pods(EXECUTORS)) == 1)
        assert job.epoch == 1
        record(
            "executors Pending forever",
            "no node accepts pods, while the job grows",
            job.finish(*OBJECTS, "ResourceQuota quota"),
        )


def test_image_that_cannot_be_pulled(job: ClusterJob, record: Record) -> None:
    """A redeployment names an image that does not exist, and the next one corrects it."""
    job.strike(lambda: None)
    with empty_registry() as registry:
        job.deploy({"spark.kubernetes.container.image": f"{registry}/absent:1"})
        job.wait_for("the failure", lambda: "DRIVER_NOT_STARTED" in job.failures())
        assert f"the image '{registry}/absent:1' cannot be pulled" in job.failures()
    job.deploy()
    job.recover(parallelism=2)
    record("image that cannot be pulled", "after a redeployment; the next one corrects the image", job.finish())


def test_namespace_that_is_deleted(job: ClusterJob, record: Record) -> None:
    """The job continues when the namespace and its account exist again."""
    api, path = job.team.api, f"/api/v1/namespaces/{job.team.name}"
    job.strike(lambda: api.delete(path))
    job.wait_for("the refusal", lambda: "SUBMISSION_REFUSED" in job.failures())
    assert job.team.name in job.failures()
    api.wait_until_gone(path)
    job.team.begin()
    job.team.create_service_account("spark")
    job.recover(parallelism=2)
    record("namespace deleted", "and created again", job.finish())
