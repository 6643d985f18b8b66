"""Modes in which the parallelism of a vertex is aligned with the partitions that it reads (FLIP-586)."""

from __future__ import annotations

from enum import StrEnum


class SourceAlignment(StrEnum):
    """How the upper bound of a vertex that reads a source is aligned with the number of partitions."""

    BALANCED = "balanced"
    """Raise the parallelism to the next value with which the subtasks read fewer partitions, if there is one; else keep the value."""
    EVENLY_SPREAD = "evenly_spread"
    """Use a divisor of the number of partitions, so that each subtask reads equally many: the next larger one, else the next smaller one."""
    OFF = "off"
    """Use at most as many subtasks as partitions."""
