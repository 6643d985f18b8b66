"""The composition root: the ports of a job from Airflow's connections and storage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from airflow.sdk import ObjectStoragePath

from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.hooks.asset_store import AirflowJobStore, TaskKey
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.job_directory import JobDirectory
from airflow_adaptive.runtime.loop import Ports
from airflow_adaptive.runtime.storage import Storage
from airflow_adaptive.spark.address import AddressError

log = logging.getLogger(__name__)

TRY_AGAIN = timedelta(seconds=5)
"""Between two attempts to reach what Airflow knows."""


def job_directory(base: str, job: str) -> JobDirectory:
    """The directory of a job; blocks on Airflow's connections.

    Args:
        base: URI of the folder of all job directories, `s3://connection@bucket/folder` say.
        job: id of the job.
    """
    scheme, separator, rest = base.partition("://")
    local = rest if separator and scheme == "file" else base
    if not local.startswith("/") and (not separator or scheme == "file"):
        # Worker, triggerer and cluster would each find another folder there.
        raise ValueError(f"job_directory {base!r} is not absolute: write file:///folder, or s3://bucket/folder")
    path = ObjectStoragePath(base)
    return JobDirectory(Storage(path.fs, path.path), job)


@asynccontextmanager
async def world(conn_id: str, base: str, job: str, task: TaskKey, patience: timedelta) -> AsyncIterator[Ports]:
    """Everything a loop needs of the world, for as long as it runs.

    Args:
        conn_id: Airflow connection of the cluster.
        base: URI of the folder of all job directories.
        job: id of the job.
        task: that its XComs belong to.
        patience: how long to try again. Airflow says "not defined" of a connection also when its API does not answer.

    Raises:
        AddressError: there is no such connection, or it does not describe a cluster.
    """
    ports = await _patiently(patience, conn_id, base, job, task)
    try:
        yield ports
    finally:
        await ports.cluster.close()


async def _patiently(patience: timedelta, conn_id: str, base: str, job: str, task: TaskKey) -> Ports:
    clock = SystemClock()
    deadline = clock.now() + patience
    while True:
        try:
            return await asyncio.to_thread(_ports, conn_id, base, job, task)
        except AddressError as error:
            if clock.now() >= deadline:
                raise
            log.warning("Trying again: %s", error)
            await clock.sleep(TRY_AGAIN.total_seconds())


def _ports(conn_id: str, base: str, job: str, task: TaskKey) -> Ports:
    clock = SystemClock()
    return Ports(
        channel=job_directory(base, job),
        store=AirflowJobStore(job, task, clock),
        clock=clock,
        cluster=AdaptiveSparkHook(conn_id).cluster(),  # last: nothing can fail any more and leave it open
    )
