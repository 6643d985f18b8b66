"""What came out of a job: its rows as the sink tells them, and which drivers ran a query when, as they tell it themselves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

SAMPLE_S = 0.5
"""Validity of a mark of a driver: more than twice the time between two marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known in the end of one run of a fault.

    Attributes:
        expected: rows that went in.
        found: rows that came out.
        duplicated: of them, those that came out more than once.
        drivers_at_once: most drivers of one job whose queries were active at one moment, as they saw it themselves.
        epochs: drivers that began a query.
        recovery_s: from the fault until the rows that came with it were in the output.
    """

    expected: int
    found: int
    duplicated: int
    drivers_at_once: int
    epochs: int
    recovery_s: float

    @classmethod
    def of_all(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """What the outcomes of several jobs come to: their sums, and the worst of what can't be summed up."""
        return cls(
            expected=sum(each.expected for each in outcomes),
            found=sum(each.found for each in outcomes),
            duplicated=sum(each.duplicated for each in outcomes),
            drivers_at_once=max(each.drivers_at_once for each in outcomes),
            epochs=sum(each.epochs for each in outcomes),
            recovery_s=max(each.recovery_s for each in outcomes),
        )


def drivers_at_once(marks: Path) -> int:
    """Most drivers whose queries were active at the same moment."""
    activity = list(_activity(marks))
    moments = [moment for each in activity for moment in each]
    return max((_active_at(moment, activity) for moment in moments), default=0)


def _activity(marks: Path) -> Iterator[list[float]]:
    """For each driver, when its queries were active."""
    for file in marks.iterdir():
        samples = [line.split() for line in file.read_text().splitlines() if line.count(" ") == 1]
        yield [float(at) for at, active in samples if active == "1"]


def _active_at(moment: float, activity: Iterable[list[float]]) -> int:
    return sum(any(abs(moment - other) < SAMPLE_S / 2 for other in moments) for moments in activity)


def sink_batches(sink: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of each batch of a file sink of JSON, as its own metadata has them: what was cut does not count."""
    folder = sink / "_spark_metadata"
    files = [file for file in folder.iterdir() if file.name.partition(".")[0].isdecimal()] if folder.is_dir() else []
    compacted = max((int(file.stem) for file in files if file.suffix == ".compact"), default=-1)
    later = [file for file in files if not file.suffix and int(file.name) > compacted]
    for file in sorted([*later, *(it for it in files if it.name == f"{compacted}.compact")], key=_number):
        entries = [json.loads(line) for line in file.read_text().splitlines()[1:]]
        texts = [Path(unquote(urlsplit(entry["path"]).path)).read_text() for entry in entries]
        lines = itertools.chain.from_iterable(text.splitlines() for text in texts)
        yield _number(file), [json.loads(line) for line in lines]


def _number(file: Path) -> int:
    return int(file.name.partition(".")[0])
