"""What came out of a job, by the files of its strict sink."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab.faults.harness import sink_log
from tests.lab.faults.harness.sink_log import BatchWrite, SinkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known in the end of one run of a fault.

    Attributes:
        expected: rows that went in.
        found: rows that came out.
        duplicated: of them, those that came out more than once.
        repeated: batches that were written again, because the driver ended before their commit.
        drivers_at_once: most drivers of one job that had batches at one moment, 0 if unknown.
        epochs: drivers that wrote a batch.
        recovery_s: from the fault until the rows that came with it were in the output.
        violations: of the guarantees. The table shows them, so an outcome with violations is an outcome, too: see `check`.
    """

    expected: int
    found: int
    duplicated: int
    repeated: int
    drivers_at_once: int
    epochs: int
    recovery_s: float
    violations: tuple[str, ...] = ()

    @classmethod
    def of(cls, writes: Sequence[BatchWrite], expected: Collection[Any], recovery_s: float) -> Outcome:
        """The outcome of a job that wrote these batches, with the violations of the guarantees."""
        ids = sink_log.row_ids(writes)
        return cls(
            expected=len(expected),
            found=len(ids),
            duplicated=len(ids) - len(set(ids)),
            repeated=sink_log.repeated(writes),
            drivers_at_once=sink_log.drivers_at_once(writes),
            epochs=len({write.epoch for write in sink_log.written(writes)}),
            recovery_s=recovery_s,
            violations=sink_log.all_violations(writes, expected),
        )

    @classmethod
    def of_all(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """What the outcomes of several jobs come to: their sums, and the worst of what can't be summed up."""
        return cls(
            expected=sum(each.expected for each in outcomes),
            found=sum(each.found for each in outcomes),
            duplicated=sum(each.duplicated for each in outcomes),
            repeated=sum(each.repeated for each in outcomes),
            drivers_at_once=max(each.drivers_at_once for each in outcomes),
            epochs=sum(each.epochs for each in outcomes),
            recovery_s=max(each.recovery_s for each in outcomes),
            violations=tuple(violation for each in outcomes for violation in each.violations),
        )

    def check(self) -> Outcome:
        """Return this outcome. Raises `SinkError` if a guarantee was violated."""
        if self.violations:
            raise SinkError("\n".join(self.violations))
        return self
