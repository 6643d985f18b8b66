"""Runs a bounded job to its end on a real cluster, without Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Finished
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.local.cluster import HOST, LocalCluster
from tests.lab.fakes.job_store import FakeStore


def end_of_job(
    cluster: LocalCluster,
    folder: Path,
    job: str,
    code: str,
    *,
    parallelism: int = 1,
    conf: Mapping[str, str] | None = None,
    memory_mb: int = 512,
    options: Mapping[str, Any] | None = None,
) -> Finished:
    """Run a job to its end, and return how it ended.

    Args:
        cluster: cluster with room for a driver and an executor.
        folder: folder of the job directories and of the script; the only argument of the script.
        job: id of the job.
        code: script of the job.
        parallelism: parallelism of the job.
        conf: Spark properties.
        memory_mb: memory of the driver and of each executor, in MiB.
        options: further options of the job.
    """
    script = folder / f"{job}.py"
    script.write_text(code)

    async def to_the_end() -> Finished:
        directory = FsspecJobDirectory(Storage.at(str(folder / "jobs")), job)
        staged = await stage(directory, script)
        spec = JobSpec(
            graph=JobGraph.single(job, ParallelismRange(parallelism, parallelism), max_parallelism=max(2, parallelism)),
            options=Options.of({"resource_stabilization_timeout": "1 s", **(options or {})}),
            directory=directory.uri,
            script=staged.script,
            py_files=staged.py_files,
            args=(str(folder),),
            conf=dict(conf or {}),
            attempt=uuid4().hex,  # an end is the end of its attempt
            driver=DriverShape(memory_mb=memory_mb),
            executor=ExecutorShape(memory_mb=memory_mb),
        )
        client = StandaloneCluster(_address(cluster))
        ports = Ports(cluster=client, directory=directory, store=FakeStore(), clock=SystemClock())
        ended = (await Loop(spec, ports).run()).current
        await client.close()
        assert isinstance(ended, Finished)
        return ended

    return asyncio.run(to_the_end())


def _address(cluster: LocalCluster) -> ClusterAddress:
    port, ui_port, rest_port = (
        urlsplit(url).port or 0 for url in (cluster.master_url, cluster.ui_url, cluster.rest_url)
    )
    return ClusterAddress(masters=(MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port),))
