"""The composition root: builds the ports of a job's loop from Airflow's connections and stores.

A path on an object store has the credentials of the Airflow connection in its URI (`s3://connection@bucket/folder`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from airflow.sdk import ObjectStoragePath

from airflow_adaptive._airflow.internals import (
    AirflowNotFoundException,
    AirflowSecretsBackendAccessDenied,
    connection_of,
)
from airflow_adaptive._airflow.process.deferral import finish_in_background
from airflow_adaptive._airflow.process.process_resources import DeployedJob, ProcessResources
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.rescale_callback import CallbackStore
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._core.ports import FOLDER_SEPARATOR, JOB_ID, JobKey, StoreUnavailableError, UnavailableError
from airflow_adaptive._engine.clock import Hint, SystemClock
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.journal import MayTakeOver
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from airflow_adaptive._engine.loop import Ports

log = logging.getLogger(__name__)

S3_SCHEMES: Final = ("s3a://", "s3n://")
"""Schemes of Spark for S3. Airflow registers the scheme `s3`."""

EXTRAS: Final = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "abfs", "abfss": "abfs"}
"""Scheme -> extra of airflow-adaptive that installs the Airflow provider of the object store."""


def object_storage_path(uri: str) -> ObjectStoragePath:
    """Return the path of a URI; blocks on the Airflow connection in the URI.

    Raises:
        AddressError: Airflow does not find the connection in the URI, or refuses access to the connection.
        UnavailableError: the file system cannot be used now.
        ValueError: Airflow has no access to the file system.
    """
    for scheme in S3_SCHEMES:
        if uri.startswith(scheme):
            uri = f"s3://{uri.removeprefix(scheme)}"
    try:
        return _outside_of_event_loops(lambda: _connected(uri))
    except AirflowSecretsBackendAccessDenied as error:
        raise AddressError(
            f"{uri!r}: a secrets backend denies access to the connection ({error}): give the task access to the connection"
        ) from error
    except AirflowNotFoundException as error:
        raise UndefinedConnectionError(
            f"{uri!r}: the connection in the URI is not defined ({error}): add it"
        ) from error
    except (ImportError, ValueError) as error:
        extra = EXTRAS.get(uri.partition(":")[0])
        remedy = (
            f"install airflow-adaptive[{extra}] where Airflow runs"
            if extra
            else "use an object store such as s3://, or a path"
        )
        raise ValueError(f"{uri!r} cannot be used ({error}): {remedy}") from error
    except Exception as error:  # The libraries of object stores raise exceptions of any class.
        raise UnavailableError(
            f"{uri!r} cannot be used now ({type(error).__name__}: {error}): check the connection in the URI"
        ) from error


def _connected(uri: str) -> ObjectStoragePath:
    path = ObjectStoragePath(uri)
    _ = path.fs  # Otherwise, Airflow would ignore an error of the connection, and use other credentials.
    return path


def _outside_of_event_loops(connect: Callable[[], ObjectStoragePath]) -> ObjectStoragePath:
    """Call a function in a thread without an event loop, because Airflow's provider of S3 starts an event loop to read the credentials."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return connect()
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(copy_context().run, connect).result()


Result = TypeVar("Result")


RETRY_INTERVAL = timedelta(seconds=5)
"""Interval between two attempts to read the connections."""

LIST_TIMEOUT_S: Final = 60.0
"""Seconds that the list of the directories of a fleet may take."""

LOCAL_SCHEMES: Final = ("file", "local")
"""Schemes of paths on this machine, whose URIs have no host (fsspec)."""


def job_directory(base: str, job: str) -> FsspecJobDirectory:
    """Return the directory of a job; blocks on Airflow's connections.

    Args:
        base: URI of the folder of all job directories, for example `s3://connection@bucket/folder`.
        job: name of the job.

    Raises:
        AddressError: Airflow does not find the connection in the URI, or refuses access to the connection.
        ValueError: the URI is not absolute, or Airflow has no access to the file system.
    """
    return FsspecJobDirectory(job_storage(base), job)


async def all_jobs(base: str, known: JobKey) -> list[str]:
    """Return the names of the jobs below the folder of a known job. Raises as `job_directory`, and `JobDirectoryError`.

    A folder of another fleet whose name is a hash names no task, so its jobs are left out.
    """
    access = ProcessResources.current().store_access
    storage = await access.read_connection(base, lambda: job_storage(base))
    threads = StorageThreads.of(storage.location)
    jobs, own = [], known.folder.rpartition("/")[0]
    for folder in sorted(await threads.call(lambda: storage.names(""), LIST_TIMEOUT_S, urgent=False)):
        dag_id, is_fleet, task_id = folder.partition(FOLDER_SEPARATOR)
        if folder == own:
            dag_id, task_id = known.dag_id, known.task_id
        if not is_fleet:
            jobs += [folder] if JOB_ID.fullmatch(folder) else []
        elif dag_id and task_id:
            names = await threads.call(partial(storage.names, folder), LIST_TIMEOUT_S, urgent=False)
            jobs += [JobKey(name, dag_id, task_id).name for name in sorted(names) if JOB_ID.fullmatch(name)]
    return jobs


def require_absolute(base: str) -> None:
    """Reject a relative job directory, because worker, triggerer and cluster would each use a different folder. Raises `ValueError`."""
    scheme, separator, rest = base.partition("://")
    is_local = not separator or scheme in LOCAL_SCHEMES
    if is_local and not (rest if separator else base).startswith("/"):
        raise ValueError(f"job_directory {base!r} is not absolute: write file:///folder, or s3://bucket/folder")


def job_storage(base: str) -> Storage:
    """Return the storage of a folder of job directories. Raises as `job_directory`."""
    require_absolute(base)
    path = object_storage_path(base)
    return Storage(path.fs, path.path, connection_of(path))


@asynccontextmanager
async def job_ports(
    job: DeployedJob, may_take_over: MayTakeOver, retry_period: timedelta, on_rescale: Mapping[str, Any] | None = None
) -> AsyncIterator[Ports]:
    """Open the ports of a loop, and close the ports after the loop.

    The connections are read again for `retry_period`, because Airflow reports a connection as not defined also when its API server does not answer.

    Raises:
        AddressError: the connection does not exist or does not describe a cluster.
        StoreUnavailableError: Airflow does not return the connections.
    """
    process, connections = ProcessResources.current(), job.connections
    address, storage = await _retry(retry_period, process, job, lambda: (connections.address(), job_storage(job.base)))
    arguments = (job.name, job.task, process.clock, process.store_access)
    store = AirflowJobStore(*arguments) if on_rescale is None else CallbackStore(*arguments, on_rescale)
    hint = Hint()
    store.hint = hint.give
    try:
        async with (
            process.cluster(connections, address) as (cluster, shared),
            process.brokers(connections.kafka) as brokers,
        ):
            getattr(cluster, "hints", {})[job.name] = hint  # of a cluster that reports changes by itself
            yield Ports(
                cluster=cluster,
                directory=FsspecJobDirectory(storage, job.name),
                store=store,
                clock=SystemClock(),
                shared=shared,
                files=process.files,
                brokers=brokers,
                may_take_over=may_take_over,
                hint=hint,
            )
        await store.finish()
        finish_in_background(store.publish_end())
    finally:
        store.close()


async def _retry(period: timedelta, process: ProcessResources, job: DeployedJob, read: Callable[[], Result]) -> Result:
    """Return the result of a blocking read, which other loops share. Its errors are raised only after the period."""
    deadline = process.clock.now() + period
    while True:
        try:
            return await process.connection_reads.join(
                (job.connections, job.base),
                lambda: process.store_access.read_connection(f"{job.connections.spark}, {job.base}", read),
            )
        except (AddressError, StoreUnavailableError) as error:
            if process.clock.now() >= deadline:
                raise
            log.warning("The connection cannot be used. It is read again in %s: %s", RETRY_INTERVAL, error)
            await process.clock.sleep(RETRY_INTERVAL.total_seconds())
