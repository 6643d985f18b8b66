"""The gang of a query in Real-Time Mode: the tasks of all its stages, which run at the same time.

Theory: a shuffle of Real-Time Mode streams rows between running tasks, so that Spark starts a batch only if all tasks have a slot
(`CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT`). The first stage has one task for each partition of the topics, and each shuffle adds a
stage with one task for each partition of the shuffle. The script determines the number of topics and the partitions of `repartition(n)`.
The driver chooses the partitions of all other shuffles, so that the gang grows and shrinks with the slots of the plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

EXCHANGE: Final = re.compile(r"(?<![A-Za-z])Exchange (\w+)(?:\((?:.*?, )?(\d+)\))?(.*)")
"""A shuffle in the text of a physical plan: its partitioning, the number of partitions, and the rest of the line."""

SINGLE: Final = "SinglePartition"

SET_BY_SCRIPT: Final = "REPARTITION_BY_NUM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The tasks that run at the same time.

    Attributes:
        inputs: tasks that read the sources.
        fixed: tasks of shuffles whose number of partitions is fixed.
        shuffles: number of shuffles whose partitions the driver chooses.
        kept: number of partitions that the checkpoint keeps for these shuffles, None if the number can change.
    """

    inputs: int
    fixed: int = 0
    shuffles: int = 0
    kept: int | None = None

    @property
    def minimum(self) -> int:
        """Slots that the query needs at least."""
        return self.slots(self.kept or 1)

    @property
    def can_grow(self) -> bool:
        """Whether the query can use more slots."""
        return self.shuffles > 0 and self.kept is None

    def slots(self, partitions: int) -> int:
        """Return the slots for this number of partitions of each shuffle."""
        return self.inputs + self.fixed + self.shuffles * partitions

    def partitions(self, slots: int, most: int) -> int:
        """Return the number of partitions of each shuffle on this number of slots, at most `most`."""
        if self.kept is not None:
            return self.kept
        spare = slots - self.inputs - self.fixed
        return max(1, min(most, spare // self.shuffles)) if self.shuffles else most


def shuffles_of(plan: str) -> tuple[int, int]:
    """Return the tasks of shuffles with a fixed number of partitions, and the number of other shuffles.

    Args:
        plan: text of a physical plan.
    """
    found = EXCHANGE.findall(plan)
    fixed = [1 if kind == SINGLE else int(count) for kind, count, rest in found if _is_fixed(kind, rest)]
    return sum(fixed), len(found) - len(fixed)


def _is_fixed(kind: str, rest: str) -> bool:
    return kind == SINGLE or SET_BY_SCRIPT in rest
