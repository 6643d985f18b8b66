"""The printed output of the demo: progress lines and tables."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from airflow_adaptive.local.demo.job import Transition

MAX_REASON_CHARACTERS = 100
"""Length of a reason in the table. The progress lines contain the complete reasons."""


class Reporter:
    """Prints lines with the time since the start of the demo."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def report(self, text: str) -> None:
        """Print a line."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        print(f"{minutes:2}:{seconds:02}  {text}", flush=True)

    def heading(self, text: str) -> None:
        """Print the heading of a new step."""
        print(flush=True)
        self.report(f"== {text}")


def transition_line(transition: Transition) -> str:
    """Format a transition as one line."""
    return f"{transition.source} -> {transition.target} [{slot_change(transition)}]: {transition.reason}"


def slot_change(transition: Transition) -> str:
    """Format the slots in use before and after a transition."""
    before, after = (str(slots or "-") for slots in (transition.slots_before, transition.slots_after))
    return before if before == after else f"{before} -> {after}"


def transitions_table(transitions: Sequence[Transition]) -> str:
    """Format all transitions, each with the time that the job spent in the state before the transition."""
    entered: datetime | None = None
    rows = [("time (UTC)", "from", "took", "to", "slots", "reason")]
    for transition in transitions:
        took = "" if entered is None else seconds(transition.at - entered)
        time_of_day = transition.at.strftime("%H:%M:%S")
        reason = textwrap.shorten(transition.reason, MAX_REASON_CHARACTERS, placeholder="...")
        rows.append((time_of_day, transition.source, took, transition.target, slot_change(transition), reason))
        entered = transition.at
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned columns. The first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def seconds(duration: timedelta) -> str:
    """Format a duration."""
    return f"{duration.total_seconds():.1f} s"
