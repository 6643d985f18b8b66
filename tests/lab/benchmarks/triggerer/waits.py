"""Waits of the loops of the benchmark, and a slow storage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from unittest.mock import patch

from airflow_adaptive._engine.cluster.shared_cluster import Participant
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from tests.lab.benchmarks.triggerer import Measurements


class Waits:
    """The longest waits of any loop: for the state of the cluster, and between two reads of its driver status."""

    def __init__(self) -> None:
        """Nothing was measured yet."""
        self._read_at: dict[str, float] = {}
        self._waiting_since: dict[object, float] = {}
        self._longest_poll = self._longest_gap = 0.0

    @property
    def status_readers(self) -> int:
        """Number of loops that have read the status of their driver."""
        return len(self._read_at)

    def forget(self) -> None:
        """Forget the reads of loops that have ended."""
        self._read_at.clear()

    def begin(self) -> None:
        """Begin the measurement."""
        self._longest_poll = self._longest_gap = 0.0

    def longest(self) -> Measurements:
        """Return the longest waits since the begin of the measurement, including the current ones."""
        now = time.monotonic()
        polls, gaps = self._waiting_since.values(), self._read_at.values()
        return {
            "longest wait for the state of the cluster (s)": max([self._longest_poll, *(now - at for at in polls)]),
            "longest time between two reads of a driver status (s)": max(
                [self._longest_gap, *(now - at for at in gaps)]
            ),
        }

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the loops of this process."""
        observe, status, waits = Participant.observe, FsspecJobDirectory.status, self

        @wraps(observe)
        async def measured_observe(participant: Participant, *args: Any) -> Any:
            waits._waiting_since[participant] = begin = time.monotonic()
            try:
                return await observe(participant, *args)
            finally:
                del waits._waiting_since[participant]
                waits._longest_poll = max(waits._longest_poll, time.monotonic() - begin)

        @wraps(status)
        async def measured_status(directory: FsspecJobDirectory) -> Any:
            found = await status(directory)
            before, now = waits._read_at.get(directory.uri), time.monotonic()
            waits._read_at[directory.uri] = now
            waits._longest_gap = max(waits._longest_gap, 0.0 if before is None else now - before)
            return found

        with (
            patch.object(Participant, "observe", measured_observe),
            patch.object(FsspecJobDirectory, "status", measured_status),
        ):
            yield


@dataclass
class StorageDelay:
    """Time that each access to a job directory takes, in seconds."""

    delay_s: float = 0.0


@contextmanager
def slow_storage() -> Iterator[StorageDelay]:
    """Delay each access to a job directory in the thread that makes the access."""
    delay = StorageDelay()

    def delayed(method: Any) -> Any:
        @wraps(method)
        def access(*args: Any, **kwargs: Any) -> Any:
            time.sleep(delay.delay_s)
            return method(*args, **kwargs)

        return access

    with ExitStack() as patches:
        for name in ("names", "read", "create"):
            patches.enter_context(patch.object(Storage, name, delayed(getattr(Storage, name))))
        yield delay
