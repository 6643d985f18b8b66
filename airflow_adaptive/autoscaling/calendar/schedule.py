"""What the windows of a policy come to over a stretch of time: one answer for each instant.

Theory: where windows overlap, the one of highest priority holds; outside of all, the default does. A job that is to have
something at an instant has to begin to rescale before it, and what it gives up it keeps until it may go. So what is asked
for at an instant is the most that any window wants from then until a rescale that begins then would have ended. A
rescale is never begun early for a window within an excluded period, since it would have to move in it; and in an excluded
period all stays as it was when it began.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from airflow_adaptive.autoscaling.calendar.period import Period, Span, joined
from airflow_adaptive.autoscaling.calendar.wall_clock import WallClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of time in which one window holds, or none.

    Attributes:
        begin: its first instant.
        window: index of the window, None outside of all.
    """

    begin: datetime
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the calendar says at an instant.

    Attributes:
        window: that holds, None outside of all; in an excluded period the one that held when it began.
        ahead: pieces that begin later and that may need something before they begin, in order.
        excluded: whether nothing may move.
    """

    window: int | None
    ahead: tuple[Piece, ...]
    excluded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Windows and excluded periods over a stretch of time.

    Attributes:
        pieces: in order; the first begins where the stretch does.
        excluded: in order, joined.
    """

    pieces: tuple[Piece, ...]
    excluded: tuple[Span, ...]

    def at(self, instant: datetime, lead: timedelta) -> Standing:
        """What is asked for at an instant, if a rescale takes as long as `lead`."""
        held = next((span for span in self.excluded if span[0] <= instant < span[1]), None)
        if held is not None:
            return self._held(held[0], lead)
        barrier = next((begin for begin, _ in self.excluded if begin > instant), None)
        until = instant + lead if barrier is None else min(instant + lead, barrier)
        first = self._index(instant)
        return Standing(window=self.pieces[first].window, ahead=self._between(first, until), excluded=False)

    def turns(self, after: datetime, until: datetime, lead: timedelta) -> list[datetime]:
        """Instants after `after` and up to `until` at which what is asked for may change, in order."""
        begins = {piece.begin for piece in self.pieces}
        moments = begins | {begin - lead for begin in begins} | {end for span in self.excluded for end in span}
        return sorted(moment for moment in moments if after < moment <= until)

    def _held(self, since: datetime, lead: timedelta) -> Standing:
        """What held just before, and what was to have come into force by then."""
        first = bisect_right(self.pieces, since, key=lambda piece: piece.begin) - 1
        if self.pieces[first].begin == since and first > 0:
            ahead = self._between(first - 1, since) if lead else ()
            return Standing(window=self.pieces[first - 1].window, ahead=ahead, excluded=True)
        return Standing(window=self.pieces[first].window, ahead=(), excluded=True)

    def _between(self, first: int, until: datetime) -> tuple[Piece, ...]:
        return self.pieces[first + 1 : self._index(until) + 1]

    def _index(self, instant: datetime) -> int:
        return max(0, bisect_right(self.pieces, instant, key=lambda piece: piece.begin) - 1)


def timeline(
    windows: Sequence[tuple[Period, int]],
    excluded: Sequence[Period],
    clock: WallClock,
    holidays: Collection[date],
    stretch: Span,
) -> Timeline:
    """The timeline of windows with their priorities; of two with the same the first one holds."""
    spans = [
        (index, priority, span)
        for index, (period, priority) in enumerate(windows)
        for span in period.spans(clock, holidays, *stretch)
    ]
    return Timeline(
        pieces=tuple(_pieces(spans, stretch[0])),
        excluded=tuple(joined([span for period in excluded for span in period.spans(clock, holidays, *stretch)])),
    )


def _pieces(spans: Sequence[tuple[int, int, Span]], begin: datetime) -> Iterator[Piece]:
    turns: dict[datetime, list[tuple[bool, tuple[int, int]]]] = {begin: []}
    for index, priority, (start, end) in spans:
        turns.setdefault(max(begin, start), []).append((True, (-priority, index)))
        turns.setdefault(end, []).append((False, (-priority, index)))
    holding: set[tuple[int, int]] = set()
    current: int | None = None
    for moment in sorted(turns):
        for begins, window in turns[moment]:
            (holding.add if begins else holding.discard)(window)
        held = min(holding)[1] if holding else None
        if moment == begin or held != current:
            yield Piece(begin=moment, window=held)
        current = held
