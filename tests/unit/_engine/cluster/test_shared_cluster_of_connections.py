"""The shared cluster with loops whose clients use several connections to the same masters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from tests.lab.fakes import virtual_time
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.virtual_time import DistantCluster, VirtualClock

LATENCY_S = 10
SECOND = timedelta(seconds=1)

AsyncTest = Callable[["Connections"], Coroutine[Any, Any, None]]


class Client(DistantCluster):
    """A client whose polls take ten seconds; `failure` replaces the responses, None for none."""

    def __init__(self, cluster: FakeCluster, clock: VirtualClock) -> None:
        super().__init__(cluster, clock, LATENCY_S)
        self.failure: Exception | None = None
        self.polls = 0

    async def snapshot(self) -> ClusterSnapshot:
        self.polls += 1
        snapshot = await super().snapshot()
        if self.failure is not None:
            raise self.failure
        return snapshot

    async def clean_up(self, job: str) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.failure = RuntimeError("Cannot send a request, as the client has been closed.")


class Connections:
    """A cluster, and clients that use 40 connections to the cluster."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.clock = VirtualClock()
        self.shared = SharedCluster(self.clock)
        self.clients: list[Any] = [Client(self.cluster, self.clock) for _ in range(40)]

    async def poll(self, clients: Sequence[Any]) -> tuple[list[type[Any]], float]:
        """Poll with all these clients at once. Return the types of the outcomes, and the duration of the longest poll."""
        begin = self.clock.elapsed
        polls = [self.shared.poll(client, SECOND) for client in clients]
        outcomes = await asyncio.gather(*polls, return_exceptions=True)
        return [type(outcome) for outcome in outcomes], self.clock.elapsed - begin

    async def poll_again(self, clients: Sequence[Any]) -> tuple[list[type[Any]], float]:
        """Poll when the newest poll is too old."""
        await self.clock.sleep(1)
        return await self.poll(clients)


def in_virtual_time(body: AsyncTest) -> Callable[[], None]:
    """A test in virtual time."""

    def test() -> None:
        virtual_time.run(body(Connections()))

    test.__name__ = body.__name__
    test.__doc__ = body.__doc__
    return test


@in_virtual_time
async def test_no_client_waits_for_the_failing_polls_of_several_other_clients(connections: Connections) -> None:
    """The master is frozen. The 40 clients await the poll of the first client, the poll fails, and then all other clients poll at once.

    From the second round on, each client knows that its own poll failed, and awaits the poll of no other client.
    """
    connections.cluster.reachable = False
    failures = [ClusterUnreachableError] * 40
    assert await connections.poll(connections.clients) == (failures, 2 * LATENCY_S)
    assert await connections.poll_again(connections.clients) == (failures, LATENCY_S)
    assert await connections.poll_again(connections.clients) == (failures, LATENCY_S)


@in_virtual_time
async def test_all_clients_share_one_poll_again_after_an_outage(connections: Connections) -> None:
    """The master is frozen and answers again. After one poll with its own client, each loop shares the polls of the others."""
    connections.cluster.reachable = False
    await connections.poll(connections.clients)
    connections.cluster.reachable = True
    answers = [ClusterSnapshot] * 40
    assert await connections.poll_again(connections.clients) == (answers, LATENCY_S)
    before = sum(client.polls for client in connections.clients)
    assert await connections.poll_again(connections.clients) == (answers, LATENCY_S)
    assert sum(client.polls for client in connections.clients) == before + 1


@in_virtual_time
async def test_client_without_access_makes_the_others_poll_alone_only_once(connections: Connections) -> None:
    """The client that always polls first has no access. The others poll alone after the first failure, and then share one poll."""
    first, *others = connections.clients
    first.failure = ClusterUnreachableError("access denied")
    outcomes = [ClusterUnreachableError, *[ClusterSnapshot] * 39]
    assert await connections.poll(connections.clients) == (outcomes, 2 * LATENCY_S)
    before = sum(client.polls for client in others)
    assert await connections.poll_again(connections.clients) == (outcomes, LATENCY_S)
    assert sum(client.polls for client in others) == before + 1


@in_virtual_time
async def test_loops_of_other_jobs_poll_themselves_if_a_job_ends_during_its_poll(connections: Connections) -> None:
    """Job A polls, jobs B and C await the poll, the loop of A ends and closes the client, and the poll raises a `RuntimeError`."""
    ending, *others = connections.clients[:3]
    ended = asyncio.create_task(connections.shared.poll(ending, SECOND))
    waiting = asyncio.create_task(connections.poll(others))
    await connections.clock.sleep(1)
    ended.cancel()
    await ending.close()
    assert (await waiting)[0] == [ClusterSnapshot, ClusterSnapshot]


@in_virtual_time
async def test_unexpected_exception_of_a_poll_counts_as_an_unreachable_cluster(connections: Connections) -> None:
    """The poll of a client raises a `KeyError`, and the cluster is unknown to its loop. The next poll of the same client succeeds."""
    client = connections.clients[0]
    client.failure = KeyError("a secret of the response")
    with pytest.raises(ClusterUnreachableError, match="the poll failed with KeyError; the log contains the traceback"):
        await connections.shared.poll(client, SECOND)
    client.failure = None
    assert (await connections.poll_again([client]))[0] == [ClusterSnapshot]


@in_virtual_time
async def test_loops_poll_again_after_a_poll_was_canceled(connections: Connections) -> None:
    """Loops of two clients await a poll, and the task of the poll is canceled. The client of the poll counts it as a failure, and the other
    client polls for itself. The next poll of each client succeeds: no loop awaits the canceled task.
    """
    first, second = connections.clients[:2]
    waiting = asyncio.create_task(connections.poll([first, second]))
    await connections.clock.sleep(1)
    canceled = connections.shared._newest[first].task
    canceled.cancel()
    assert (await waiting)[0] == [ClusterUnreachableError, ClusterSnapshot]
    assert canceled.cancelled()
    assert (await connections.poll_again([first, second]))[0] == [ClusterSnapshot, ClusterSnapshot]
