"""What a micro-batch of a query costs, learned from its own batches, and how many slots a load takes by that.

Theory: DS2 (OSDI'18) divides the rate that comes in by the *true* processing rate of a slot: rows per second of busy time.
A micro-batch has a fixed cost beside that (planning, commit), so its true rate falls with its size and DS2's rule asks an idle
job for too many slots. Here a batch of `rows` on `e` effective slots takes `fixed + row_cost * rows / e`; both are fitted to
the batches that were seen, older ones counting less. Without batches of different sizes the fixed cost is taken as 0, which
is DS2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

MEMORY_OF_FIT = 0.98
"""Weight of all earlier batches when one more is counted: the fit reaches some 50 different batches back."""

MEMORY_OF_COST = 0.7
"""The cost of a row is followed faster than the fixed cost: data changes sooner than the query does."""

LEAST_SPREAD = 0.02
"""Relative variance of the batches' sizes from which the fixed cost can be told from that of the rows."""

BATCH_GOAL = 10.0
"""Trigger interval, in seconds, that is assumed for a query that is triggered as fast as possible."""

MOST_SLOTS = 1_000_000
"""More are not asked for, whatever the figures say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCost:
    """Running sums over the batches of a query, and the fit to them.

    Attributes:
        weight: of the batches that were counted.
        x: sum of rows per effective slot.
        y: sum of seconds.
        xx: sum of squares of x.
        xy: sum of products.
        fixed: seconds of a batch without rows.
        recent_x: as `x`, of the newest batches.
        recent_y: sum of their seconds without the fixed cost.
    """

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    fixed: float = 0.0
    recent_x: float = 0.0
    recent_y: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any batch with rows was counted."""
        return self.row_cost > 0

    @property
    def row_cost(self) -> float:
        """Seconds of a slot per row; 0 while no batch was counted."""
        return self.recent_y / self.recent_x if self.recent_x > 0 else 0.0

    @property
    def has_spread(self) -> bool:
        """Whether batches of different sizes were seen, so that the fixed cost is known."""
        return self._variance > LEAST_SPREAD * self.x * self.x > 0

    @property
    def _variance(self) -> float:
        return self.weight * self.xx - self.x * self.x

    def count(self, rows: float, seconds: float, effective: float) -> BatchCost:
        """One more batch, on so many effective slots; a batch without rows or without duration tells nothing."""
        x = rows / effective
        if not (x > 0 and seconds > 0 and math.isfinite(x * x) and math.isfinite(seconds * x)):
            return self
        summed = replace(
            self,
            weight=self.weight * MEMORY_OF_FIT + 1,
            x=self.x * MEMORY_OF_FIT + x,
            y=self.y * MEMORY_OF_FIT + seconds,
            xx=self.xx * MEMORY_OF_FIT + x * x,
            xy=self.xy * MEMORY_OF_FIT + x * seconds,
        )
        fixed = min(summed._fitted(), seconds)
        # A batch that is all fixed cost must not make rows free of charge.
        of_rows = max(seconds - fixed, seconds * 0.05)
        return replace(
            summed,
            fixed=fixed,
            recent_x=self.recent_x * MEMORY_OF_COST + x,
            recent_y=self.recent_y * MEMORY_OF_COST + of_rows,
        )

    def seconds(self, rows: float, effective: float) -> float:
        """How long a batch of so many rows takes."""
        return self.fixed + self.row_cost * rows / effective

    def rows(self, seconds: float, effective: float) -> float:
        """Least rows of a batch that takes so long; 0 if the fixed cost accounts for it."""
        return max(0.0, seconds - self.fixed) * effective / self.row_cost if self.is_known else 0.0

    def interval(self, trigger: float | None, share: float) -> float:
        """Seconds between two batches at which the fixed cost leaves room for rows: the trigger's if that is long enough."""
        return max(trigger or BATCH_GOAL, 2 * self.fixed / share)

    def busy(self, rate: float, trigger: float | None, effective: float) -> float:
        """Share of the time that rows at this rate keep the query busy."""
        interval = self.interval(trigger, 1.0)
        return self.seconds(rate * interval, effective) / interval

    def effective_slots(self, rate: float, trigger: float | None, share: float) -> float:
        """Effective slots, not rounded, on which rows at this rate keep the query busy for `share` of the time."""
        interval = self.interval(trigger, share)
        return min(self.row_cost * rate * interval / (share * interval - self.fixed), MOST_SLOTS)

    def _fitted(self) -> float:
        """Fixed cost by least squares, 0 if the sizes are too much alike, or the fit makes no sense."""
        if not self.has_spread:
            return self.fixed
        slope = (self.weight * self.xy - self.x * self.y) / self._variance
        return max(0.0, (self.y - slope * self.x) / self.weight) if slope > 0 else self.fixed


def effective(slots: int, partitions: int) -> float:
    """Slots that work: `partitions` tasks run in ceil(partitions / slots) waves, and the last wave may be short.

    Args:
        slots: of the query.
        partitions: of its state; 1 or less if it has none, so that its tasks follow the slots.
    """
    if partitions <= 1:
        return float(slots)
    return partitions / math.ceil(partitions / slots)


def aligned(needed: float, partitions: int) -> int:
    """Fewest slots of which at least `needed` work: no slot that would only shorten a straggling wave."""
    if not needed < MOST_SLOTS:
        return MOST_SLOTS
    least = max(1, math.ceil(needed - 1e-9))
    if partitions <= 1:
        return least
    waves = max(1, math.floor(partitions / max(needed, 1e-9) + 1e-9))
    return math.ceil(partitions / waves)
