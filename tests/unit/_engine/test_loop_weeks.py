"""Hundreds of things happen to a job: neither the memory of its loops nor the job directory nor the published state grows."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import pytest

from airflow_adaptive._airflow.store.task_xcoms import xcoms
from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._engine.journal.job_directory import HISTORY, JOURNAL
from airflow_adaptive._engine.loop import Loop
from tests.lab.fleet.cluster.driver import DriverTimes
from tests.lab.fleet.jobs import JOB, ROOT, OneJobFleet
from tests.support.runtime.quick_jobs import QUICK

EVENTS = 400
BETWEEN_S = 15.0
LIFETIME_S = 1_000.0
"""A loop then ends, and the next one continues the job, as after the lifetime of a trigger."""

MOST_WORKERS = 6
HISTORY_SIZE = 20
LOGGED_BETWEEN = 100
"""Journal documents from one compaction to the next."""

DOCUMENT_BYTES = 32 << 10
"""Of a journal document with the newest failures and a rescale that is in progress; the limit of the format is 1 MiB."""

XCOM_BYTES = 64 << 10
"""Limit of some backends of XComs."""

FAILURE = FailureReport(
    error_class="SparkException", message="a task failed " + "no " * 200, causes=("SparkException",)
)


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What a job occupies: objects and bytes to which the loop refers, tasks, files, and bytes of the largest document and of all XComs."""

    objects: int
    memory: int
    tasks: int
    journal: int
    history: int
    document: int
    xcoms: int


class BusyFleet(OneJobFleet):
    """A job to which something happens all the time; its loops run one after the other in one process."""

    def __init__(self) -> None:
        options = {**QUICK, "history_size": HISTORY_SIZE, "stop_timeout": "4 s"}
        restarts = {"type": "fixed-delay", "attempts": 1_000_000, "delay": "1 s"}
        times = DriverTimes(boot_s=(1, 1), registration_s=(0.5, 0.5), exit_s=(0.5, 0.5))
        super().__init__(times=times, starts=False, resource_wait_timeout=-1, restart_strategy=restarts, **options)
        self.triggerer = self.add_triggerer()
        self.random = Random(1)
        self.add_workers(2, 2, 2)
        self.job.start_loop(self.triggerer, lifetime_s=LIFETIME_S)

    def live(self, events: int) -> Footprint:
        """Let so many events happen; returns what the job then occupies."""
        changes = [self._change_workers, self._change_workers, self._fail_query, self._change_bound, self._kill_driver]
        for _ in range(events):
            self.random.choice(changes)()
            self.run(BETWEEN_S)
            self._forget()
            if self.job.ends:
                self.job.ends.clear()
                self.job.start_loop(self.triggerer, lifetime_s=LIFETIME_S)
        self.run_until(lambda: self.state == "Executing")
        return self._footprint()

    def _change_workers(self) -> None:
        if len(self.cluster.workers) >= self.random.randint(2, MOST_WORKERS):
            self.drivers.lose_host(self.random.choice(self.cluster.workers).worker_id)
        else:
            self.add_workers(2)

    def _fail_query(self) -> None:
        self.kernel.after(5.0, self.model.fail_queries(FAILURE))

    def _change_bound(self) -> None:
        self.job.set_upper_bound(self.random.randint(1, 4))

    def _kill_driver(self) -> None:
        for driver in self.drivers.alive(JOB):
            driver.processes.kill()

    def _forget(self) -> None:
        """Forget what the simulation records."""
        self.history.clear()
        del self.store.views[:-1]

    def _footprint(self) -> Footprint:
        files = self.storage.files
        journal = files.paths(f"{ROOT}/{JOB}/{JOURNAL}")
        assert isinstance(self.job.loop, Loop)
        gc.collect()
        found = list(reachable([self.job.loop, self.triggerer.shared()]))
        return Footprint(
            objects=len(found),
            memory=sum(map(sys.getsizeof, found)),
            tasks=len(asyncio.all_tasks(self.triggerer.event_loop)),
            journal=len(journal),
            history=len(files.paths(f"{ROOT}/{JOB}/{HISTORY}")),
            document=max(len(files.read(path)) for path in journal),
            xcoms=sum(len(json.dumps(value)) for value in xcoms(self.store.views[-1]).values()),
        )


def reachable(roots: list[Any]) -> Iterator[Any]:
    """Yield the objects that the roots refer to, without the simulation, and with the variables of the package's modules."""
    modules = [module for name, module in sys.modules.items() if name.startswith("airflow_adaptive.")]
    found = [*roots, *(value for module in modules for value in vars(module).values())]
    seen: set[int] = set()
    while found:
        it = found.pop()
        is_foreign = isinstance(it, (ModuleType, FunctionType, type)) or type(it).__module__.startswith("tests.")
        if id(it) not in seen and not is_foreign:
            seen.add(id(it))
            found += gc.get_referents(it)
            yield it


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_hundreds_of_rescales_and_failures_leave_no_more_than_the_first_ones() -> None:
    fleet = BusyFleet()
    _, early, _, late = [fleet.live(EVENTS // 4) for _ in range(4)]
    view = fleet.store.views[-1]
    assert min(view.rescales, view.restarts) > EVENTS / 10
    assert late.objects < 1.1 * early.objects, (early, late)
    assert late.memory < 1.1 * early.memory
    assert late.tasks <= early.tasks + 3
    assert max(late.journal, late.history) <= HISTORY_SIZE + LOGGED_BETWEEN
    assert late.document < DOCUMENT_BYTES
    assert late.xcoms < XCOM_BYTES
