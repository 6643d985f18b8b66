"""The composition root: the ports of a job from Airflow's connections and storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from airflow.sdk import ObjectStoragePath

from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.hooks.asset_store import AirflowJobStore, TaskKey
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.job_directory import JobDirectory
from airflow_adaptive.runtime.loop import Ports
from airflow_adaptive.runtime.storage import Storage


def job_directory(base: str, job: str) -> JobDirectory:
    """The directory of a job; blocks on Airflow's connections.

    Args:
        base: URI of the folder of all job directories, `s3://connection@bucket/folder` say.
        job: id of the job.
    """
    path = ObjectStoragePath(base)
    return JobDirectory(Storage(path.fs, path.path), job)


@asynccontextmanager
async def world(conn_id: str, base: str, job: str, task: TaskKey) -> AsyncIterator[Ports]:
    """Everything a loop needs of the world, for as long as it runs."""
    ports = await asyncio.to_thread(_ports, conn_id, base, job, task)
    try:
        yield ports
    finally:
        await ports.cluster.close()


def _ports(conn_id: str, base: str, job: str, task: TaskKey) -> Ports:
    clock = SystemClock()
    return Ports(
        channel=job_directory(base, job),
        store=AirflowJobStore(job, task, clock),
        clock=clock,
        cluster=AdaptiveSparkHook(conn_id).cluster(),  # last: nothing can fail any more and leave it open
    )
