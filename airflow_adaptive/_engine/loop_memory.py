"""What a loop remembers of its job beside the state of the scheduler, as one value. Each journal document contains it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow_adaptive._core.requirements.resolver import ResolverMemory
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._engine.driver_heartbeat import NO_HEARTBEAT, DriverHeartbeat
from airflow_adaptive._engine.observation.lag_alert import LagAlerts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMemory:
    """What the next cycle, and the next loop, cannot observe again.

    Attributes:
        resolver: sources, control requests, reported limits and the memory of the rescale policy.
        heartbeat: newest driver status, and when the loop read it first.
        lag_alerts: alerts about the lag.
    """

    resolver: ResolverMemory = ResolverMemory()
    heartbeat: DriverHeartbeat = NO_HEARTBEAT
    lag_alerts: LagAlerts = LagAlerts()

    def of_new_run(self) -> LoopMemory:
        """Return the memory for a new run of a job that has ended. Its script may need no gangs."""
        limits = replace(self.resolver.limits, gangs={})
        return replace(self, resolver=replace(self.resolver, limits=limits), lag_alerts=LagAlerts())

    def document(self) -> Mapping[str, Any]:
        """Return the memory for a journal document, without what the next loop observes again."""
        lasting = replace(self, resolver=self.resolver.lasting, heartbeat=self.heartbeat.lasting)
        encoded: Mapping[str, Any] = encode(lasting)
        return encoded


def recalled(document: Mapping[str, Any], epoch: int, now: datetime) -> LoopMemory:
    """Return the memory from a journal document. A memory that cannot be read is reported and begun again.

    Args:
        document: what `LoopMemory.document` has returned; empty for a job without a journal.
        epoch: epoch of the driver, whose heartbeat continues.
        now: time of the journal.
    """
    memory = LoopMemory()
    try:
        memory = decode(LoopMemory, document)
    except SnapshotError as error:
        log.warning("The memory of the earlier loop in the journal is invalid, and is begun again: %s", error)
    return replace(memory, heartbeat=memory.heartbeat.continued(epoch, now))
