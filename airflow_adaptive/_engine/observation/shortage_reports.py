"""Reports which limit of the cluster keeps a job from more slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_adaptive._core.ports import LimitKind
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._engine.cluster.open_limits import Shortage

REMEDIES: Final[Mapping[LimitKind, str]] = {
    LimitKind.WORKERS: "add workers",
    LimitKind.QUOTA: "raise the quota",
    LimitKind.QUEUE: "raise the share of the queue",
    LimitKind.CAP: "raise the cap",
}


class ShortageReports:
    """Reports each change of the limit or of the slots once. The amounts that a limit allows change with each poll."""

    def __init__(self) -> None:
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

    @property
    def remedy(self) -> str:
        """Why the job gets no more slots, and what to do; "" if it gets all that it can use."""
        return "" if self._reported is None else remedy(self._reported[0])


def describe(shortage: Shortage, slots: int) -> str:
    """Return the slots of a job, and why the job gets no more."""
    return f"{slots} slot{'' if slots == 1 else 's'}: {shortage.text}"


def remedy(shortage: Shortage) -> str:
    """Return why a job gets no more slots, and what to do."""
    if shortage.is_of_placement:
        return f"{shortage.text}: correct them, or let workers have the labels that they require and no other taints"
    other = "a smaller driver" if shortage.is_of_driver else "lower bounds or smaller executors"
    return f"{shortage.text}: {REMEDIES[shortage.kind]}, or declare {other}"
