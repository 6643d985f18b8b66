"""The cost of a micro-batch of a query, estimated from observed batches, and the slots that a load requires.

Theory: DS2 (OSDI'18) divides the input rate by the *true* processing rate of a slot: rows per second of busy time. A
micro-batch also has a fixed cost (planning, commit). Therefore the true rate decreases with the size of the batch, and DS2 requests
too many slots for a job with little input. In this model, a batch of `rows` on `e` effective slots takes
`fixed + row_cost * rows / e`. A weighted least-squares fit over the observed batches determines both costs; older batches have less
weight. Without batches of different sizes, the fixed cost is 0, which is the rule of DS2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

FIT_DECAY = 0.98
"""Weight of all earlier batches when a batch is added: the fit covers about 50 batches."""

ROW_COST_DECAY = 0.7
"""Weight of earlier batches for the cost of a row, which changes faster than the fixed cost because data changes faster than the query."""

MIN_RELATIVE_VARIANCE = 0.02
"""Relative variance of the batch sizes above which the fit separates the fixed cost from the cost of the rows."""

ASSUMED_TRIGGER_S = 10.0
"""Assumed trigger interval of a query without one, in seconds."""

MAX_SLOTS = 1_000_000
"""Largest number of slots that the model returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCost:
    """Running sums over the batches of a query, and the fit to them.

    Attributes:
        weight: total weight of the counted batches.
        x: weighted sum of the rows per effective slot.
        y: weighted sum of the durations, in seconds.
        xx: weighted sum of the squares of x.
        xy: weighted sum of the products of x and y.
        fixed: duration of a batch without rows, in seconds.
        recent_x: sum like `x`, with more weight on the newest batches.
        recent_y: sum of the durations without the fixed cost, with the weights of `recent_x`.
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
        """Whether a batch with rows was counted."""
        return self.row_cost > 0

    @property
    def row_cost(self) -> float:
        """Slot-seconds per row; 0 before the first counted batch."""
        return self.recent_y / self.recent_x if self.recent_x > 0 else 0.0

    @property
    def has_spread(self) -> bool:
        """Whether batches of different sizes were counted, so that the fixed cost is known."""
        return self._variance > MIN_RELATIVE_VARIANCE * self.x * self.x > 0

    @property
    def _variance(self) -> float:
        return self.weight * self.xx - self.x * self.x

    def count(self, rows: float, seconds: float, effective: float) -> BatchCost:
        """Add a batch that ran on `effective` slots; a batch without rows or without a duration changes nothing."""
        x = rows / effective
        if not (x > 0 and seconds > 0 and math.isfinite(x * x) and math.isfinite(seconds * x)):
            return self
        summed = replace(
            self,
            weight=self.weight * FIT_DECAY + 1,
            x=self.x * FIT_DECAY + x,
            y=self.y * FIT_DECAY + seconds,
            xx=self.xx * FIT_DECAY + x * x,
            xy=self.xy * FIT_DECAY + x * seconds,
        )
        fixed = min(summed._fitted(), seconds)
        # A batch that consists of the fixed cost only must not make rows free of cost.
        of_rows = max(seconds - fixed, seconds * 0.05)
        return replace(
            summed,
            fixed=fixed,
            recent_x=self.recent_x * ROW_COST_DECAY + x,
            recent_y=self.recent_y * ROW_COST_DECAY + of_rows,
        )

    def seconds(self, rows: float, effective: float) -> float:
        """Return the duration of a batch of `rows` rows, in seconds."""
        return self.fixed + self.row_cost * rows / effective

    def rows(self, seconds: float, effective: float) -> float:
        """Return the rows of a batch with the duration `seconds`; 0 if the fixed cost alone takes that long."""
        return max(0.0, seconds - self.fixed) * effective / self.row_cost if self.is_known else 0.0

    def interval(self, trigger: float | None, share: float) -> float:
        """Return the seconds between two batches: the trigger interval, or longer if the fixed cost leaves no time for rows."""
        return max(trigger or ASSUMED_TRIGGER_S, 2 * self.fixed / share)

    def busy(self, rate: float, trigger: float | None, effective: float) -> float:
        """Return the share of the time for which an input of `rate` rows per second keeps the query busy."""
        interval = self.interval(trigger, 1.0)
        return self.seconds(rate * interval, effective) / interval

    def effective_slots(self, rate: float, trigger: float | None, share: float) -> float:
        """Return the effective slots, not rounded, with which an input of `rate` rows per second keeps the query busy for `share` of the time."""
        interval = self.interval(trigger, share)
        return min(self.row_cost * rate * interval / (share * interval - self.fixed), MAX_SLOTS)

    def _fitted(self) -> float:
        """Fixed cost by least squares; unchanged if the batch sizes are too similar or the slope is not positive."""
        if not self.has_spread:
            return self.fixed
        slope = (self.weight * self.xy - self.x * self.y) / self._variance
        return max(0.0, (self.y - slope * self.x) / self.weight) if slope > 0 else self.fixed


def effective(slots: int, partitions: int) -> float:
    """Return the effective slots: `partitions` tasks run in ceil(partitions / slots) waves, and the last wave may not use all slots.

    Args:
        slots: slots of the query.
        partitions: state partitions of the query; 1 or less for a stateless query, whose tasks follow the slots.
    """
    if partitions <= 1:
        return float(slots)
    return partitions / math.ceil(partitions / slots)


def aligned(needed: float, partitions: int) -> int:
    """Return the smallest number of slots with at least `needed` effective slots."""
    if not needed < MAX_SLOTS:
        return MAX_SLOTS
    least = max(1, math.ceil(needed - 1e-9))
    if partitions <= 1:
        return least
    waves = max(1, math.floor(partitions / max(needed, 1e-9) + 1e-9))
    return math.ceil(partitions / waves)
