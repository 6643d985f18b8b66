"""One cluster as the loops of one process share it: one client, one poll, one ledger."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive.ports import Clock, ClusterClient, ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive.runtime.cluster.capacity_share import SlotDemand, deal, rest
from airflow_adaptive.runtime.cluster.free_capacity import Executors

CONTENTION_WINDOW = timedelta(seconds=5)
"""A driver that was submitted shows on the cluster within a poll or two: who waits longer than another sees its driver."""

LONGEST_WINDOW = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a job sees of its cluster.

    Attributes:
        cluster: as the master tells it.
        share: executors by worker that this job may have, beside its driver.
    """

    cluster: ClusterSnapshot
    share: Executors


class SharedCluster:
    """Polls a cluster once for all, and deals what is free with each poll (`ledger.deal`)."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        """Nothing is asked yet.

        Args:
            client: of the cluster.
            clock: tells how old a poll is.
        """
        self.client = client
        self.deals = 0
        """How often was dealt; a share is good until it is dealt again."""
        self._clock = clock
        self._bids: dict[Participant, SlotDemand] = {}
        self._shares: dict[Participant, Executors] = {}
        self._settled: set[Participant] = set()
        self._polling = asyncio.Lock()
        self._polled: datetime | None = None
        self._snapshot: ClusterSnapshot | None = None
        self._failure = ""

    def bid(self, seat: Participant, bid: SlotDemand) -> None:
        """What is wanted from the next deal on."""
        self._bids[seat] = bid

    def share(self, seat: Participant) -> Executors:
        """What was dealt to a seat."""
        return self._shares.get(seat, {})

    def settle(self, seat: Participant) -> None:
        """The loop has looked once: from the next deal on it takes part in full."""
        self._settled.add(seat)

    def leave(self, seat: Participant) -> None:
        """Nothing is kept for this seat any more."""
        self._bids.pop(seat, None)
        self._shares.pop(seat, None)
        self._settled.discard(seat)

    async def poll(self, max_age: timedelta) -> ClusterSnapshot:
        """The cluster as it was at most `max_age` ago; whoever finds it older asks for all.

        Raises:
            ClusterUnreachableError: no master answered the last one who asked.
        """
        async with self._polling:
            if self._polled is None or self._clock.now() - self._polled >= max_age:
                await self._ask()
        if self._snapshot is None:
            raise ClusterUnreachableError(self._failure)
        return self._snapshot

    async def unclaimed(self, max_age: timedelta) -> ClusterSnapshot:
        """The cluster with what nobody here has planned or needs; for those who only look. Raises as `poll`."""
        cluster = await self.poll(max_age)
        return replace(cluster, workers=rest(self._bids, cluster))

    async def close(self) -> None:
        """Release the client."""
        await self.client.close()

    async def _ask(self) -> None:
        self._polled = self._clock.now()
        try:
            self._snapshot = await self.client.snapshot()
        except ClusterUnreachableError as error:
            self._snapshot, self._failure = None, str(error)
        else:
            self._deal(self._snapshot)

    def _deal(self, cluster: ClusterSnapshot) -> None:
        """Who looks for the first time gets what it has planned; the rest is dealt when those who came with it are here, too."""
        bids = {seat: bid if seat in self._settled else bid.as_planned() for seat, bid in self._bids.items()}
        self._shares = deal(bids, cluster, self._clock.now())
        self.deals += 1


class Participant:
    """One loop's place at a `SharedCluster`."""

    def __init__(self, shared: SharedCluster) -> None:
        """Nothing is wanted yet."""
        self._shared = shared
        self._bid = SlotDemand(job="")
        self._deal = -1
        self._losses = 0
        self._not_before: datetime | None = None

    def place(self, bid: SlotDemand) -> None:
        """What is planned and wanted now."""
        self._bid = bid
        self._shared.bid(self, bid)

    async def look(self, bid: SlotDemand, max_age: timedelta) -> Look:
        """The cluster as it was at most `max_age` ago. Raises `ClusterUnreachableError`."""
        self.place(bid)
        cluster = await self._shared.poll(max_age)
        self._shared.settle(self)
        self._deal = self._shared.deals
        return Look(cluster=cluster, share=self._shared.share(self))

    def admits(self, bid: SlotDemand, now: datetime) -> bool:
        """Whether a step may be taken that leads to this bid; if so, it counts from now on.

        A plan for more than before must be made on the newest share: what was dealt before may be another's by now.
        """
        if bid.exceeds(self._bid):
            waits = self._not_before is not None and now < self._not_before
            if self._deal != self._shared.deals or waits:
                return False
        self.place(bid)
        return True

    def give_way(self, now: datetime, jitter: float) -> None:
        """A new driver found too few slots: another process planned on them, too. Make no plan for a while.

        Two of them that try again at the same moment would fail again, and for ever; so each waits for a random time out of
        a window that doubles (Ethernet's way).

        Args:
            now: the time.
            jitter: a number in [0, 1), different for each competitor and each attempt.
        """
        window = min(CONTENTION_WINDOW * 2**self._losses, LONGEST_WINDOW)
        self._not_before = now + jitter * window
        self._losses += window < LONGEST_WINDOW

    def succeed(self) -> None:
        """The plan is in force: the next window is a short one."""
        self._losses = 0

    def leave(self) -> None:
        """Nothing is wanted any more."""
        self._shared.leave(self)
