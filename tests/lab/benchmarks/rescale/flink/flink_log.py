"""What Flink's log and the files of its sink tell: which tasks stood still when, checkpoints, and what could be seen when."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.lab.benchmarks.rescale.measurements import Order

LINE: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ")
TASK_LEFT: Final = re.compile(r"\(\d+/\d+\) .*switched from RUNNING to (CANCELING|FAILED)")
TASK_RUNS: Final = re.compile(r"\(\d+/\d+\) .*switched from \w+ to RUNNING\.")
CHECKPOINT: Final = re.compile(r"Completed checkpoint \d+ for job")


@dataclass(slots=True)
class JobLog:
    """Moments, in seconds since the epoch.

    Attributes:
        left: when a task was canceled, or failed.
        runs: when one began to run.
        checkpoints: when one was complete.
    """

    left: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    checkpoints: list[float] = field(default_factory=list)

    def take(self, lines: Iterable[str]) -> None:
        """Take up what the JobManager says (in UTC)."""
        for line in lines:
            matched = LINE.match(line)
            if matched is None:
                continue
            at = datetime.strptime(matched[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
            for pattern, moments in self._kinds():
                if pattern.search(line):
                    moments.append(at + int(matched[2]) / 1000)

    def _kinds(self) -> tuple[tuple[re.Pattern[str], list[float]], ...]:
        return (TASK_LEFT, self.left), (TASK_RUNS, self.runs), (CHECKPOINT, self.checkpoints)

    def stood(self, order: Order) -> tuple[float, float]:
        """From when until when a rescale let tasks stand still: from the first that ended to the last that began.

        Raises:
            ValueError: no task did.
        """
        left = [at for at in self.left if order.window.has(at)]
        runs = [at for at in self.runs if order.window.has(at)]
        if not left or not runs:
            raise ValueError("no task has begun again")
        return min(left), max(runs)

    def period(self, orders: Sequence[Order]) -> float:
        """Median time between two checkpoints, while nothing is changed.

        Raises:
            ValueError: there are no two.
        """
        times = [
            later - earlier
            for earlier, later in pairwise(self.checkpoints)
            if any(order.steady.has(earlier) and order.steady.has(later) for order in orders)
        ]
        if not times:
            raise ValueError("no two checkpoints while nothing was changed")
        return statistics.median(times)


@dataclass(slots=True)
class SinkFiles:
    """What is in the files of the sink that were committed: a running count for each record.

    Attributes:
        rows: of each key.
        highest: count of each key.
        seen: when the last record of each file of the input could be seen, seconds since the epoch.
    """

    rows: Counter[int] = field(default_factory=Counter)
    highest: dict[int, int] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def take(self, text: str, at: float) -> None:
        """Take up a file that was committed at that moment."""
        for line in text.splitlines():
            key, count, number = map(int, line.split(","))
            self.rows[key] += 1
            self.highest[key] = max(count, self.highest.get(key, 0))
            self.seen[number] = max(at, self.seen.get(number, at))

    def read(self, folder: Path) -> None:
        """Take up what has come since the last look; files that are not committed are hidden."""
        for file in folder.glob("part-*"):
            if file.name not in self._known:
                self._known.add(file.name)
                self.take(file.read_text(), file.stat().st_ctime)  # renaming it was its commit
