"""The scheduled policy: bounds by the calendar.

Theory: load that follows the clock is known before any metric shows it. Windows name when which bounds are to hold; a change
that gives more is advised so early that the rescale has ended when the window begins, one that gives less when it begins
(`calendar_timeline`). The time zone's own rules decide what a local time means (`calendar_clock`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache

from airflow_adaptive.autoscaling.calendar.period import Period, joined, read_dates
from airflow_adaptive.autoscaling.calendar.schedule import Piece, Standing, Timeline, timeline
from airflow_adaptive.autoscaling.calendar.wall_clock import Repeated, WallClock, plain
from airflow_adaptive.autoscaling.policy import (
    Advice,
    Bounds,
    PolicyInput,
    RescalePolicyError,
    VertexLimits,
    dry_run_violations,
)
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements

CALENDAR = "calendar"
"""Source of its advice."""

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
_STRETCHES = tuple(days * _DAY for days in (2, 9, 40, 400))
_LONGEST_STRETCH = 3300 * _DAY
"""Longer than the eight years that can lie between two 29ths of February."""
_SHORTEST_LEAD = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Bounds, and when they hold.

    Attributes:
        when: the times, with the window's name.
        bounds: that hold in it.
        priority: of overlapping windows the one with the highest holds.
    """

    when: Period
    bounds: Bounds
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAhead:
    """How early a change that gives more is advised.

    Attributes:
        margin: what is added to the measured time, as a share of it.
        unmeasured: how long a rescale is taken to last before one was measured.
        at_most: never earlier than this.
    """

    margin: float = 0.5
    unmeasured: timedelta = timedelta(minutes=1)
    at_most: timedelta = timedelta(minutes=15)

    def lead(self, costs: Mapping[Tier, timedelta]) -> timedelta:
        """How early, if rescales took this long.

        Other bounds never ask for a new driver, so its time counts only if there is no other.
        """
        measured = {tier: cost for tier, cost in costs.items() if cost >= timedelta(0)}
        likely = [cost for tier, cost in measured.items() if tier < Tier.DRIVER] or list(measured.values())
        longest = min(max(likely, default=self.unmeasured), self.at_most)
        return min(max(longest * (1 + self.margin), _SHORTEST_LEAD), self.at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledMemory:
    """What the policy remembers: an early change stays, though rescales are measured to be shorter after all.

    Attributes:
        lead: how early it was advised.
        until: when the window begins that it is for.
    """

    lead: timedelta = timedelta(0)
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the policy says at an instant, and until when.

    Attributes:
        bounds: of every vertex.
        window: name of the window that the bounds are for, None for the default.
        reason: in plain words; the same until `next_at`.
        next_at: when one of these is another next, None for never.
        ready_at: when the last of the windows begins that something is advised early for, None if nothing is.
    """

    bounds: Requirements
    window: str | None
    reason: str
    next_at: datetime | None = None
    ready_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledPolicy:
    """Bounds by the calendar. `scheduled_policy` makes one of what people write.

    Attributes:
        zone: time zone of all times and dates, such as "Europe/Berlin".
        windows: at least one; of two with the same priority none overlap.
        default: what holds outside of all windows; None for what the job's DAG declares.
        excluded: when nothing may move: what held when such a period began holds until its end.
        holidays: dates, as those of a period.
        look_ahead: how early a change that gives more is advised; None for not early.
        repeated: which instant a local time means that clocks show twice.
        dry_run: advice is told, and not acted on.

    Raises:
        RescalePolicyError: listing everything that is wrong.
    """

    zone: str
    windows: tuple[Window, ...]
    default: Bounds | None = None
    excluded: tuple[Period, ...] = ()
    holidays: tuple[str, ...] = ()
    look_ahead: LookAhead | None = LookAhead()
    repeated: Repeated = Repeated.FIRST
    dry_run: bool = False

    def __post_init__(self) -> None:
        from airflow_adaptive.autoscaling.calendar.violations import violations  # noqa: PLC0415  it knows this module

        wrong = [*violations(self), *dry_run_violations(self.dry_run)]
        if wrong:
            raise RescalePolicyError("scheduled policy", wrong)

    @property
    def clock(self) -> WallClock:
        """The wall clock that its times are of."""
        return WallClock(zone=self.zone, repeated=self.repeated)

    def remember(self) -> ScheduledMemory:
        """See `RescalePolicy`."""
        return ScheduledMemory()

    def require(self, limits: Mapping[str, VertexLimits]) -> None:
        """See that the job can have all the bounds.

        Raises:
            RescalePolicyError: listing everything that is wrong.
        """
        named = [(f"window {window.when.name!r}", window.bounds) for window in self.windows]
        named += [("the default", self.default)] if self.default is not None else []
        wrong = [f"{name}: {violation}" for name, bounds in named for violation in bounds.violations(limits)]
        if wrong:
            raise RescalePolicyError("scheduled policy", wrong)

    def advise(self, memory: ScheduledMemory, seen: PolicyInput) -> tuple[ScheduledMemory, Advice]:
        """See `RescalePolicy`; there is always an answer.

        Raises:
            RescalePolicyError: the job can't have the bounds of a window; lists everything.
        """
        self.require(seen.limits)
        lead = self.lead(seen.rescale_costs)
        if memory.until is not None and seen.at < memory.until:
            lead = max(lead, memory.lead)
        outlook = self.outlook(seen.at, seen.limits, lead)
        remembered = (
            ScheduledMemory() if outlook.ready_at is None else ScheduledMemory(lead=lead, until=outlook.ready_at)
        )
        return remembered, Advice(
            bounds=outlook.bounds,
            reason=outlook.reason,
            next_at=outlook.next_at,
            source=CALENDAR,
            dry_run=self.dry_run,
        )

    def lead(self, costs: Mapping[Tier, timedelta]) -> timedelta:
        """How early a change that gives more is advised if rescales took this long."""
        return timedelta(0) if self.look_ahead is None else self.look_ahead.lead(costs)

    def outlook(self, at: datetime, limits: Mapping[str, VertexLimits], lead: timedelta) -> Outlook:
        """What it says at an instant.

        Args:
            at: with a time zone.
            limits: of the job, which can have all the bounds (`require`).
            lead: how long a rescale takes.

        Raises:
            ValueError: `at` has no time zone.
        """
        at = plain(at)
        begin = self._since(at)
        now = self._outlook(self._timeline(begin, at + lead + _INSTANT), at, limits, lead)
        for stretch in self._stretches(at):
            found = self._timeline(begin, at + stretch + lead + _INSTANT)
            for turn in found.turns(at, at + stretch, lead):
                then = self._outlook(found, turn, limits, lead)
                if (then.bounds, then.reason) != (now.bounds, now.reason):
                    return replace(now, next_at=turn)
        return now

    def _outlook(self, found: Timeline, at: datetime, limits: Mapping[str, VertexLimits], lead: timedelta) -> Outlook:
        standing = found.at(at, lead)
        bounds, window, early = self._bounds(standing.window).complete(limits), standing.window, list[Piece]()
        for piece in standing.ahead:
            more = _most(bounds, self._bounds(piece.window).complete(limits))
            if more != bounds:
                bounds, window = more, piece.window
                early.append(piece)
        return Outlook(
            bounds=bounds,
            window=None if window is None else self.windows[window].when.name,
            reason=self._reason(standing, early),
            ready_at=early[-1].begin if early and not standing.excluded else None,
        )

    def _reason(self, standing: Standing, early: Sequence[Piece]) -> str:
        if standing.excluded:
            held = " and ".join(map(self._name, [standing.window, *(piece.window for piece in early)]))
            return f"nothing may move: what {held} asked for stays"
        ahead = (f"early for {self._name(piece.window)} from {self._shown(piece.begin)}" for piece in early)
        return ", ".join([self._name(standing.window), *ahead])

    def _name(self, window: int | None) -> str:
        return "the default" if window is None else f"window {self.windows[window].when.name!r}"

    def _shown(self, at: datetime) -> str:
        return f"{self.clock.shown(at).isoformat(sep=' ', timespec='minutes')} ({self.zone})"

    def _bounds(self, window: int | None) -> Bounds:
        if window is None:
            return self.default if self.default is not None else Bounds(vertices={})
        return self.windows[window].bounds

    def _timeline(self, begin: datetime, end: datetime) -> Timeline:
        windows = [(window.when, window.priority) for window in self.windows]
        return timeline(windows, self.excluded, self.clock, self._days_off, (begin, end))

    def _since(self, at: datetime) -> datetime:
        """From when on the windows have to be known: from now, or from just before the excluded period that holds now."""
        back = _DAY
        while True:
            stretch = (at - back, at + _INSTANT)
            spans = joined(
                [span for period in self.excluded for span in period.spans(self.clock, self._days_off, *stretch)]
            )
            begin = next((begin for begin, end in spans if begin <= at < end), None)
            if begin is None:
                return at
            if begin > at - back:
                return begin - _INSTANT
            back *= 8

    def _stretches(self, at: datetime) -> Iterator[timedelta]:
        """How far is looked for the next change, in ever longer steps: a calendar of weeks repeats itself within a year."""
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


@cache
def days_of(dates: tuple[str, ...]) -> frozenset[date]:
    """All the days that dates and ranges of dates name. Raises `ValueError`."""
    return frozenset(
        first + number * _DAY for first, last in read_dates(dates) for number in range((last - first).days + 1)
    )


def _most(bounds: Requirements, other: Requirements) -> Requirements:
    """What is enough for both."""
    return {
        name: ParallelismRange(max(one.lower, other[name].lower), max(one.upper, other[name].upper))
        for name, one in bounds.items()
    }
