"""Results of a rescale benchmark."""

from __future__ import annotations

from typing import Any

from tests.lab.benchmarks.rescale.case import Found
from tests.lab.benchmarks.rescale.measurements import (
    Batch,
    Repeat,
    Span,
)


def batch(number: int, begin: float, end: float, run: str = "a") -> Batch:
    return Batch(run=run, number=number, span=Span(begin=begin, end=end), logged=(number - 1, number))


BATCHES = [batch(0, 8, 11), batch(1, 11.5, 13), batch(2, 14, 15, "b"), batch(3, 21, 22, "b"), batch(4, 23, 24, "b")]


def repeat(**changes: Any) -> Repeat:
    usual: dict[str, Any] = {
        "dead_s": 0.2,
        "missed": 0,
        "effect_s": 2.0,
        "slot_s": 0.5,
        "delay_s": 2.0,
        "steady_delay_s": 1.0,
    }
    return Repeat(**{"slots": 2, **usual, **changes})


def found(name: str, size: str = "10,000 keys", **changes: Any) -> Found:
    repeats = (repeat(**changes), repeat(**changes, slots=1))
    return Found(title=f"{name}, {size}", repeats=repeats, period_s=0.5, rows=100, checksum="abc", load=1.0)
