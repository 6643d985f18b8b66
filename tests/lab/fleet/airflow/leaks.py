"""What a triggerer still uses although no job runs in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from airflow_adaptive._airflow.process import process_resources
from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._airflow.store import store_access
from airflow_adaptive._engine.journal import storage_threads
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop

ROUNDING = 1e-6
"""Reads per second of members that have left a rate limiter: the sum of floating-point numbers is not exactly 0."""


def leaks(loop: SimulatedEventLoop) -> list[str]:
    """Return one line for each leak of an event loop in which no job runs, and whose services have answered."""
    found = dict(_tasks(loop)) | dict(_busy_threads(loop))
    resources = process_resources._resources.get(loop)
    found |= {} if resources is None else dict(_members(resources))
    return [f"{count:g} {what}" for what, count in found.items() if count > ROUNDING]


def _tasks(loop: SimulatedEventLoop) -> Iterator[tuple[str, float]]:
    names = sorted(getattr(task.get_coro(), "__qualname__", "task") for task in asyncio.all_tasks(loop))
    yield f"tasks: {', '.join(names)}", len(names)


def _members(resources: ProcessResources) -> Iterator[tuple[str, float]]:
    access = resources.store_access
    for name, limiter in (
        ("files", resources.files),
        ("reads", access.request_reads),
        ("writes", access.metrics_writes),
    ):
        yield f"members of the rate limiter of {name}", limiter.members
        yield f"urgent reads per second in the rate limiter of {name}", abs(limiter.urgent_per_second)
    yield "clients of clusters", len(resources._clients._entries)
    yield "participants of shared clusters", sum(len(shared._demanded_s) for shared in resources._shared.values())
    yield "reads of connections", len(resources.connection_reads._reads)
    for name, threads in (("reads", access._reads), ("writes", access._writes), ("connections", access._connections)):
        yield f"busy threads for {name} of Airflow's store", _busy(threads, store_access.THREADS)


def _busy_threads(loop: SimulatedEventLoop) -> Iterator[tuple[str, float]]:
    for storage, threads in storage_threads._threads.get(loop, {}).items():
        yield f"busy threads for {storage}", _busy(threads, storage_threads.THREADS)


def _busy(threads: StorageThreads, size: int) -> int:
    """Return the number of threads with a call, and of calls that wait for a thread."""
    waiting = len(threads._urgent) + len(threads._background)
    return size - threads._free + len(threads._overdue) + waiting
