"""The events of an auction site, as in Nexmark: of 50 events, 1 is a person, 3 are auctions, and 46 are bids.

An event depends only on its number and its time, so that all systems get the same events, and the results can be computed without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ROUND: Final = 50
"""Events of which one is a person."""

AUCTIONS: Final = 3
"""Auctions of a round."""

HOT_ROUNDS: Final = 40
"""Rounds after which another auction is hot: every second bid is for the hot auction."""

RECENT_ROUNDS: Final = 20
"""Sellers, and the auctions of the other bids, are at most that many rounds old."""


@dataclass(frozen=True, slots=True)
class Event:
    """A person, an auction or a bid.

    Attributes:
        kind: `person`, `auction` or `bid`.
        id: number of the event.
        at: event time, Unix milliseconds.
        of: the seller of an auction (id of a person), the auction of a bid (id of an auction), 0 for a person.
    """

    kind: str
    id: int
    at: int
    of: int = 0

    @property
    def json(self) -> str:
        """The record of the event."""
        return json.dumps({"kind": self.kind, "id": self.id, "at": self.at, "of": self.of})


def event(number: int, at: int) -> Event:
    """Return an event. Numbers begin with 0."""
    rounds, place = divmod(number, ROUND)
    recent = max(0, rounds - _hash(number) % RECENT_ROUNDS)
    if place == 0:
        return Event("person", number, at)
    if place <= AUCTIONS:
        return Event("auction", number, at, recent * ROUND)
    if number % 2:
        return Event("bid", number, at, rounds // HOT_ROUNDS * HOT_ROUNDS * ROUND + 1)
    return Event("bid", number, at, recent * ROUND + 1 + _hash(number + 1) % AUCTIONS)


def backlog(size: int, end: int, rate: int) -> list[Event]:
    """Return events with a constant rate (events per second) whose last one has the time `end`, in Unix milliseconds."""
    return [event(number, end - (size - 1 - number) * 1000 // rate) for number in range(size)]


def closing(number: int, at: int) -> list[Event]:
    """Return a person, an auction and a bid, which move the watermarks of all queries of a partition to their time."""
    return [
        Event("person", number, at),
        Event("auction", number + 1, at, number),
        Event("bid", number + 2, at, number + 1),
    ]


def records(events: Iterable[Event]) -> str:
    """Return the lines of the events."""
    return "".join(f"{one.json}\n" for one in events)


def _hash(number: int) -> int:
    return number * 2654435761 % 2**32 >> 7
