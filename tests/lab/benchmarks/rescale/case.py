"""A case: one job on one system that is rescaled again and again; what both systems have in common."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_adaptive.local.waiting import wait_until
from tests.lab.benchmarks.rescale import processes
from tests.lab.benchmarks.rescale.feed import FILES_PER_S, HURRY, JOURNAL, SEEDS, checksum, put, read_journal, truth
from tests.lab.benchmarks.rescale.measurements import Order, Repeat, Span
from tests.support.repository import ROOT

SETTLE_S: Final = 3.0
"""After a rescale has taken effect: what came meanwhile is caught up with."""

STEADY_S: Final = 5.5
"""Nothing is changed for so long."""

GUARD_S: Final = 1.5
"""What came so shortly before the next order may be seen after it: it counts for neither."""

CATCH_UP_S: Final = 120.0
"""For all that is left in the end."""

SLOTS: Final = 2
"""The most; it goes down to one and up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(ABC):
    """What is measured.

    Attributes:
        name: for example "tier 1" or "Flink".
        keys: of the state.
    """

    name: str
    keys: int

    @abstractmethod
    def run(self, root: Path, *, repeats: int, warm_up: int, deadline: float, files: int) -> Found:
        """Measure it.

        Args:
            root: an empty folder.
            repeats: rescales that are measured.
            warm_up: as many before that are not.
            deadline: monotonic; no rescale is begun that may not be over then.
            files: that the job gets in all.
        """

    @property
    def title(self) -> str:
        """Human-readable name."""
        return f"{self.name}, {self.keys:,} keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came out of a case.

    Attributes:
        title: of the case.
        repeats: measured, those for warming up left out.
        period_s: from a batch, or a checkpoint, to the next one in steady running.
        rows: that went in.
        lost: rows that did not come out.
        duplicated: rows that came out once too often.
        checksum: of all counts.
        load: load average before it.
        error: why there is nothing, or not all.
    """

    title: str
    repeats: tuple[Repeat, ...] = ()
    period_s: float = 0.0
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    checksum: str = ""
    load: float = 0.0
    error: str = ""


class Subject(ABC):
    """A job on one of the systems, started and fed."""

    @abstractmethod
    def order(self, slots: int) -> float:
        """Order a rescale to so many slots; when it was ordered."""

    @abstractmethod
    def wait_effect(self) -> None:
        """Wait until the requested plan is active and has processed rows."""

    @abstractmethod
    def warm_up(self) -> None:
        """Let some batches, or checkpoints, pass."""

    @abstractmethod
    def end(self) -> None:
        """End the job in order: nothing more comes out."""

    @abstractmethod
    def measured(self, given: Sequence[Order]) -> tuple[float, list[Repeat], str]:
        """Period of batches or checkpoints, what each rescale cost, and what was wrong with one that could not be measured."""

    @abstractmethod
    def counted(self) -> Sequence[Mapping[int, int]]:
        """By key, all that must be what went in, first of all the newest counts in the output."""

    @abstractmethod
    def forget(self) -> None:
        """Read the output again from its begin."""


def orders(subject: Subject, repeats: int, deadline: float) -> tuple[list[Order], str]:
    """Rescale down and up in turn, so often or until the deadline (monotonic) has passed; and what put an end to it."""
    given: list[Order] = []
    longest = 0.0
    while len(given) < repeats:
        begun = time.monotonic()
        if begun + longest > deadline:
            return given, "no time left for more"
        slots = 1 + len(given) % SLOTS
        try:
            given.append(_order(subject, slots))
        except (
            AssertionError,
            OSError,
            RuntimeError,
        ) as error:  # a wait that was too long is a TimeoutError or a failed assertion
            return given, first_line(error)
        longest = max(longest, time.monotonic() - begun)
    return given, ""


def _order(subject: Subject, slots: int) -> Order:
    at = subject.order(slots)
    subject.wait_effect()
    print(f"  {slots} slot(s) after {time.time() - at:.1f} s", file=sys.stderr, flush=True)
    time.sleep(SETTLE_S)
    steady_from = time.time()
    time.sleep(STEADY_S)
    steady = Span(begin=steady_from, end=time.time() - GUARD_S)
    return Order(slots=slots, window=Span(begin=at, end=steady_from), steady=steady)


def first_line(error: BaseException) -> str:
    """What goes into a cell of a table."""
    message = str(error).partition("\n")[0].replace("|", "/")[:160]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def all_measured(given: Sequence[Order], measure: Callable[[Order], Repeat]) -> tuple[list[Repeat], str]:
    """What each rescale cost; and what was wrong with the last one that could not be measured."""
    repeats, wrong = [], ""
    for order in given:
        try:
            repeats.append(measure(order))
        except (KeyError, ValueError) as error:
            wrong = f"a rescale could not be measured: {first_line(error)}"
    return repeats, wrong


def seed(folder: Path, keys: int) -> None:
    """Let the files with each key once be there."""
    folder.mkdir(parents=True)
    for number in range(-SEEDS, 0):
        put(folder, number, keys)


@contextmanager
def feeding(folder: Path, keys: int, files: int) -> Iterator[None]:
    """Files come meanwhile, whatever the job does."""
    command = [sys.executable, "-m", "tests.lab.benchmarks.rescale.feed", str(folder), str(keys), str(files)]
    feeder = processes.start(command, folder.parent / "feed.log", cwd=ROOT)
    try:
        wait_until(lambda: journal(folder), 30.0, "the first file")
        yield
    finally:
        processes.end([feeder])


def hurry(folder: Path, files: int) -> None:
    """Let all that is left come at once."""
    (folder.parent / HURRY).touch()
    wait_until(lambda: len(journal(folder)) == files, 60.0, "all files")


def journal(folder: Path) -> dict[int, float]:
    """When each file came."""
    file = folder.parent / JOURNAL
    return read_journal(file.read_text()) if file.exists() else {}


def files_within(seconds: float) -> int:
    """So many files come in that time; each case gets so many in the end, so that all results are equal."""
    return round(seconds * FILES_PER_S)


def measure(
    case: Case, subject: Subject, folder: Path, *, repeats: int, warm_up: int, deadline: float, files: int
) -> Found:
    """Feed a job that runs, rescale it, and look at what came out and what it cost."""
    load = os.getloadavg()[0]
    with feeding(folder, case.keys, files):
        subject.warm_up()
        given, stopped = orders(subject, warm_up + repeats, deadline)
        hurry(folder, files)
        wait_complete(subject, case.keys, files)
    subject.end()
    subject.forget()  # a batch may have been written again
    result = compare(subject.counted(), truth(case.keys, files))
    period_s, measured, wrong = subject.measured(given[warm_up:]) if given[warm_up:] else (0.0, [], "")
    error = "; ".join(filter(None, (stopped, wrong)))
    return Found(title=case.title, repeats=tuple(measured), period_s=period_s, load=load, error=error, **result)


def wait_complete(subject: Subject, keys: int, files: int) -> None:
    """Wait until as many rows are counted as went in; what does not come in time is lost."""
    rows = truth(keys, files).total()
    try:
        wait_until(
            lambda: all(sum(it.values()) >= rows for it in subject.counted()), CATCH_UP_S, "all rows in the output", 1.0
        )
    except TimeoutError as error:
        print(f"  {error}", file=sys.stderr)


def compare(counted: Sequence[Mapping[int, int]], expected: Mapping[int, int]) -> dict[str, Any]:
    """What is wrong with the counts."""
    return {
        "rows": sum(expected.values()),
        "lost": max(_missing(counts, expected) for counts in counted),
        "duplicated": max(_missing(expected, counts) for counts in counted),
        "checksum": checksum(counted[0]),
    }


def _missing(some: Mapping[int, int], others: Mapping[int, int]) -> int:
    """By how much some counts fall short of others."""
    return sum(max(0, number - some.get(key, 0)) for key, number in others.items())


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended."""
    return process.poll() is not None
