"""What the demonstration says: progress while it runs, tables and the comparison at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from airflow_adaptive.local.demo.job import Transition
from airflow_adaptive.local.demo.truth import Hour

SHOWN_DIFFERENCES = 5


class Reporter:
    """Prints lines with the time since it was made."""

    def __init__(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        print(f"{minutes:2}:{seconds:02}  {text}", flush=True)

    def title(self, text: str) -> None:
        """Print a line that begins something new."""
        print(flush=True)
        self.say(f"== {text}")


def transition_line(transition: Transition) -> str:
    """A transition in a line."""
    return f"{transition.source} -> {transition.target} [{change(transition)}]: {transition.reason}"


def change(transition: Transition) -> str:
    """What a transition did to the slots in use."""
    before, after = (str(slots or "-") for slots in (transition.before, transition.after))
    return before if before == after else f"{before} -> {after}"


def transitions_table(transitions: Sequence[Transition]) -> str:
    """All transitions, each with the time that the job had spent in the state that it left."""
    began: datetime | None = None
    rows = [("time (UTC)", "from", "took", "to", "slots", "reason")]
    for transition in transitions:
        took = "" if began is None else seconds(transition.at - began)
        time_of_day = transition.at.strftime("%H:%M:%S")
        rows.append((time_of_day, transition.source, took, transition.target, change(transition), transition.reason))
        began = transition.at
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def seconds(duration: timedelta) -> str:
    """A duration for people."""
    return f"{duration.total_seconds():.1f} s"


def differences(output: Iterable[Hour], truth: Iterable[Hour]) -> list[str]:
    """What distinguishes the output from the truth, [] if nothing does; a row that is there twice is a difference."""
    got, wanted = Counter(output), Counter(truth)
    missing, surplus = wanted - got, got - wanted
    return [*_difference("missing", missing), *_difference("wrong or double", surplus)]


def _difference(kind: str, rows: Counter[Hour]) -> list[str]:
    shown = [f"  {row}" for row in sorted(rows)[:SHOWN_DIFFERENCES]]
    return [f"{rows.total()} rows {kind}, such as:", *shown] if rows else []
