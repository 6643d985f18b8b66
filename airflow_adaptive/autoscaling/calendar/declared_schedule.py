"""What a scheduled policy declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive.autoscaling.calendar.period import Period, Repeated
from airflow_adaptive.autoscaling.policy import Bounds

_SHORTEST_LEAD = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Bounds and the times at which they apply.

    Attributes:
        when: times and name of the window.
        bounds: bounds within the window.
        priority: the window with the highest priority applies where windows overlap.
    """

    when: Period
    bounds: Bounds
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAhead:
    """How early the policy advises a scale-up.

    Attributes:
        margin: share of the measured duration of rescales that is added to it.
        unmeasured: assumed duration of a rescale before the first measurement.
        at_most: longest lead time.
    """

    margin: float = 0.5
    unmeasured: timedelta = timedelta(minutes=1)
    at_most: timedelta = timedelta(minutes=15)

    def lead(self, costs: Mapping[Tier, timedelta]) -> timedelta:
        """Return the lead time for these measured durations of rescales.

        A change of bounds never starts a new driver, so that duration counts only if no other was measured.
        """
        measured = {tier: cost for tier, cost in costs.items() if cost >= timedelta(0)}
        likely = [cost for tier, cost in measured.items() if tier < Tier.DRIVER] or list(measured.values())
        longest = min(max(likely, default=self.unmeasured), self.at_most)
        return min(max(longest * (1 + self.margin), _SHORTEST_LEAD), self.at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSchedule:
    """A schedule of bounds, which may be invalid (`violations`).

    Attributes:
        zone: time zone of all times and dates, for example "Europe/Berlin".
        windows: at least one window; windows with the same priority do not overlap.
        default: bounds outside of all windows; None for the bounds that the DAG declares.
        excluded: periods without changes: the bounds at the begin of such a period apply until its end.
        holidays: dates in the format of `Period.dates`.
        look_ahead: lead time of scale-ups; None for no lead time.
        repeated: instant of a local time that occurs twice.
        dry_run: whether the advice is reported only.
    """

    zone: str
    windows: tuple[Window, ...]
    default: Bounds | None = None
    excluded: tuple[Period, ...] = ()
    holidays: tuple[str, ...] = ()
    look_ahead: LookAhead | None = LookAhead()
    repeated: Repeated = Repeated.FIRST
    dry_run: bool = False
