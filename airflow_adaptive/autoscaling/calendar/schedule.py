"""The schedule of a policy: the window that applies at each instant of an interval.

Theory: where windows overlap, the window with the highest priority applies. Outside of all windows, the default applies. A job that needs
slots at an instant must begin its rescale earlier, and keeps slots until it may release them. Therefore the requested bounds at an instant are
the maximum over all windows from that instant until a rescale that begins then would end. The schedule never begins a rescale early for
a window within an excluded period, because the rescale would run in that period. In an excluded period, the bounds do not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from airflow_adaptive.autoscaling.calendar.period import Period, Span, joined
from airflow_adaptive.autoscaling.calendar.wall_clock import WallClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An interval in which one window or the default applies.

    Attributes:
        begin: first instant of the interval.
        window: index of the window, None for the default.
    """

    begin: datetime
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAt:
    """The schedule at an instant.

    Attributes:
        window: index of the window that applies, None for the default; in an excluded period, the window at the begin of the period.
        ahead: later segments that may need slots before they begin, in order.
        excluded: whether the instant lies in an excluded period.
    """

    window: int | None
    ahead: tuple[Segment, ...]
    excluded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Windows and excluded periods of an interval.

    Attributes:
        segments: segments in order; the first one begins with the interval.
        excluded: excluded periods in order, merged.
    """

    segments: tuple[Segment, ...]
    excluded: tuple[Span, ...]

    def at(self, instant: datetime, lead: timedelta) -> ScheduleAt:
        """Return the schedule at an instant, with the lead time `lead`."""
        held = next((span for span in self.excluded if span[0] <= instant < span[1]), None)
        if held is not None:
            return self._held(held[0], lead)
        barrier = next((begin for begin, _ in self.excluded if begin > instant), None)
        until = instant + lead if barrier is None else min(instant + lead, barrier)
        first = self._index(instant)
        return ScheduleAt(window=self.segments[first].window, ahead=self._between(first, until), excluded=False)

    def change_points(self, after: datetime, until: datetime, lead: timedelta) -> list[datetime]:
        """Return the instants after `after` and up to `until` at which the advice may change, in order."""
        begins = {segment.begin for segment in self.segments}
        moments = begins | {begin - lead for begin in begins} | {end for span in self.excluded for end in span}
        return sorted(moment for moment in moments if after < moment <= until)

    def _held(self, since: datetime, lead: timedelta) -> ScheduleAt:
        """Return the window before the excluded period, and the segments that were due by then."""
        first = bisect_right(self.segments, since, key=lambda segment: segment.begin) - 1
        if self.segments[first].begin == since and first > 0:
            ahead = self._between(first - 1, since) if lead else ()
            return ScheduleAt(window=self.segments[first - 1].window, ahead=ahead, excluded=True)
        return ScheduleAt(window=self.segments[first].window, ahead=(), excluded=True)

    def _between(self, first: int, until: datetime) -> tuple[Segment, ...]:
        return self.segments[first + 1 : self._index(until) + 1]

    def _index(self, instant: datetime) -> int:
        return max(0, bisect_right(self.segments, instant, key=lambda segment: segment.begin) - 1)


def schedule(
    windows: Sequence[tuple[Period, int]],
    excluded: Sequence[Period],
    clock: WallClock,
    holidays: Collection[date],
    stretch: Span,
) -> Schedule:
    """Create the schedule of windows with their priorities; with equal priorities, the first window applies."""
    spans = [
        (index, priority, span)
        for index, (period, priority) in enumerate(windows)
        for span in period.spans(clock, holidays, *stretch)
    ]
    return Schedule(
        segments=tuple(_segments(spans, stretch[0])),
        excluded=tuple(merged_spans(excluded, clock, holidays, stretch)),
    )


def merged_spans(periods: Sequence[Period], clock: WallClock, holidays: Collection[date], stretch: Span) -> list[Span]:
    """Return the spans of all periods that intersect an interval, in order, merged, in UTC."""
    return joined([span for period in periods for span in period.spans(clock, holidays, *stretch)])


def _segments(spans: Sequence[tuple[int, int, Span]], begin: datetime) -> Iterator[Segment]:
    change_points: dict[datetime, list[tuple[bool, tuple[int, int]]]] = {begin: []}
    for index, priority, (start, end) in spans:
        change_points.setdefault(max(begin, start), []).append((True, (-priority, index)))
        change_points.setdefault(end, []).append((False, (-priority, index)))
    holding: set[tuple[int, int]] = set()
    current: int | None = None
    for moment in sorted(change_points):
        for begins, window in change_points[moment]:
            (holding.add if begins else holding.discard)(window)
        held = min(holding)[1] if holding else None
        if moment == begin or held != current:
            yield Segment(begin=moment, window=held)
        current = held
