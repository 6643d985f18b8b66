"""What the scheduler costs, and how that grows with the number of slots.

A job of 100 vertices in 20 slot sharing groups, on a tenth as many workers as slots: one step that decides to rescale
because slots came, one that deploys the new plan, the balancing of that plan in each mode, and the largest log document
that the steps leave. Times are CPU times, medians of several runs in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow_adaptive._core.protocol.documents import JournalDocument, encode_document
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.allocator import LoadBalanceMode, assign
from airflow_adaptive._core.scheduler.events import Event, SchedulingStarted, SlotOffer, SlotsChanged, TimerFired
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._engine.journal.journal import Journal
from airflow_adaptive._engine.spec import JobSpec
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.scenario import Scenario
from tests.support.published_tables import publish

SLOTS = (100, 1_000, 10_000, 100_000)
GROUPS = 20
VERTICES = 100
SLOTS_PER_WORKER = 10
RUNS = 9

NO_WAIT: dict[str, Any] = dict.fromkeys(
    ("resource_stabilization_timeout", "scaling_interval_min", "executing_stabilization_timeout", "max_trigger_delay"),
    "0 s",
)

Measurements = Mapping[str, float]
"""What was measured, by its name with the unit."""


# ---- the job --------------------------------------------------------------------------------------------------------


def graph(slots: int) -> JobGraph:
    """A job that can use so many slots; each group has vertices of falling width, the last two of them co-located."""
    return JobGraph(job="benchmark", vertices=tuple(_vertex(number, slots // GROUPS) for number in range(VERTICES)))


def _vertex(number: int, width: int) -> JobVertex:
    group, rank = divmod(number, VERTICES // GROUPS)
    return JobVertex(
        name=f"query-{group:02}-vertex-{rank}",
        parallelism=ParallelismRange(1, max(1, width * (10 - rank) // 10)),
        slot_sharing_group=f"query-{group:02}",
        co_location=f"query-{group:02}-pair" if rank >= VERTICES // GROUPS - 2 else None,
    )


def offers(slots: int, held: float) -> tuple[SlotOffer, ...]:
    """Workers with so many slots in all; the job holds those of the first ones, `held` being their share."""
    workers = slots // SLOTS_PER_WORKER
    return tuple(_offer(number, holds=number < held * workers) for number in range(workers))


def _offer(number: int, *, holds: bool) -> SlotOffer:
    host = f"10.0.{number // 250}.{number % 250 + 1}"
    return SlotOffer(
        worker=f"worker-20130101000000-{host}-40001",
        address=f"{host}:8081",
        held=SLOTS_PER_WORKER if holds else 0,
        free=0 if holds else SLOTS_PER_WORKER,
    )


def running(slots: int) -> Scenario:
    """The job on half of the slots, before it hears of the other half."""
    job = Scenario(graph=graph(slots), load_balance_mode=LoadBalanceMode.TASKS, **NO_WAIT)
    job.when(SlotsChanged(at=job.now, offers=offers(slots // 2, held=0))).when(SchedulingStarted(at=job.now))
    job.when(SlotsChanged(at=job.now, offers=offers(slots // 2, held=1))).when_plan_activated()
    return job


# ---- measuring ------------------------------------------------------------------------------------------------------


def measure(slots: int, runs: int = RUNS) -> Measurements:
    """All measurements for a number of slots."""
    job = running(slots)
    there = offers(slots, held=0.5)
    came = SlotsChanged(at=job.now, offers=there)
    decided = _expected("Restarting", job.state, came)
    due = TimerFired(at=job.now, timer=machine.timers(decided.state)[0].name, version=decided.state.version)
    deployed = _expected("Deploying", decided.state, due)
    plan = deployed.state.plan
    if plan is None:
        raise RuntimeError("there is no plan in Deploying")
    modes = {
        f"balance, {mode} (ms)": _milliseconds(partial(assign, job.state.job, plan.parallelism, there, mode), runs)
        for mode in LoadBalanceMode
    }
    return {
        "workers": slots // SLOTS_PER_WORKER,
        "subtasks": sum(plan.parallelism.values()),
        "decide (ms)": _milliseconds(partial(machine.step, job.state, came), runs),
        "deploy (ms)": _milliseconds(partial(machine.step, decided.state, due), runs),
        **modes,
        "journal document (KiB)": max(_document_sizes(job.state, decided, deployed)) / 1024,
    }


def _expected(target: str, state: SchedulerState, event: Event) -> Step:
    step = machine.step(state, event)
    if step.state.name != target:
        raise RuntimeError(f"{type(event).__name__} leads from {state.name} to {step.state.name}, not to {target}")
    return step


def _milliseconds(call: Callable[[], object], runs: int) -> float:
    gc.collect()
    gc.disable()
    try:
        return statistics.median(_timed(call) for _ in range(runs)) * 1000
    finally:
        gc.enable()


def _timed(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


class _SizingJobDirectory(FakeJobDirectory):
    """A log of any size: the benchmark tells how large documents are even where they are refused."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def create(self, document: JournalDocument) -> bool:
        """Note the size."""
        self.sizes.append(len(encode_document(document)))
        return True


def _document_sizes(before: SchedulerState, *steps: Step) -> Sequence[int]:
    directory, now = _SizingJobDirectory(), Scenario().now
    spec = JobSpec(
        graph=before.job, options=before.options, directory="file:///jobs", script="file:///jobs/job.py", py_files=()
    )

    async def write() -> None:
        journal, state = Journal(directory, spec), before
        await journal.open(now)
        for step in steps:
            await journal.save(step, state, now)
            state = step.state

    asyncio.run(write())
    return directory.sizes


# ---- telling --------------------------------------------------------------------------------------------------------


def tables(measured: Mapping[int, Measurements]) -> Iterator[str]:
    """The measurements and their growth, as Markdown."""
    slots = sorted(measured)
    yield _row("slots", [f"{count:,}" for count in slots])
    yield "|---|" + "---:|" * len(slots)
    for name in measured[slots[0]]:
        yield _row(name, [_rounded(measured[count][name]) for count in slots])
    yield ""
    pairs = list(pairwise(slots))
    yield _row("growth", [f"{small:,} to {large:,}" for small, large in pairs])
    yield "|---|" + "---:|" * len(pairs)
    yield _row("n log n", [f"x {large * math.log(large) / (small * math.log(small)):.1f}" for small, large in pairs])
    for name in list(measured[slots[0]])[2:]:
        yield _row(name, [f"x {measured[large][name] / measured[small][name]:.1f}" for small, large in pairs])


def machine_line() -> str:
    """What it was measured on."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}."


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _rounded(figure: float) -> str:
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="tests.lab.benchmarks.scheduler", description=__doc__)
    parser.add_argument("--slots", type=int, nargs="+", default=SLOTS, help="numbers of slots, each at least 100")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of which the median is taken")
    parser.add_argument("--write", type=Path, help="page whose section 'scheduler' is to be rewritten")
    options = parser.parse_args(arguments)
    lines = [machine_line(), "", *tables({slots: measure(slots, options.runs) for slots in options.slots})]
    print("\n".join(lines))
    if options.write is not None:
        publish("scheduler", "\n".join(lines), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
