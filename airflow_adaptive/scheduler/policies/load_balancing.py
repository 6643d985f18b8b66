"""Which subtasks lie in which slot, and which slots on which worker, after FLIP-370."""

from __future__ import annotations

from enum import StrEnum


class LoadBalanceMode(StrEnum):
    """What is spread evenly (Flink: `taskmanager.load-balance.mode`)."""

    NONE = "none"
    """Nothing: subtask i of every vertex lies in slot i, slots are taken as they come."""
    SLOTS = "slots"
    """Slots over workers."""
    TASKS = "tasks"
    """Subtasks over slots, and their load over workers."""
