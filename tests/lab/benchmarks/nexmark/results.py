"""The results of the queries, computed without Spark and without Flink.

- Query 0 passes all bids through.
- Query 5 returns the auction with the most bids in the last ten seconds, every two seconds. Of several, it is the one with the greatest id.
- Query 8 returns the persons who have created an auction in the ten seconds in which they have registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tests.lab.benchmarks.nexmark.events import Event

Result = tuple[int, int, int]
"""Id of a bid, an auction or a person; number of bids, or 0; time at which the result is due, Unix milliseconds."""

WINDOW_MS: Final = 10_000
SLIDE_MS: Final = 2_000

WATERMARK_DELAY_MS: Final = 2_000
"""Events may be late by this."""


def passed_through(events: Sequence[Event]) -> set[Result]:
    """Return the results of query 0."""
    return {(one.id, 0, one.at) for one in _of_kind(events, "bid")}


def hot_items(events: Sequence[Event]) -> set[Result]:
    """Return the results of query 5."""
    counts: dict[int, Counter[int]] = {}
    for one in _of_kind(events, "bid"):
        for end in window_ends(one.at, SLIDE_MS):
            counts.setdefault(end, Counter())[one.of] += 1
    hottest = {end: max((number, auction) for auction, number in found.items()) for end, found in counts.items()}
    return {(auction, number, end) for end, (number, auction) in hottest.items()}


def new_sellers(events: Sequence[Event]) -> set[Result]:
    """Return the results of query 8."""
    sellers = {
        (auction.of, end) for auction in _of_kind(events, "auction") for end in window_ends(auction.at, WINDOW_MS)
    }
    persons = {(person.id, end) for person in _of_kind(events, "person") for end in window_ends(person.at, WINDOW_MS)}
    return {(person, 0, end) for person, end in persons & sellers}


QUERIES: Final[dict[str, Callable[[Sequence[Event]], set[Result]]]] = {
    "q0": passed_through,
    "q5": hot_items,
    "q8": new_sellers,
}


def expected(query: str, events: Sequence[Event], watermark: int) -> set[Result]:
    """Return the results of a query whose windows have ended before the watermark."""
    found = QUERIES[query](events)
    return found if query == "q0" else {result for result in found if result[2] <= watermark}


def window_ends(at: int, slide_ms: int) -> range:
    """Return the ends of the windows that contain a time."""
    first = (at // slide_ms + 1) * slide_ms
    return range(first, at + WINDOW_MS + 1, slide_ms)


def _of_kind(events: Iterable[Event], kind: str) -> Iterable[Event]:
    return (event for event in events if event.kind == kind)
