"""What tests of refused drivers share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._core.scheduler.history.failures import root_cause
from tests.support.kubernetes.api import ApiError
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import NO_PARAMETERS, StreamingJob
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.namespace import Namespace

TIMEOUT_S: Final = 240.0
"""Less than `deploy_timeout` of the jobs."""


async def failure_of(
    control_plane: ControlPlane,
    namespace: str,
    root: Path,
    conf: Mapping[str, str],
    parameters: KubernetesParameters = NO_PARAMETERS,
) -> str:
    """Run a job until it fails, and return the cause in the error of its task."""
    async with cluster_client(control_plane, namespace) as client:
        properties = {**pod_properties(root, control_plane.url), **conf}
        job = StreamingJob(root, properties, client, parameters=parameters)
        return str(root_cause(await asyncio.wait_for(job.run_to_end(), TIMEOUT_S)))


def accepts_driver(team: Namespace) -> bool:
    """Return whether the API server would create a driver pod."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": {"spark-role": "driver"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    try:
        team.api.create(f"{team.path('pods')}?dryRun=All", pod)
    except ApiError:
        return False
    return True
