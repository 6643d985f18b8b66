"""Reports which limit of the cluster keeps a job from more slots."""

from __future__ import annotations

from airflow_adaptive.runtime.cluster.open_limits import Shortage
from airflow_adaptive.scheduler.timeline import Reason, ReasonCode


class ShortageReports:
    """Reports each change of the limit or of the slots once. The amounts that a limit allows change with each poll."""

    def __init__(self) -> None:
        """Report nothing yet."""
        self._reported: tuple[Shortage, int] | None = None

    def reason(self, shortage: Shortage | None, slots: int) -> Reason | None:
        """Return the reason to report, None if there is no shortage or the shortage is reported.

        Args:
            shortage: why the job gets no more executors, None if it gets all that it can use.
            slots: slots that the job holds or can have.
        """
        current = None if shortage is None else (shortage, slots)
        is_reported, self._reported = current == self._reported, current
        if shortage is None or is_reported:
            return None
        return Reason(ReasonCode.SLOTS_PENDING, describe(shortage, slots))


def describe(shortage: Shortage, slots: int) -> str:
    """Return the slots of a job, and why the job gets no more."""
    return f"{slots} slot{'' if slots == 1 else 's'}: {shortage.text}"
