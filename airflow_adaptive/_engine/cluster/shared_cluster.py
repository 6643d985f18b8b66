"""A cluster that the loops of one process share: one poll in flight, one calculation of the capacity shares."""

from __future__ import annotations

import asyncio
import logging
import math
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from weakref import WeakKeyDictionary

from airflow_adaptive._core.ports import Clock, ClusterClient, ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive._engine.cluster.capacity_share import CapacityShare, SlotDemand, capacity_shares, unclaimed

log = logging.getLogger(__name__)

CONTENTION_WINDOW = timedelta(seconds=5)
"""First window of the backoff. A submitted driver appears on the cluster within one or two polls, so of two competitors the one with
the longer backoff observes the driver of the other."""

MAX_CONTENTION_WINDOW = timedelta(minutes=2)

DEMAND_TIMEOUT = timedelta(minutes=2)
"""Time after its poll interval within which a loop renews its demand. A loop that hangs reserves only the capacity of its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The state of the cluster as its master reports it, and the capacity share of one job, in addition to its driver."""

    cluster: ClusterSnapshot
    share: CapacityShare


@dataclass(slots=True, kw_only=True, eq=False)
class _Poll:
    """One poll of the cluster, which several loops can await. Its task raises no exception except `asyncio.CancelledError`.

    `answered_s` is None while the poll is in flight, and if its task was canceled.
    """

    answered_s: float | None = None
    snapshot: ClusterSnapshot | None = None
    error: ClusterUnreachableError = ClusterUnreachableError("the poll was canceled")
    task: asyncio.Task[None] = field(init=False)

    def is_current(self, now_s: float, max_age: timedelta) -> bool:
        """Return whether a loop can use the poll. The age of a poll counts from its response."""
        if self.answered_s is None:
            return not self.task.done()
        return timedelta(seconds=now_s - self.answered_s) < max_age

    async def wait(self) -> None:
        """Wait for the end of the poll. The end of one loop does not end the poll of the others, and vice versa."""
        await asyncio.wait({self.task})


class SharedCluster:
    """Polls a cluster once for all loops, and calculates the capacity shares with each poll.

    The loops may use several connections to the same masters. If the shared poll fails, each other client polls for itself, because only
    the client of the shared poll may lack access. These polls run at the same time, so that no client waits for the timeouts of several
    others. A client whose newest poll failed makes no shared poll.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.shares_version = 0
        """Number of calculations; a share is valid until the next calculation."""
        self._demanded_s: dict[Participant, float] = {}
        """Participants, and when each of them set its demand."""
        self._shared: _Poll | None = None
        """Poll that the loops of all clients use."""
        self._newest: WeakKeyDictionary[ClusterClient, _Poll] = WeakKeyDictionary()
        """Newest poll of each client."""

    def register(self, participant: Participant) -> None:
        """Count the demand of a participant from the next calculation on."""
        self._demanded_s[participant] = self.clock.elapsed

    def unregister(self, participant: Participant) -> None:
        """Remove a participant, its demand and its share."""
        self._demanded_s.pop(participant, None)

    async def poll(self, client: ClusterClient, max_age: timedelta) -> ClusterSnapshot:
        """Return a state of the cluster whose response is at most `max_age` old. Otherwise, await the shared poll or an own one.

        Raises the `ClusterUnreachableError` of the last poll of this client, for example if no master answered it.
        """
        poll = self._shared
        if poll is None or not poll.is_current(self.clock.elapsed, max_age):
            poll = self._own(client, max_age)
        await poll.wait()
        if poll.snapshot is None and poll is not self._newest.get(client):
            poll = self._own(client, max_age)
            await poll.wait()
        if poll.snapshot is None:
            raise copy(poll.error)
        return poll.snapshot

    async def unclaimed(self, client: ClusterClient, max_age: timedelta) -> ClusterSnapshot:
        """Return the cluster with the capacity that no participant has planned or needs. Raises as `poll`."""
        cluster = await self.poll(client, max_age)
        return unclaimed(self._demands(), cluster)

    def _own(self, client: ClusterClient, max_age: timedelta) -> _Poll:
        """Return the newest poll of a client, a new one if it is too old."""
        newest = self._newest.get(client)
        if newest is not None and newest.is_current(self.clock.elapsed, max_age):
            return newest
        poll = self._newest[client] = _Poll()
        poll.task = asyncio.create_task(self._run(poll, client))
        if newest is None or newest.snapshot is not None:
            self._shared = poll
        return poll

    async def _run(self, poll: _Poll, client: ClusterClient) -> None:
        """Poll. An unexpected exception of one client, which may be closed during its poll, must not fail the loops of the others."""
        try:
            snapshot = await client.snapshot()
            self._calculate_shares(snapshot)
        except ClusterUnreachableError as error:
            poll.error = error
        except Exception as error:
            log.warning("A poll of the cluster failed", exc_info=True)
            poll.error = ClusterUnreachableError(
                f"the poll failed with {type(error).__name__}; the log contains the traceback"
            )
        else:
            poll.snapshot = snapshot
            self._shared = poll
        poll.answered_s = self.clock.elapsed

    def _calculate_shares(self, cluster: ClusterSnapshot) -> None:
        """Calculate the shares. A participant without an observation gets only its plan, so that all loops of a new process compete."""
        demands = {
            participant: demand if participant.is_established else demand.as_planned()
            for participant, demand in self._demands().items()
        }
        for participant, share in capacity_shares(demands, cluster).items():
            participant.share = share
        self.shares_version += 1

    def _demands(self) -> dict[Participant, SlotDemand]:
        """Return the demands, as old as they are now: a loop that hangs in a call to its storage does not renew its demand."""
        now = self.clock.elapsed
        return {participant: participant.demand_after(now - at) for participant, at in self._demanded_s.items()}


class Participant:
    """One loop among the loops that share a `SharedCluster`, with its slot demand and its newest capacity share.

    The full demand counts from the first observation of the cluster on (`is_established`).
    """

    def __init__(self, shared: SharedCluster, client: ClusterClient) -> None:
        self.demand = SlotDemand(job="")
        self.share = CapacityShare()
        self.is_established = False
        self._shared = shared
        self._client = client
        self._shares_version = -1
        self._poll_interval = timedelta(0)
        self._conflicts = 0
        self._not_before_s = -math.inf

    def demand_after(self, seconds: float) -> SlotDemand:
        """Return the demand some seconds after the loop has set it."""
        demand = self.demand.aged(seconds)
        return demand if timedelta(seconds=seconds) < self._poll_interval + DEMAND_TIMEOUT else demand.as_planned()

    def set_demand(self, demand: SlotDemand) -> None:
        """Set the demand of the loop for the next calculation of the shares."""
        self.demand = demand
        self._shared.register(self)

    async def observe(self, demand: SlotDemand, max_age: timedelta) -> ClusterView:
        """Set the demand, and return a view that is at most `max_age` old. Raises `ClusterUnreachableError`."""
        self._poll_interval = max_age
        self.set_demand(demand)
        cluster = await self._shared.poll(self._client, max_age)
        self.is_established = True
        self._shares_version = self._shared.shares_version
        return ClusterView(cluster=cluster, share=self.share)

    def admits(self, demand: SlotDemand) -> bool:
        """Return whether a step that leads to this demand is allowed; if so, the demand counts from now on.

        A larger plan needs the newest share, because the capacity of an older share may belong to another job in the meantime. A step
        does not change whether the job may probe; the next observation decides.
        """
        demand = replace(demand, may_probe=self.demand.may_probe)
        is_backing_off = self._shared.clock.elapsed < self._not_before_s
        grows, is_outdated = demand.exceeds(self.demand), self._shares_version != self._shared.shares_version
        if (grows and (is_outdated or is_backing_off)) or (is_outdated and demand.standby_exceeds(self.demand)):
            return False
        self.set_demand(demand)
        return True

    def back_off(self, jitter: float) -> None:
        """Allow no larger plan for a while, because another process planned on the same slots.

        Two competitors that try again at the same time would fail again. So each competitor waits for a random part of a window that
        doubles with each conflict (the binary exponential backoff of Ethernet). `jitter` is this part, in [0, 1).
        """
        window = min(CONTENTION_WINDOW * 2**self._conflicts, MAX_CONTENTION_WINDOW)
        self._not_before_s = self._shared.clock.elapsed + (jitter * window).total_seconds()
        self._conflicts += window < MAX_CONTENTION_WINDOW

    def reset_backoff(self) -> None:
        """Start with the first window again, because the plan of the job is active."""
        self._conflicts = 0

    def unregister(self) -> None:
        """Remove the loop from the shared cluster."""
        self._shared.unregister(self)
