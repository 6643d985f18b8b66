"""A standby on real nodes takes over from a driver that is deleted by force, and from one whose node is drained."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.scheduler.timeline import ReasonCode
from tests.integration.kubernetes.test_job_directories import team_of
from tests.lab.faults.kubernetes.cluster_job import ClusterJob, created_job
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import cordon, drain


def standby_on_another_node(job: ClusterJob) -> str:
    """Wait until a standby is prepared on another node than that of the driver, and return its pod."""
    pod = job.wait_for("a standby", lambda: job.standby_pod)
    assert job.node_of(pod).name != job.driver_node.name
    return pod


@pytest.mark.long
@pytest.mark.timeout(900)
def test_standby_takes_over_on_another_node(kubernetes_cluster: KubernetesCluster, tmp_path: Path) -> None:
    """Nothing proves the end of a pod that is deleted by force before its lease has expired. A node that is drained announces the end."""
    with (
        team_of(kubernetes_cluster) as team,
        created_job(kubernetes_cluster, team, tmp_path / "job", {"standby": "driver+executors"}) as job,
    ):
        job.deploy()
        job.run_well()
        second = standby_on_another_node(job)
        job.strike(lambda: team.api.delete(job.driver_path, grace_period_s=0))
        job.wait_for_driver(epoch=2)
        job.recover()
        assert job.driver_pod == second
        third, drained = standby_on_another_node(job), job.driver_node.name
        try:
            job.strike(lambda: cordon(team.api, drained))
            drain(team.api, drained)
            job.wait_for_driver(epoch=3)
            job.recover()
            assert (job.driver_pod, job.node_of(third).name == drained) == (third, False)
            assert ReasonCode.DRIVER_MOVED in job.reasons()
        finally:
            cordon(team.api, drained, unschedulable=False)
        job.wait_for("one more standby", lambda: job.standby_pod)
        job.finish().check()
