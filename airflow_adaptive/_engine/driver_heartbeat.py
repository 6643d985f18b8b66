"""The heartbeat of a driver: when the loop first read the newest driver status.

The clocks of the driver and of Airflow are not compared. A driver has missed its heartbeat if the sequence number in its status
does not change for a time that the clock of the loop measures. The heartbeat is part of each journal document, so that a loop that
takes over continues the measurement instead of starting it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import decode
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

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], epoch: int, now: datetime) -> DriverHeartbeat:
        """Return the heartbeat from a journal document; a new one if the document describes another driver or cannot be read."""
        try:
            if snapshot["epoch"] == epoch:
                received_at = min(decode(datetime, snapshot["received_at"]), now)
                return cls(epoch=epoch, received_at=received_at, sequence=decode(int, snapshot["sequence"]))
        except (KeyError, SnapshotError):
            pass
        return cls(epoch=epoch, received_at=now)

    def to_snapshot(self) -> dict[str, Any]:
        """Return the heartbeat for a journal document."""
        return {"epoch": self.epoch, "sequence": self.sequence, "received_at": self.received_at.isoformat()}

    def updated(self, state: SchedulerState, status: DriverStatus | None, now: datetime) -> DriverHeartbeat:
        """Return the heartbeat after a poll of the driver status.

        Args:
            state: state of the scheduler; a new epoch starts a new measurement.
            status: status of the driver of the current epoch, None without one.
            now: time of the poll.
        """
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


class HeartbeatMonitor:
    """Owns the heartbeat of the driver of one job."""

    def __init__(self) -> None:
        self._heartbeat = DriverHeartbeat(epoch=0, received_at=datetime.min.replace(tzinfo=UTC))

    @property
    def heartbeat(self) -> DriverHeartbeat:
        """The heartbeat after the newest update."""
        return self._heartbeat

    def restore(self, snapshot: Mapping[str, Any], epoch: int, now: datetime) -> None:
        """Continue the measurement of an earlier loop, see `DriverHeartbeat.restore`."""
        self._heartbeat = DriverHeartbeat.restore(snapshot, epoch, now)

    def to_snapshot(self) -> dict[str, Any]:
        """Return the heartbeat for a journal document."""
        return self._heartbeat.to_snapshot()

    def update(self, state: SchedulerState, status: DriverStatus | None, now: datetime) -> None:
        """See `DriverHeartbeat.updated`."""
        self._heartbeat = self._heartbeat.updated(state, status, now)


def committed_batches(status: DriverStatus) -> int:
    """Return the batches that all queries have committed since the driver started."""
    return sum(query.committed for query in status.queries)


def current_driver_status(state: SchedulerState, nonce: str, status: DriverStatus | None) -> DriverStatus | None:
    """Return the status if the driver of the current epoch wrote it, else None."""
    if status is None or state.driver is None:
        return None
    return status if (status.epoch, status.nonce) == (state.epoch, nonce) else None
