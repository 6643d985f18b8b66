"""The scheduled policy: bounds by the calendar.

Theory: a load that follows the clock is known before any metric shows it. Windows declare the times of bounds. The policy advises
a scale-up so early that the rescale has ended when the window begins, and a scale-down when the window begins. The rules of the
time zone map local times to instants (`period`).

Where windows overlap, the window with the highest priority applies. Outside of all windows, the default applies. A job that needs
slots at an instant must begin its rescale earlier, and keeps slots until it may release them. Therefore the requested bounds at an instant are
the maximum over all windows from that instant until a rescale that begins then would end. The schedule never begins a rescale early for
a window within an excluded period, because the rescale would run in that period. In an excluded period, the bounds do not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, VertexLimits
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from airflow_adaptive.autoscaling.calendar.period import (
    Period,
    Span,
    WallClock,
    days_of,
    joined,
    read_dates,
    to_utc,
)
from airflow_adaptive.autoscaling.calendar.violations import DeclaredSchedule, violations
from airflow_adaptive.autoscaling.policy import Bounds, RescalePolicyError, dry_run_violations

CALENDAR = "calendar"
"""Name of this policy in advice."""

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
_STRETCHES = (timedelta(hours=1), *(days * _DAY for days in (2, 9, 40, 400)))
_LONGEST_STRETCH = 3300 * _DAY
"""Longer than eight years, the longest time between two 29ths of February."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledMemory:
    """Memory of the policy: an early change stays, even if later measurements of rescales are shorter.

    Attributes:
        lead: lead time of the change.
        until: begin of the window of the change.
    """

    lead: timedelta = timedelta(0)
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarAdvice:
    """Advice of the calendar at an instant.

    Attributes:
        bounds: bounds of every vertex.
        window: name of the window of the bounds, None for the default.
        reason: human-readable reason; does not change before `next_at`.
        next_at: time of the next change of the bounds or the reason, None for never.
        ready_at: begin of the last window for which the advice is early, None without early advice.
    """

    bounds: Requirements
    window: str | None
    reason: str
    next_at: datetime | None = None
    ready_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledPolicy(DeclaredSchedule):
    """Bounds by the calendar. Use `scheduled_policy` to create a policy from user input.

    Raises:
        RescalePolicyError: lists all violations.
    """

    def __post_init__(self) -> None:
        wrong = [*violations(self), *dry_run_violations(self.dry_run)]
        if wrong:
            raise RescalePolicyError("scheduled policy", wrong)

    @property
    def clock(self) -> WallClock:
        """The wall clock of the times of this policy."""
        return WallClock(zone=self.zone, repeated=self.repeated)

    def remember(self) -> ScheduledMemory:
        """See `RescalePolicy`."""
        return ScheduledMemory()

    def require(self, limits: Mapping[str, VertexLimits]) -> None:
        """Check that the job can have all bounds of the policy.

        Raises:
            RescalePolicyError: lists all violations.
        """
        named = [(f"window {window.when.name!r}", window.bounds) for window in self.windows]
        named += [("the default", self.default)] if self.default is not None else []
        wrong = [f"{name}: {violation}" for name, bounds in named for violation in bounds.violations(limits)]
        if wrong:
            raise RescalePolicyError("scheduled policy", wrong)

    def advise(self, memory: ScheduledMemory, policy_input: PolicyInput) -> tuple[ScheduledMemory, Advice]:
        """See `RescalePolicy`; the policy always returns advice.

        Raises:
            RescalePolicyError: the job cannot have the bounds of a window; lists all violations.
        """
        self.require(policy_input.limits)
        lead = self.lead(policy_input.rescale_costs)
        if memory.until is not None and policy_input.at < memory.until:
            lead = max(lead, memory.lead)
        advise_at = self.advise_at(policy_input.at, policy_input.limits, lead)
        remembered = (
            ScheduledMemory() if advise_at.ready_at is None else ScheduledMemory(lead=lead, until=advise_at.ready_at)
        )
        return remembered, Advice(
            bounds=advise_at.bounds,
            reason=advise_at.reason,
            next_at=advise_at.next_at,
            source=CALENDAR,
        )

    def lead(self, costs: Mapping[Tier, timedelta]) -> timedelta:
        """Lead time of scale-ups for these measured durations of rescales."""
        return timedelta(0) if self.look_ahead is None else self.look_ahead.lead(costs)

    def advise_at(self, at: datetime, limits: Mapping[str, VertexLimits], lead: timedelta) -> CalendarAdvice:
        """Return the advice at an instant.

        Args:
            at: instant with a time zone.
            limits: limits of the job, checked by `require`.
            lead: lead time of scale-ups.

        Raises:
            ValueError: `at` has no time zone.
        """
        at = to_utc(at)
        begin = self._since(at)
        now = self._advise_at(self._schedule(begin, at + lead + _INSTANT), at, limits, lead)
        for stretch in self._stretches(at):
            found = self._schedule(begin, at + stretch + lead + _INSTANT)
            for turn in found.change_points(at, at + stretch, lead):
                then = self._advise_at(found, turn, limits, lead)
                if (then.bounds, then.reason) != (now.bounds, now.reason):
                    return replace(now, next_at=turn)
        return now

    def excluded_span(self, at: datetime, back: timedelta = timedelta(0)) -> Span | None:
        """Return the excluded period that contains an instant, None outside of excluded periods.

        Args:
            at: the instant, in UTC.
            back: duration before the instant in which the begin of adjoining periods is searched.
        """
        spans = merged_spans(self.excluded, self.clock, self._days_off, (at - back, at + _INSTANT))
        return next(((begin, end) for begin, end in spans if begin <= at < end), None)

    def _advise_at(
        self, found: Schedule, at: datetime, limits: Mapping[str, VertexLimits], lead: timedelta
    ) -> CalendarAdvice:
        now = found.at(at, lead)
        bounds, window, early = self._bounds(now.window).complete(limits), now.window, list[Segment]()
        for segment in now.ahead:
            more = _most(bounds, self._bounds(segment.window).complete(limits))
            if more != bounds:
                bounds, window = more, segment.window
                early.append(segment)
        return CalendarAdvice(
            bounds=bounds,
            window=None if window is None else self.windows[window].when.name,
            reason=self._reason(now, early),
            ready_at=early[-1].begin if early and not now.excluded else None,
        )

    def _reason(self, now: ScheduleAt, early: Sequence[Segment]) -> str:
        if now.excluded:
            held = " and ".join(map(self._name, [now.window, *(segment.window for segment in early)]))
            return f"excluded period: the bounds of {held} stay"
        ahead = (f"early for {self._name(segment.window)} from {self._zoned(segment.begin)}" for segment in early)
        return ", ".join([self._name(now.window), *ahead])

    def _name(self, window: int | None) -> str:
        return "the default" if window is None else f"window {self.windows[window].when.name!r}"

    def _zoned(self, at: datetime) -> str:
        return f"{self.clock.zoned(at).isoformat(sep=' ', timespec='minutes')} ({self.zone})"

    def _bounds(self, window: int | None) -> Bounds:
        if window is None:
            return self.default if self.default is not None else Bounds(vertices={})
        return self.windows[window].bounds

    def _schedule(self, begin: datetime, end: datetime) -> Schedule:
        windows = [(window.when, window.priority) for window in self.windows]
        return schedule(windows, self.excluded, self.clock, self._days_off, (begin, end))

    def _since(self, at: datetime) -> datetime:
        """Begin of the schedule: now, or just before the current excluded period."""
        back = _DAY
        while True:
            span = self.excluded_span(at, back)
            if span is None:
                return at
            if span[0] > at - back:
                return span[0] - _INSTANT
            back *= 8

    def _stretches(self, at: datetime) -> Iterator[timedelta]:
        """Yield the durations of the search for the next change, in increasing order: a weekly calendar repeats itself within a year."""
        yield from _STRETCHES
        periods = [*(window.when for window in self.windows), *self.excluded]
        if not all(period.is_weekly for period in periods):
            yield _LONGEST_STRETCH
        dates = [last for period in periods for _, last in read_dates(period.dates)] + list(self._days_off)
        beyond = max(dates, default=at.date()) - at.date() + 2 * _DAY
        if beyond > _LONGEST_STRETCH:
            yield beyond

    @property
    def _days_off(self) -> frozenset[date]:
        return days_of(self.holidays)


def _most(bounds: Requirements, other: Requirements) -> Requirements:
    """Return the larger bounds of both."""
    return {
        name: ParallelismRange(max(one.lower, other[name].lower), max(one.upper, other[name].upper))
        for name, one in bounds.items()
    }


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
