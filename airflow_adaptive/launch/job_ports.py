"""The composition root: the ports of a job from Airflow's connections and storage."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from airflow.sdk import ObjectStoragePath

from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.launch.process_resources import Process
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.journal.job_directory import JobDirectory
from airflow_adaptive.runtime.journal.storage import Storage
from airflow_adaptive.runtime.loop import Ports
from airflow_adaptive.spark.address import AddressError
from airflow_adaptive.stores.asset_store import AirflowJobStore
from airflow_adaptive.stores.rescale_callback import Announcer, AnnouncingStore
from airflow_adaptive.stores.task_xcoms import TaskKey

Found = TypeVar("Found")

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
async def job_ports(
    conn_id: str,
    base: str,
    job: str,
    task: TaskKey,
    patience: timedelta,
    on_rescale: Mapping[str, Any] | None = None,
) -> AsyncIterator[Ports]:
    """Everything a loop needs of the world, for as long as it runs.

    Args:
        conn_id: Airflow connection of the cluster.
        base: URI of the folder of all job directories.
        job: id of the job.
        task: that its XComs belong to.
        patience: how long to try again. Airflow says "not defined" of a connection also when its API does not answer.
        on_rescale: `path` and `kwargs` of the callback that is told of rescales, None without one.

    Raises:
        AddressError: there is no such connection, or it does not describe a cluster.
    """
    process, hook = Process.current(), AdaptiveSparkHook(conn_id)
    address, channel = await _patiently(patience, process, lambda: (hook.address(), job_directory(base, job)))
    silent = AirflowJobStore(job, task, process.clock, process.traffic)
    store = silent if on_rescale is None else AnnouncingStore(silent, Announcer(on_rescale, job, task))
    try:
        async with process.cluster(address) as (cluster, shared):
            yield Ports(
                cluster=cluster,
                channel=channel,
                store=store,
                clock=SystemClock(),
                shared=shared,
                files=process.files,
            )
        await store.finish()
    finally:
        store.close()


async def _patiently(patience: timedelta, process: Process, find: Callable[[], Found]) -> Found:
    deadline = process.clock.now() + patience
    while True:
        try:
            return await process.traffic.read(find)
        except AddressError as error:
            if process.clock.now() >= deadline:
                raise
            log.warning("Trying again: %s", error)
            await process.clock.sleep(TRY_AGAIN.total_seconds())
