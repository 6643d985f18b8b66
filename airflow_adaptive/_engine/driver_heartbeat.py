"""The heartbeat of a driver: when the loop first read the newest driver status.

The clocks of the driver and of Airflow are not compared. A driver has missed its heartbeat if the sequence number in its status
does not change for a time that the clock of the loop measures. The heartbeat is part of each journal document, so that a loop that
takes over continues the measurement instead of starting it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.scheduler.state import SchedulerState


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverHeartbeat:
    """The newest driver status of one driver, with the values that heartbeats and commits need.

    Attributes:
        epoch: epoch of the driver.
        received_at: when the loop first read the newest status; the start of the measurement before the first status.
        sequence: sequence number of the newest status, -1 before the first status.
        formats: formats of journal documents that the driver reads, empty before the first status. The journal does not
            contain them.
        committed: batches that the newest status counts, None before the first status. The journal does not contain it.
    """

    epoch: int
    received_at: datetime
    sequence: int = -1
    committed: int | None = None
    formats: tuple[int, ...] = ()

    @property
    def lasting(self) -> DriverHeartbeat:
        """What the next loop needs."""
        return replace(self, committed=None, formats=())

    def continued(self, epoch: int, now: datetime) -> DriverHeartbeat:
        """Return the heartbeat for the loop that takes over at this time; a new one if this is the heartbeat of a driver of another epoch."""
        if self.epoch != epoch:
            return DriverHeartbeat(epoch=epoch, received_at=now)
        return replace(self, received_at=min(self.received_at, now))

    def updated(self, state: SchedulerState, status: DriverStatus | None, now: datetime) -> DriverHeartbeat:
        """Return the heartbeat after a poll that found this status of the driver of the current epoch. A new epoch starts a new measurement."""
        heartbeat = self if self.epoch == state.epoch else DriverHeartbeat(epoch=state.epoch, received_at=now)
        if status is None or status.sequence == heartbeat.sequence:
            return heartbeat
        return DriverHeartbeat(
            epoch=heartbeat.epoch,
            received_at=now,
            sequence=status.sequence,
            committed=committed_batches(status),
            formats=status.formats,
        )


NO_HEARTBEAT: Final = DriverHeartbeat(epoch=-1, received_at=datetime.min.replace(tzinfo=UTC))
"""Heartbeat before the first measurement."""


def committed_batches(status: DriverStatus) -> int:
    """Return the batches that all queries have committed since the driver started."""
    return sum(query.committed for query in status.queries)


def current_driver_status(state: SchedulerState, nonce: str, status: DriverStatus | None) -> DriverStatus | None:
    """Return the status if the driver of the current epoch wrote it, else None."""
    if status is None or state.driver is None:
        return None
    return status if (status.epoch, status.nonce) == (state.epoch, nonce) else None
