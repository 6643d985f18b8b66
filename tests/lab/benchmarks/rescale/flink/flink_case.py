"""The peer: the same on Flink, which has one way to rescale."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_adaptive.local.waiting import wait_until
from tests.lab.benchmarks.rescale.case import SLOTS, Case, Found, Subject, all_measured, journal, measure, seed
from tests.lab.benchmarks.rescale.flink.flink_log import JobLog, SinkFiles
from tests.lab.benchmarks.rescale.flink.installation import Flink, find
from tests.lab.benchmarks.rescale.measurements import Order, Repeat, missed, worst_delay

SCRIPT: Final = Path(__file__).with_name("flink_job.py")

EFFECT_S: Final = 90.0
LOOK_S: Final = 0.05


class FlinkSubject(Subject):
    """The job on its cluster."""

    def __init__(self, flink: Flink, root: Path) -> None:
        """Submitted already."""
        self._flink = flink
        self._root = root
        self._sink = SinkFiles()
        self._slots = SLOTS

    def order(self, slots: int) -> float:
        """See `Subject`."""
        at = time.time()
        self._slots = slots
        self._flink.request(slots)
        return at

    def wait_effect(self) -> None:
        """Wait until all tasks run, and for two checkpoints after that."""
        self._flink.wait_running(self._slots)
        self.wait_checkpoints(2)

    def wait_checkpoints(self, count: int) -> None:
        """Wait for so many more than there are now."""
        goal = self._flink.checkpoints() + count
        wait_until(lambda: self._flink.checkpoints() >= goal, EFFECT_S, "Flink's checkpoints", LOOK_S)

    def wait_seed(self, keys: int) -> None:
        """Wait until the state has its size."""
        wait_until(lambda: len(self.counted()[0]) == keys, EFFECT_S, "Flink's state", 1.0)

    def counted(self) -> Sequence[Mapping[int, int]]:
        """The highest count of each key, and the number of its rows: one for each record."""
        self._sink.read(self._root / "out")
        return self._sink.highest, self._sink.rows

    def forget(self) -> None:
        """See `Subject`."""
        self._sink = SinkFiles()

    def warm_up(self) -> None:
        """See `Subject`."""
        self.wait_checkpoints(3)

    def end(self) -> None:
        """It ends with its cluster; what is not committed now is missing."""

    def measured(self, given: Sequence[Order]) -> tuple[float, list[Repeat], str]:
        """See `Subject`."""
        log = JobLog()
        log.take(self._flink.log.read_text().splitlines())
        pace, came = log.period(given), journal(self._root / "in")
        repeats, wrong = all_measured(given, lambda order: self._repeat(log, order, pace, came))
        return pace, repeats, wrong

    def _repeat(self, log: JobLog, order: Order, pace: float, came: dict[int, float]) -> Repeat:
        stood, ran = log.stood(order)
        return Repeat(
            slots=order.slots,
            dead_s=ran - stood,
            missed=missed(ran - stood, 0.0, pace),
            effect_s=ran - order.window.begin,
            slot_s=0.0,
            delay_s=worst_delay(came, self._sink.seen, order.window),
            steady_delay_s=worst_delay(came, self._sink.seen, order.steady),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCase(Case):
    """Flink.

    Attributes:
        environment: where Flink is, or is to be installed.
    """

    environment: Path

    def run(self, root: Path, *, repeats: int, warm_up: int, deadline: float, files: int) -> Found:
        """See `Case`. Raises `FlinkMissingError`."""
        home = find(self.environment)
        seed(root / "in", self.keys)
        (root / "out").mkdir()
        with Flink(home, root / "flink") as flink:
            flink.start()
            flink.submit(SCRIPT, root / "in", root / "out")
            subject = FlinkSubject(flink, root)
            subject.wait_seed(self.keys)
            return measure(self, subject, root / "in", repeats=repeats, warm_up=warm_up, deadline=deadline, files=files)
