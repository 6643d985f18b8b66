"""The job directory and the cluster of a job, as the API server and the commands reach them: the driver's log, and checkpoints that are set aside.

Theory: the published state names the folder of a job, and its directory names the connections of the job. Airflow's secrets backends resolve both, as in
a triggerer, but a firewall or a missing mount may keep this machine from the cluster or the storage. Then the answer is unknown, and the error says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

from pydantic import Field

from airflow_adaptive._airflow.process.job_ports import job_directory
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, ProcessResources
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._core.ports import DriverLog, PortError
from airflow_adaptive._core.scheduler.snapshot import decode, from_json
from airflow_adaptive._core.scheduler.state import Finished
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._web.data.errors import RequestRefusedError, conflict
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.published_state import Document, PublishedState
from airflow_adaptive._web.data.user_requests import base_of

CHECKPOINTS: Final = "checkpoints"

DOCUMENTS_READ: Final = 50
"""Newest journal documents in which the last driver is searched."""

Result = TypeVar("Result")


class DriverOutput(Document):
    """The end of the output of the newest driver of a job."""

    submission_id: str = Field(description="Driver that wrote the output.")
    stdout: list[str] = Field(
        description="Last lines of the standard output: output of the script, and Python tracebacks."
    )
    stderr: list[str] = Field(description="Last lines of the standard error: Spark's own log.")
    waits: str = Field(description="Why an executor waits, as the cluster manager reports it; empty without a report.")


def driver_output(job: Job, published: PublishedState, lines: int) -> DriverOutput:
    """Return the last lines of the output of the newest driver, of which the cluster manager returns some 16 KiB per stream; blocks.

    Raises:
        RequestRefusedError: the job had no driver (409), or its output is unknown here (502); the message names the reason.
    """
    submission_id, log, is_kept = _run(
        f"The log of the driver of job {job.name!r} is unknown", _driver_log(job, base_of(job, published))
    )
    if not (log.stdout or log.stderr or log.waits):
        cause = (
            "it has written nothing yet, or its output was removed"
            if is_kept
            else "its pod does not exist any more, or its node is lost, and only a log collector would have kept it"
        )
        detail = f"The cluster has no output of driver {submission_id}: {cause}. The log of the task contains the end of the output after a failure."
        raise RequestRefusedError(HTTPStatus.BAD_GATEWAY, "unknown-log", detail)
    ends = (stream.splitlines()[-lines:] for stream in (log.stdout, log.stderr))
    return DriverOutput(submission_id=submission_id, stdout=next(ends), stderr=next(ends), waits=log.waits)


async def _driver_log(job: Job, base: str) -> tuple[str, DriverLog, bool]:
    """Return the newest driver, its log, and whether the cluster keeps its output."""
    directory, resources = await open_directory(base, job.name), ProcessResources.current()
    states = [from_json(document.scheduler) for document in await directory.history(DOCUMENTS_READ)]
    drivers = [
        state.driver.submission_id for state in states if state.driver is not None and state.driver.submission_id
    ]
    if not drivers:
        raise conflict("no-driver", f"Job {job.name!r} has no driver, and its journal names no earlier one.")
    connections = await connections_of(directory)
    address = await resources.store_access.read_connection(connections.spark, connections.address)
    async with resources.cluster(connections, address) as (cluster, _):
        log = await cluster.driver_log(drivers[-1])
        has_output = bool(log.stdout or log.stderr or log.waits)
        return drivers[-1], log, has_output or (await cluster.status(drivers[-1])).log_command != ""


async def open_directory(base: str, job: str) -> FsspecJobDirectory:
    """Return the directory of a job. Raises as `job_directory`."""
    access = ProcessResources.current().store_access
    return await access.read_connection(base, lambda: job_directory(base, job))


async def connections_of(directory: FsspecJobDirectory) -> ConnectionIds:
    """Return the connections with which the task runs the job. Raises `AddressError`: they are unknown, and as `FsspecJobDirectory.connections`."""
    found = await directory.connections()
    if found is None:
        raise AddressError(f"the directory {directory.uri} does not name the connections of the job: run its DAG again")
    connections: ConnectionIds = decode(ConnectionIds, found)
    return connections


def set_checkpoints_aside(job: Job, published: PublishedState) -> str:
    """Rename the folder of the checkpoints of a job that has ended, so that its next start reads from the beginning; blocks.

    Returns:
        The URI of the renamed folder.

    Raises:
        RequestRefusedError: the job has no checkpoint or is starting (409), or the directory cannot be used from here (502).
    """
    return _run(f"The checkpoints of job {job.name!r} cannot be set aside", _set_aside(job, base_of(job, published)))


async def _set_aside(job: Job, base: str) -> str:
    directory = await open_directory(base, job.name)
    newest = await directory.newest()
    state = None if newest is None else from_json(newest.scheduler)
    if newest is None or state is None or not isinstance(state.current, Finished) or state.driver is not None:
        raise conflict(
            "running", f"A driver of job {job.name!r} may run, according to its journal. Wait until its task has ended."
        )
    if not await directory.names(CHECKPOINTS):
        detail = f"Job {job.name!r} has no checkpoint in {directory.uri}. Delete the checkpoint that the script locates itself."
        raise conflict("no-checkpoint", detail)
    aside = f"{CHECKPOINTS}.{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"
    await directory.move_folder(CHECKPOINTS, aside)
    if await directory.read(newest.number + 1) is not None:
        detail = f"Job {job.name!r} has started while its checkpoints were moved to {aside}. Suspend the job, and reset it again."
        raise conflict("running", detail)
    return directory.storage.uri(aside)


def _run(failure: str, work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in an event loop of its own. Raises `RequestRefusedError` if the cluster or the storage cannot be used from here (502)."""
    try:
        return asyncio.run(work)
    except (PortError, ValueError, OSError) as error:
        raise RequestRefusedError(
            HTTPStatus.BAD_GATEWAY, "unreachable", f"{failure}, as seen from here: {error}"
        ) from error
