"""A cluster that the loops of one process share: one client, one poll, one calculation of the capacity shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive.ports import Clock, ClusterClient, ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive.runtime.cluster.capacity_share import SlotDemand, capacity_shares, unclaimed_workers
from airflow_adaptive.runtime.cluster.free_capacity import Executors

CONTENTION_WINDOW = timedelta(seconds=5)
"""First window of the backoff. A submitted driver appears on the cluster within one or two polls, so of two competitors the one with
the longer backoff observes the driver of the other."""

MAX_CONTENTION_WINDOW = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The state of the cluster, as one job observes it.

    Attributes:
        cluster: state of the cluster, as the master reports it.
        share: capacity share of the job: executors by worker, in addition to its driver.
    """

    cluster: ClusterSnapshot
    share: Executors


class SharedCluster:
    """Polls a cluster once for all loops, and calculates the capacity shares with each poll."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        """Create the shared cluster; poll nothing yet.

        Args:
            client: client of the cluster.
            clock: time, for the age of a poll.
        """
        self.client = client
        self.shares_version = 0
        """Number of calculations; a share is valid until the next calculation."""
        self._clock = clock
        self._demands: dict[Participant, SlotDemand] = {}
        self._shares: dict[Participant, Executors] = {}
        self._established: set[Participant] = set()
        self._polling = asyncio.Lock()
        self._polled_at: datetime | None = None
        self._snapshot: ClusterSnapshot | None = None
        self._last_error = ""

    def set_demand(self, participant: Participant, demand: SlotDemand) -> None:
        """Set the demand of a participant for the next calculation."""
        self._demands[participant] = demand

    def share_of(self, participant: Participant) -> Executors:
        """Return the capacity share of a participant."""
        return self._shares.get(participant, {})

    def establish(self, participant: Participant) -> None:
        """Give a participant that has observed the cluster once its full demand from the next calculation on."""
        self._established.add(participant)

    def unregister(self, participant: Participant) -> None:
        """Remove a participant, its demand and its share."""
        self._demands.pop(participant, None)
        self._shares.pop(participant, None)
        self._established.discard(participant)

    async def poll(self, max_age: timedelta) -> ClusterSnapshot:
        """Return a state of the cluster that is at most `max_age` old. An older state causes one poll for all loops.

        Raises:
            ClusterUnreachableError: no master answered the last poll.
        """
        async with self._polling:
            if self._polled_at is None or self._clock.now() - self._polled_at >= max_age:
                await self._poll()
        if self._snapshot is None:
            raise ClusterUnreachableError(self._last_error)
        return self._snapshot

    async def unclaimed(self, max_age: timedelta) -> ClusterSnapshot:
        """Return the cluster with the capacity that no participant has planned or needs. Raises as `poll`."""
        cluster = await self.poll(max_age)
        return replace(cluster, workers=unclaimed_workers(self._demands, cluster))

    async def close(self) -> None:
        """Close the client."""
        await self.client.close()

    async def _poll(self) -> None:
        self._polled_at = self._clock.now()
        try:
            self._snapshot = await self.client.snapshot()
        except ClusterUnreachableError as error:
            self._snapshot, self._last_error = None, str(error)
        else:
            self._calculate_shares(self._snapshot)

    def _calculate_shares(self, cluster: ClusterSnapshot) -> None:
        """Calculate the shares. A participant without an observation gets only its plan, so that all loops of a new process compete."""
        demands = {
            participant: demand if participant in self._established else demand.as_planned()
            for participant, demand in self._demands.items()
        }
        self._shares = capacity_shares(demands, cluster, self._clock.now())
        self.shares_version += 1


class Participant:
    """One loop among the loops that share a `SharedCluster`."""

    def __init__(self, shared: SharedCluster) -> None:
        """Start without a slot demand."""
        self._shared = shared
        self._demand = SlotDemand(job="")
        self._shares_version = -1
        self._conflicts = 0
        self._not_before: datetime | None = None

    def set_demand(self, demand: SlotDemand) -> None:
        """Set the demand of the loop for the next calculation of the shares."""
        self._demand = demand
        self._shared.set_demand(self, demand)

    async def observe(self, demand: SlotDemand, max_age: timedelta) -> ClusterView:
        """Set the demand, and return a view that is at most `max_age` old. Raises `ClusterUnreachableError`."""
        self.set_demand(demand)
        cluster = await self._shared.poll(max_age)
        self._shared.establish(self)
        self._shares_version = self._shared.shares_version
        return ClusterView(cluster=cluster, share=self._shared.share_of(self))

    def admits(self, demand: SlotDemand, now: datetime) -> bool:
        """Return whether a step that leads to this demand is allowed; if so, the demand counts from now on.

        A larger plan needs the newest share, because the capacity of an older share may belong to another job in the meantime.
        """
        if demand.exceeds(self._demand):
            is_backing_off = self._not_before is not None and now < self._not_before
            if self._shares_version != self._shared.shares_version or is_backing_off:
                return False
        self.set_demand(demand)
        return True

    def back_off(self, now: datetime, jitter: float) -> None:
        """Allow no larger plan for a while, because another process planned on the same slots.

        Two competitors that try again at the same time would fail again. So each competitor waits for a random part of a window that
        doubles with each conflict (the binary exponential backoff of Ethernet).

        Args:
            now: time.
            jitter: number in [0, 1), different for each competitor and each attempt.
        """
        window = min(CONTENTION_WINDOW * 2**self._conflicts, MAX_CONTENTION_WINDOW)
        self._not_before = now + jitter * window
        self._conflicts += window < MAX_CONTENTION_WINDOW

    def reset_backoff(self) -> None:
        """Start with the first window again, because the plan of the job is active."""
        self._conflicts = 0

    def unregister(self) -> None:
        """Remove the loop from the shared cluster."""
        self._shared.unregister(self)
