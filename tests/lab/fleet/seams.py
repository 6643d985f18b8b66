"""The places at which the simulation replaces what the product takes from the machine.

Airflow has its own (`airflow.simulated_airflow`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import structlog

from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document
from airflow_adaptive._engine import clock
from airflow_adaptive._engine.journal import job_directory, storage_threads
from airflow_adaptive.job.control import driver_status
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import START
from tests.lab.fleet.kernel.threads import SimulatedQueue, SimulatedThread


@contextmanager
def installed(kernel: Kernel, entropy: Entropy) -> Iterator[None]:
    """Run the product in virtual time. Only one simulation at a time can be installed in an interpreter."""
    with ExitStack() as stack:
        for target, name, replacement in (
            # The clock that cannot be set, and the time of day.
            (time, "clock_gettime", lambda _: _elapsed(kernel)),
            (clock, "datetime", _simulated_datetime(kernel)),
            (driver_status, "datetime", _simulated_datetime(kernel)),
            # The threads for blocking calls, and the queue from which they take the calls.
            (storage_threads, "Thread", partial(SimulatedThread, kernel)),
            (storage_threads, "SimpleQueue", partial(SimulatedQueue, kernel)),
            # Each loop reads the past of its job, which other loops have read.
            (job_directory, "decode_document", _decoder()),
            # Source of all identifiers (`uuid.uuid4`).
            (os, "urandom", entropy.bytes),
            # Workers run coroutines in their thread.
            (asyncio, "run", partial(_run, kernel)),
        ):
            stack.enter_context(patch.object(target, name, replacement))
        stack.enter_context(_without_garbage_collection())
        stack.enter_context(_without_logs())
        yield


def _decoder() -> Callable[[type[Any], bytes], Any]:
    decode_once = cache(partial(decode_document, JournalDocument))
    return lambda kind, data: decode_once(data) if kind is JournalDocument else decode_document(kind, data)


def _elapsed(kernel: Kernel) -> float:
    return kernel.now if kernel.process is None else kernel.process.elapsed()


def _simulated_datetime(kernel: Kernel) -> type[datetime]:
    class SimulatedDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            time_of_day = START if kernel.process is None else kernel.process.wall_time()
            return time_of_day.astimezone(tz or UTC)

    return SimulatedDatetime


def _run(kernel: Kernel, main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in an event loop of the current process, and block the current thread until it ends."""
    process: Any = kernel.process
    loop = SimulatedEventLoop(process)  # type: ignore[abstract]  # no methods for networks
    task = loop.create_task(main)
    kernel.block(lambda wake_up: task.add_done_callback(lambda _: wake_up()))
    return task.result()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Collect no garbage, as the moment of a collection differs between runs, and finalizers have effects; and keep all modules out of later ones."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _without_logs() -> Iterator[None]:
    """Log nothing, also not with the library of the Task SDK: the history contains what happens."""
    disabled, configuration = logging.root.manager.disable, structlog.get_config()
    logging.disable()
    structlog.configure(processors=[_drop])
    try:
        yield
    finally:
        logging.disable(disabled)
        structlog.configure(**configuration)


def _drop(logger: Any, method: str, event: Any) -> Any:
    """Drop an event of structlog."""
    raise structlog.DropEvent
