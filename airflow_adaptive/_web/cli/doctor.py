"""The checks of `airflow adaptive doctor`. Each check says what was found, and what to do if it failed."""

from __future__ import annotations

import asyncio
import platform
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from airflow_adaptive import __version__
from airflow_adaptive._airflow.internals import installed_airflow, unsupported_airflow, untested_airflow
from airflow_adaptive._airflow.process.job_ports import job_storage
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, ProcessResources
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.properties import masked
from airflow_adaptive._clusters.standalone.client import connection_report
from airflow_adaptive._core.ports import ClusterSnapshot, JobDirectoryError, PortError
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._web.data.errors import RequestRefusedError
from airflow_adaptive._web.data.job_files import CHECKPOINTS, connections_of, open_directory
from airflow_adaptive._web.data.metadata_database.jobs import Job, hosts_of_triggerers, reading
from airflow_adaptive._web.data.published_state import Health, PublishedState
from airflow_adaptive._web.data.user_requests import base_of
from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook


class Result(StrEnum):
    """Result of a check."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """A check: what was checked, and what was found, with the remedy."""

    name: str
    result: Result
    text: str


def check_all(
    connection: str | None, job: Job | None, published: PublishedState | None, base: str | None
) -> list[Check]:
    """Check an installation, and a job with its published state; blocks.

    Args:
        connection: id of the connection of the cluster; None for the one of the job, or the default.
        job: job to check, None without one.
        published: published state of the job.
        base: URI of the folder of all job directories; None for the one of the job.
    """
    checks = [*_versions(), *_database(), *_triggerers()]
    if job is not None and published is not None:
        checks.append(_job(job, published))
        try:
            base = base or base_of(job, published)
        except RequestRefusedError as error:
            checks.append(Check("job directory", Result.UNKNOWN, error.detail))
    return checks + asyncio.run(_outside(connection, None if job is None else job.name, base))


def _versions() -> Iterator[Check]:
    text = f"airflow-adaptive {__version__}, Airflow {installed_airflow()}, Python {platform.python_version()}"
    failed, unknown = unsupported_airflow(), untested_airflow()
    result = Result.FAILED if failed else Result.UNKNOWN if unknown else Result.OK
    yield Check("versions", result, failed or unknown or text)


def _database() -> Iterator[Check]:
    with reading() as session:
        dialect = session.get_bind().dialect.name
    texts = {
        "postgresql": (Result.OK, "Airflow's metadata database is PostgreSQL"),
        "sqlite": (
            Result.OK,
            "Airflow's metadata database is SQLite, for development only: use PostgreSQL in production",
        ),
    }
    unknown = (Result.UNKNOWN, f"Airflow's metadata database is {dialect}, which was not tested: prefer PostgreSQL")
    yield Check("database", *texts.get(dialect, unknown))


def _triggerers() -> Iterator[Check]:
    if alive := hosts_of_triggerers():
        yield Check("triggerer", Result.OK, f"{len(alive)} alive: {', '.join(alive)}")
    else:
        yield Check(
            "triggerer", Result.FAILED, "no triggerer is alive, so no job is controlled: start `airflow triggerer`"
        )


REMEDIES: Final = {
    Health.NO_LOOP: "no control loop controls its driver: cancel the job, or run its DAG again",
    Health.STALE: "its control loop has published nothing for minutes: check that a triggerer runs, and its log",
    Health.CLUSTER_UNREACHABLE: "the check of the cluster shows whether it answers from here",
    Health.SOURCE_UNREADABLE: "its driver cannot read a source",
    Health.FALLS_BEHIND: "its lag grows, or exceeds lag_alert_threshold: raise its upper bound, or add workers",
    Health.WAITS: "it waits for slots: add workers, or lower its bounds",
    Health.RESTARTS: "it restarts",
    Health.FAILS: "it fails",
    Health.FAILED: "see its log: `airflow adaptive logs`",
    Health.UNKNOWN: "it has published nothing yet: run its DAG",
}
"""Health of a job that does not do its work -> what to do."""


def _job(job: Job, published: PublishedState) -> Check:
    summary, health = published.summary, published.health(datetime.now(UTC))
    last, remedy = summary.last_transition, REMEDIES.get(health)
    why = (
        summary.cause
        or summary.cluster_problem
        or summary.source_problem
        or (None if last is None or published.wait else last.reason)
    )
    if published.problem:
        return Check("job", Result.FAILED, published.problem)
    # A rescale restarts a job, too.
    is_ok = remedy is None or (health is Health.RESTARTS and summary.cause is None)
    result = Result.UNKNOWN if health in (Health.STALE, Health.UNKNOWN) else Result.OK if is_ok else Result.FAILED
    attempt, wait = f"attempt {summary.restart_attempts}" if summary.restart_attempts else None, published.wait
    texts = [f"job {job.name!r} is {summary.status} ({health})", None if is_ok else remedy, wait, attempt, why]
    return Check("job", result, "; ".join(text for text in texts if text))


async def _outside(connection: str | None, job: str | None, base: str | None) -> list[Check]:
    """Check what is outside of Airflow: the job directory and the cluster."""
    checks, of_job = [], None
    if base is None and job is None:
        text = "not checked: name it with --job-directory, or a job with --job"
        checks.append(Check("job directory", Result.UNKNOWN, text))
    elif base is not None:
        checks.append(await _directory(base))
        if job is not None and checks[-1].result is Result.OK:
            of_job, found = await _driver(base, job)
            checks.append(found)
    connections = (
        ConnectionIds(connection) if connection else of_job or ConnectionIds(AdaptiveSparkHook.default_conn_name)
    )
    return checks + [
        check
        async for check in _cluster(
            connections, needs_slots=not any(check.name == "driver" and check.result is Result.OK for check in checks)
        )
    ]


async def _directory(base: str) -> Check:
    access = ProcessResources.current().store_access
    try:
        text = await access.read_connection(base, lambda: _probe(job_storage(base)))
    except (PortError, ValueError) as error:
        return Check("job directory", Result.FAILED, f"{error}, as seen from here")
    return Check("job directory", Result.OK, text)


def _probe(storage: Storage) -> str:
    """Create a file twice; blocks. Raises `JobDirectoryError`: the second creation succeeds, or the storage does not answer."""
    path = f".doctor-{uuid.uuid4().hex}"
    try:
        if not storage.create(path, b"first", folders=0) or storage.create(path, b"second", folders=0):
            raise JobDirectoryError(f"{storage.uri()} does not create a file only if it is absent: use another storage")
    finally:
        storage.remove(path)
    return f"{storage.uri()} can be written from here, and creates a file only if it is absent"


async def _driver(base: str, job: str) -> tuple[ConnectionIds | None, Check]:
    """Return the connections of a job, and whether its driver uses the same directory."""
    connections = None
    try:
        directory = await open_directory(base, job)
        connections = await connections_of(directory)
        newest, status = await directory.newest(), await directory.status()
    except (PortError, ValueError) as error:
        return connections, Check("driver", Result.UNKNOWN, str(error))
    state = None if newest is None else from_json(newest.scheduler)
    if state is None or state.driver is None or status is None or status.epoch != state.epoch:
        text = f"no driver has written to {directory.uri} since its start, so whether the cluster reaches it is unknown. Run the job"
        return connections, Check("driver", Result.UNKNOWN, text)
    has_committed = any(query.committed for query in status.queries) and await directory.names(CHECKPOINTS)
    proof = (
        "it has committed batches to checkpoints there, in files that Spark creates only if they are absent"
        if has_committed
        else "it has committed no batch there yet, so whether it creates a file only if it is absent is unknown"
    )
    text = f"the driver writes to {directory.uri}, at last at {status.at}; {proof}"
    return connections, Check("driver", Result.OK, text)


async def _cluster(connections: ConnectionIds, *, needs_slots: bool) -> AsyncIterator[Check]:
    resources = ProcessResources.current()
    try:
        address = await resources.store_access.read_connection(connections.spark, connections.address)
    except (PortError, ValueError) as error:
        yield Check("connection", Result.FAILED, str(error))
        return
    secrets = address.secrets
    yield Check("connection", Result.OK, f"{connections.spark!r} names {_place(address)}")
    try:
        async with resources.cluster(connections, address) as (cluster, _):
            if isinstance(address, KubernetesAddress):
                await cluster.check()
                text = f"the account of connection {connections.kubernetes!r} may run jobs in namespace {address.namespace!r}"
            else:
                text = await connection_report(address)
            yield Check("cluster", Result.OK, masked(text, secrets))
            yield _slots(await cluster.snapshot(), needs_slots=needs_slots)
    except (PortError, ValueError, OSError) as error:
        yield Check("cluster", Result.FAILED, masked(str(error), secrets))


def _place(address: object) -> str:
    return (
        f"Kubernetes, {address.server}"
        if isinstance(address, KubernetesAddress)
        else str(getattr(address, "master_url", ""))
    )


def _slots(snapshot: ClusterSnapshot, *, needs_slots: bool) -> Check:
    if not snapshot.workers:
        if snapshot.limits:
            return Check("slots", Result.UNKNOWN, "the cluster shows no worker, and only limits: see the page of a job")
        return Check("slots", Result.FAILED, "the cluster has no worker: start one")
    free = sum(worker.free.cpu_millicores for worker in snapshot.workers) // 1000
    text = f"{free} cores are free on {len(snapshot.workers)} workers; a driver and each slot need one"
    if free > 1 or not needs_slots:
        return Check("slots", Result.OK, text)
    return Check("slots", Result.FAILED, f"{text}: add workers, or end other applications")
