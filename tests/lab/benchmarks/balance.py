"""Whether load balancing has an effect on Spark: jobs on an embedded cluster, without it and with it.

A master and two workers with two slots each, all on this machine. Each situation is measured twice in the same driver,
first with NONE and then with TASKS, so both see the same placement; all measurements come from Spark's REST interface.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_adaptive._core.protocol.documents import NONE, TASKS, Action, DriverPlan, DriverStatus
from airflow_adaptive.job.executors import MAX_BATCHES
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import DriverOnCluster
from tests.support.published_tables import publish

JOBS: Final = Path(__file__).parent / "jobs"

CONDITIONS: Final = 3
SLOTS: Final = 4
MEASURED_BATCHES: Final = 3
SETTLING_BATCHES: Final = {NONE: 2, TASKS: MAX_BATCHES + 1}

NO_EFFECT_BELOW: Final = 0.05
"""A smaller change of max/avg than this is called none."""

TIME_LIMIT_S: Final = 340
LONGEST_WAIT_S: Final = 300.0

BATCH: Final = re.compile(r"batch = (\d+)")
"""How Spark ends the description of a streaming query's jobs."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Where the tasks of a batch ran: their number and their time on each executor that was there."""

    tasks: Mapping[str, int]
    task_time_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Measurements:
    """Means over some batches.

    Attributes:
        tasks: on each executor in the newest batch, most first.
        difference: of the numbers of tasks of the executors with most and with fewest.
        max_to_avg_tasks: tasks of the executor with most, to the average.
        max_to_avg_time: the same of the time that its tasks took together.
    """

    tasks: Sequence[int]
    difference: float
    max_to_avg_tasks: float
    max_to_avg_time: float


Conditions = Mapping[str, Mapping[str, Measurements]]
"""Condition -> mode -> measurements."""


# ---- what Spark tells -----------------------------------------------------------------------------------------------


def newest_batches(spark: Callable[[str], Any], count: int) -> list[Batch]:
    """The newest batches that are over, another having begun; `spark` asks for a resource of the application."""
    there = [executor["id"] for executor in spark("executors") if executor["id"] != "driver"]
    jobs: dict[int, list[dict[str, Any]]] = {}
    for job in spark("jobs"):
        if found := BATCH.search(job.get("description", "")):
            jobs.setdefault(int(found[1]), []).append(job)
    return [_batch(spark, jobs[number], there) for number in sorted(jobs)[:-1][-count:]]


def _batch(spark: Callable[[str], Any], jobs: Sequence[Mapping[str, Any]], there: Sequence[str]) -> Batch:
    tasks, times = Counter(dict.fromkeys(there, 0)), Counter(dict.fromkeys(there, 0))
    for stage in [stage for job in jobs for stage in job["stageIds"]]:
        for attempt in spark(f"stages/{stage}?details=true"):
            for executor, summary in attempt.get("executorSummary", {}).items():
                tasks[executor] += summary["succeededTasks"]
                times[executor] += summary["taskTime"]
    return Batch(tasks, times)


def measurements(batches: Sequence[Batch]) -> Measurements:
    """Means over the batches."""
    return Measurements(
        tasks=sorted(batches[-1].tasks.values(), reverse=True),
        difference=statistics.mean(max(b.tasks.values()) - min(b.tasks.values()) for b in batches),
        max_to_avg_tasks=statistics.mean(_max_to_avg(b.tasks) for b in batches),
        max_to_avg_time=statistics.mean(_max_to_avg(b.task_time_ms) for b in batches),
    )


def _max_to_avg(loads: Mapping[str, int]) -> float:
    return max(loads.values()) / statistics.mean(loads.values())


# ---- the runs -------------------------------------------------------------------------------------------------------


class Run:
    """One job in one driver."""

    def __init__(self, driver: DriverOnCluster, partitions: int, **parallelism: int) -> None:
        """Describe it."""
        self._driver = driver
        self._partitions = partitions
        self._parallelism = parallelism
        self._version = 0
        self._executors = 0

    def direct(self, executors: int, mode: str) -> None:
        """Have the job run on so many executors; under another mode alone it is not restarted."""
        self._version += executors != self._executors
        self._executors = executors
        plan = DriverPlan(
            parallelism=self._parallelism,
            executors=executors,
            state_partitions={"default": self._partitions},
            query_version=self._version,
            load_balance_mode=mode,
        )
        self._driver.direct(Action.RUN, self._version, plan)

    def submit(self, script: str) -> None:
        """Submit the driver; the second worker comes after it, so that both have the same number of slots."""
        cluster = self._driver.cluster
        cluster.add_worker(cores=SLOTS // 2 + 1, memory_mb=2048)
        self._driver.submit((JOBS / script).read_text(), self._executors, max_executors=SLOTS)
        wait_until(lambda: cluster.state()["coresused"], LONGEST_WAIT_S, "the driver's core")
        cluster.add_worker(cores=SLOTS // 2, memory_mb=2048)

    def settle(self, batches: int) -> None:
        """Wait until the version is active, and then for a number of batches."""
        now = self._wait("the plan", lambda now: now.version == self._version and bool(now.queries))
        self._wait("batches", lambda then: then.queries[0].committed >= now.queries[0].committed + batches)

    def replace_executor(self) -> None:
        """Kill the youngest executor and wait for another."""
        status = self._wait("executors", lambda now: len(now.executors) == self._executors)
        victim = status.executors[-1].executor_id
        self._driver.kill_executor(victim)
        self._wait(
            "its replacement",
            lambda now: len(now.executors) == self._executors and now.executors[-1].executor_id != victim,
        )

    def _wait(self, what: str, condition: Callable[[DriverStatus], bool]) -> DriverStatus:
        """Wait longer than a test would: the benchmark as a whole has a limit."""
        return self._driver.wait_status(what, condition, LONGEST_WAIT_S)

    def compare(self) -> dict[str, Measurements]:
        """Measurements without balancing, and after TASKS was switched on."""
        found = {}
        for mode in (NONE, TASKS):
            self.direct(self._executors, mode)
            self.settle(SETTLING_BATCHES[mode] + MEASURED_BATCHES)
            found[mode] = measurements(newest_batches(self._driver.spark, MEASURED_BATCHES))
        self.direct(self._executors, NONE)
        return found


@contextmanager
def driver_of(cluster: LocalCluster) -> Iterator[DriverOnCluster]:
    """A driver on a cluster without workers; all of it is killed in the end."""
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-") as directory:
        try:
            yield DriverOnCluster(cluster, Path(directory))
        finally:
            cluster.reset()


class OutOfTimeError(Exception):
    """The machine is too busy for this benchmark."""


def measure(found: dict[str, Mapping[str, Measurements]]) -> None:
    """All situations, one after the other."""
    with LocalCluster() as cluster:
        with driver_of(cluster) as driver:
            run = Run(driver, 4, read=3, hash=4)
            run.direct(SLOTS, NONE)
            run.submit("two_stages.py")
            found["two stages, 3 and 4 tasks"] = run.compare()
        with driver_of(cluster) as driver:
            run = Run(driver, 12, read=4)
            run.direct(SLOTS // 2, NONE)
            run.submit("stateful.py")
            run.settle(3)
            run.direct(SLOTS, NONE)
            found["12 stateful tasks, after 2 -> 4 executors"] = run.compare()
            run.replace_executor()
            found["12 stateful tasks, after a lost executor was replaced"] = run.compare()


# ---- telling --------------------------------------------------------------------------------------------------------


def table(found: Conditions) -> Iterator[str]:
    """The measurements as Markdown."""
    yield "| job | mode | tasks per executor | max - min | max/avg tasks | max/avg run time | effect on tasks |"
    yield "|---|---|---|---:|---:|---:|---|"
    for condition, modes in found.items():
        for mode, measured in modes.items():
            tasks = "/".join(map(str, measured.tasks))
            ratios = f"{measured.max_to_avg_tasks:.2f} | {measured.max_to_avg_time:.2f}"
            text = "" if mode == NONE else effect(modes[NONE], measured)
            yield f"| {condition} | {mode.upper()} | {tasks} | {measured.difference:.1f} | {ratios} | {text} |"


def effect(before: Measurements, after: Measurements) -> str:
    """What balancing changed in the distribution of tasks."""
    change = after.max_to_avg_tasks - before.max_to_avg_tasks
    return "no effect" if abs(change) < NO_EFFECT_BELOW else f"max/avg {change:+.2f}"


def machine_line() -> str:
    """What it was measured on."""
    return f"{os.cpu_count()} cores shared by all processes, {platform.system()} {platform.machine()}."


def _give_up(*_: object) -> None:
    raise OutOfTimeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write if asked to; 1 if that took too long."""
    parser = argparse.ArgumentParser(prog="tests.lab.benchmarks.balance", description=__doc__)
    parser.add_argument("--write", type=Path, help="page whose section 'balance' is to be rewritten")
    parser.add_argument("--limit", type=int, default=TIME_LIMIT_S, help="seconds until it is given up")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(options.limit)
    found: dict[str, Mapping[str, Measurements]] = {}
    try:
        measure(found)
    except OutOfTimeError:
        print(f"given up after {options.limit} s: this machine is too busy", file=sys.stderr)
    signal.alarm(0)
    lines = [machine_line(), "", *table(found)]
    print("\n".join(lines))
    if options.write is not None and len(found) == CONDITIONS:
        publish("balance", "\n".join(lines), options.write)
    return 0 if len(found) == CONDITIONS else 1


if __name__ == "__main__":
    sys.exit(main())
