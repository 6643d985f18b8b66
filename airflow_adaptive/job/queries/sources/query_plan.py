"""What the physical plan of a query tells about the tasks that read the sources.

The module uses the JVM: `lastExecution` and `sink` of `StreamExecution`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_adaptive._core.protocol.sources import Shuffle

EXCHANGE: Final = re.compile(r"(?<![A-Za-z])Exchange ")

REPARTITION: Final = re.compile(r"\bREPARTITION_BY_(?:NUM|COL)\b")

FOREACH_BATCH: Final = "ForeachBatchSink"


def shuffle_of(execution: Any) -> Shuffle | None:
    """Return how the rows get to other tasks after they were read, or None before the first batch."""
    if str(execution.sink().getClass().getSimpleName()).startswith(FOREACH_BATCH):
        return Shuffle.UNKNOWN
    last = execution.lastExecution()
    return None if last is None else shuffle_in(str(last.executedPlan().toString()))


def shuffle_in(plan: str) -> Shuffle:
    """Return the shuffle in the text of a physical plan."""
    if REPARTITION.search(plan):
        return Shuffle.REPARTITION
    return Shuffle.EXCHANGE if EXCHANGE.search(plan) else Shuffle.NONE
