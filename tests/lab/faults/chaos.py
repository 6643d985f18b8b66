"""Breaks one stateful job at random for some minutes, then compares what came out with what went in.

    python -m tests.lab.faults.chaos [--seed SEED] [--minutes MINUTES] [--sink delta] [--standby driver+executors]

A seed gives what is done, in which order and when; what it meets depends on the machine. Nothing waits for the job to
recover, so faults meet the consequences of others. Exit code 0 if no row was lost or duplicated and no two drivers wrote.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from airflow_adaptive._core.scheduler.config.options import StandbyMode
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness.disk import BusyError, NoMountError, small_disk
from tests.lab.faults.harness.master_process import recovering
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.matrix.faults import BESIDE_STANDBY, FAULTS, FULL, READ_ONLY, Fault
from tests.lab.faults.matrix.matrix_job import FEW_PARTITIONS, WORKER, WORKERS, MatrixJob, where
from tests.lab.faults.matrix.table_job import SINKS, TableJob
from tests.support.java_options import use_short_lived_jvms

JOB = "chaos"
STRICT = "strict"
NONE = "none"
DISK_MB = 256
DRAIN_S = 600.0
TURN_S = 0.2
"""Between two looks: chaos runs beside the job, for a time, and waits for nothing in particular."""

FEED_S = 1.0

WAITS_S = ((0.0, 3.0), (5.0, 25.0))
"""Into what another fault has begun, or long enough to recover before."""

BOUNDS: tuple[Mapping[str, tuple[int, int]], ...] = tuple(
    {"read": (1, read), "distinct": (1, distinct)} for read in (1, 2) for distinct in (1, 2)
)


@dataclass(frozen=True, kw_only=True)
class Deed:
    """Something that is done to the job.

    Attributes:
        at_s: when, since the beginning.
        name: of what is done.
        draw: for what is left to chance in it.
    """

    at_s: float
    name: str
    draw: int


def sequence(seed: int, minutes: float, faults: Iterable[str]) -> Iterator[Deed]:
    """What is done, in which order and when; a longer one begins like a shorter one."""
    chance, at_s = random.Random(seed), 0.0
    names = [*faults, *USER_REQUESTS]
    while True:
        at_s += chance.uniform(*chance.choice(WAITS_S))
        deed = Deed(at_s=at_s, name=chance.choice(names), draw=chance.randrange(len(BOUNDS)))
        if at_s >= 60 * minutes:
            return
        yield deed


def other_bounds(job: MatrixJob, draw: int) -> None:
    """Rescales by tier 0 or 1."""
    job.require(**BOUNDS[draw])


def other_partitions(job: MatrixJob, draw: int) -> None:
    """Rescales by tier 2."""
    job.redeploy(partitions=FEW_PARTITIONS + draw % 2)


def other_driver(job: MatrixJob, draw: int) -> None:
    """Rescales by tier 3."""
    job.redeploy(conf={"spark.deployed.by": f"{job.attempt} {draw}"})


def end_for_now(desired_state: str, job: MatrixJob, draw: int) -> None:
    """The next attempt begins as soon as this one has ended."""
    del draw
    job.request_state(desired_state)


def bad_row(job: MatrixJob, draw: int) -> None:
    """A batch fails, and is tried again when the row is gone."""
    job.poison()
    pause = time.monotonic() + draw
    wait_until(lambda: time.monotonic() >= pause, draw + 1.0, "the bad row to be read")
    job.cure()


USER_REQUESTS: Mapping[str, Callable[[MatrixJob, int], None]] = {
    "other requirements": other_bounds,
    "other state partitions": other_partitions,
    "another driver": other_driver,
    "suspend, resume": partial(end_for_now, "suspended"),
    "cancel, run again": partial(end_for_now, "canceled"),
    "a row that fails its batch": bad_row,
}

BREAKS: Mapping[str, Fault] = {fault.name: fault for fault in (*FAULTS, *BESIDE_STANDBY)}


class Chaos:
    """One job, and what is done to it."""

    def __init__(self, job: MatrixJob, *, has_disk: bool) -> None:
        self._job = job
        self._has_disk = has_disk
        self._began = time.monotonic()
        self._fed_s = 0.0
        self.done: Counter[str] = Counter()
        self.in_vain: Counter[str] = Counter()

    def run(self, deeds: list[Deed]) -> Outcome:
        """All of them; what came out in the end. Raises AssertionError."""
        self._job.begin()
        self._began = time.monotonic()
        for deed in deeds:
            self._live_until(lambda deed=deed: self._elapsed() >= deed.at_s)  # type: ignore[misc]
            self._do(deed)
        return self._drain()

    def _do(self, deed: Deed) -> None:
        state = where(self._job)["type"]
        failed = self._request(deed) if deed.name in USER_REQUESTS else self._break(BREAKS[deed.name])
        (self.in_vain if failed else self.done)[deed.name] += 1
        write_line(f"{deed.at_s:6.1f} s  {deed.name:<28} in {state:<20} {failed}")

    def _request(self, deed: Deed) -> str:
        USER_REQUESTS[deed.name](self._job, deed.draw)
        return ""

    def _break(self, fault: Fault) -> str:
        if fault in (FULL, READ_ONLY) and not self._has_disk:
            return "can't be mounted"
        if not fault.there(self._job):
            return "nothing there to break"
        self._job.faulted_at = time.monotonic()
        try:
            with fault.strikes(self._job):
                pass
        except BusyError:
            return "written to all the time"
        return ""

    def _drain(self) -> Outcome:
        """No more faults: all that went in must come out."""
        self._job.fault()
        self._live_until(lambda: self._job.is_well() or self._job.since_fault() > DRAIN_S, feeds=False)
        assert self._job.is_well(), f"not well {DRAIN_S:g} s after the last fault\n{self._job.story()}"
        self._job.recovery_s = self._job.since_fault()
        return self._job.finish(self._job.loop).check()

    def _live_until(self, condition: Callable[[], bool], *, feeds: bool = True) -> None:
        """Meanwhile the input continues, and the next attempt of a job that has ended begins."""
        while not condition():
            if feeds and self._elapsed() - self._fed_s >= FEED_S:
                self._fed_s = self._elapsed()
                self._job.feed(1)
            if (code := self._job.loop.poll()) is not None:
                assert code == 0, f"the loop ended with {code}\n{self._job.story()}"
                self._job.resume()
            time.sleep(TURN_S)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began


def write_line(line: str) -> None:
    """Write a line for the user."""
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def table(chaos: Chaos) -> str:
    """What was done, and how often."""
    head = f"{'What':<28} {'done':>5} {'in vain':>8}\n"
    names = [name for name in (*BREAKS, *USER_REQUESTS) if chaos.done[name] or chaos.in_vain[name]]
    return head + "\n".join(f"{name:<28} {chaos.done[name]:>5} {chaos.in_vain[name]:>8}" for name in names)


def run(seed: int, minutes: float, sink: str, standby: str, folder: Path) -> bool:
    """Whether all went well."""
    deeds = list(sequence(seed, minutes, [fault.name for fault in FAULTS] if standby == NONE else BREAKS))
    write_line(f"seed {seed}: {len(deeds)} deeds in {minutes:g} minutes")
    with ExitStack() as stack:
        (folder / "jobs").mkdir()
        has_disk = mounted(stack, folder / "jobs")
        cluster = stack.enter_context(LocalCluster(properties=recovering(folder / "master"), start_timeout_s=300))
        for _ in range(WORKERS):
            cluster.add_worker(**WORKER)
        job = _job(sink, standby, cluster, folder)
        stack.callback(job.close)
        chaos = Chaos(job, has_disk=has_disk)
        try:
            outcome = chaos.run(deeds)
        except AssertionError as error:
            again = f"make lab TASK='chaos --seed {seed} --minutes {minutes:g} --sink {sink} --standby {standby}'"
            write_line(f"{table(chaos)}\n\n{error}\n\nFAILED; once more: {again}")
            return False
        write_line(f"\n{table(chaos)}\n\n{sentence(outcome)}")
        return True


def _job(sink: str, standby: str, cluster: LocalCluster, folder: Path) -> MatrixJob:
    if sink == STRICT:
        return MatrixJob(cluster, folder / JOB, folder / "jobs", JOB, standby=standby)
    return TableJob(cluster, folder / JOB, folder / "jobs", JOB, standby=standby, sink=sink)


def sentence(outcome: Outcome) -> str:
    """What came out."""
    at_once = f", {outcome.drivers_at_once} at once" if outcome.drivers_at_once else ""
    return (
        f"{outcome.expected} rows went in, {outcome.found} came out, {outcome.duplicated} duplicated; {outcome.epochs} drivers"
        f" wrote{at_once}; drained in {outcome.recovery_s:.0f} s"
    )


def mounted(stack: ExitStack, jobs: Path) -> bool:
    """Whether the job directory got a disk of its own, until the stack is left."""
    try:
        stack.enter_context(small_disk(jobs, DISK_MB))
    except NoMountError as error:
        write_line(f"{error}; the faults of the job directory are passed over")
        return False
    return True


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="tests.lab.faults.chaos", description="break one job at random")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sink", choices=(STRICT, *SINKS), default=STRICT)
    parser.add_argument("--standby", choices=[*StandbyMode], default=NONE)
    arguments = parser.parse_args()
    use_short_lived_jvms()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-chaos-") as folder:
        return 0 if run(arguments.seed, arguments.minutes, arguments.sink, arguments.standby, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
