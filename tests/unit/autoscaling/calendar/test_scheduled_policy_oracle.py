"""The scheduled policy against an oracle that goes step by step through days on which clocks are set.

All times are multiples of a step.

The oracle knows no gap and no repeated hour. For it a policy goes by a clock that stands still while the wall clock repeats
what it has shown before (`Repeated.FIRST`), or that stands still just before the first time that is to be repeated
(`Repeated.SECOND`).
"""

from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, VertexLimits
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.calendar.changes import upcoming_changes
from airflow_adaptive.autoscaling.calendar.declaration import period, scheduled_policy, window
from airflow_adaptive.autoscaling.calendar.period import WEEKDAYS, Repeated, WallClock
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.calendar.violations import LookAhead
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from tests.support.examples import examples

DAYS = [
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Pacific/Apia", date(2011, 12, 30)),
    ("Europe/Dublin", date(2026, 3, 29)),
    ("Europe/Dublin", date(2026, 10, 25)),
    ("Africa/Casablanca", date(2026, 2, 15)),
    ("Africa/Casablanca", date(2026, 3, 22)),
    ("America/Sao_Paulo", date(2018, 2, 17)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("Asia/Beirut", date(2026, 3, 29)),
    ("Asia/Beirut", date(2026, 10, 24)),
    ("Antarctica/Troll", date(2026, 10, 25)),
    ("Asia/Kathmandu", date(2026, 3, 29)),
]
LIMITS = {"job": VertexLimits(max_parallelism=16, declared=ParallelismRange(3, 5))}
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
"""Without the one that explains: it traces every line, which takes ten times as long."""
STEP = timedelta(minutes=5)
STEPS = timedelta(days=3) // STEP

times = st.integers(0, 47).map(lambda half: f"{half // 2:02}:{half % 2 * 30:02}") | st.sampled_from(["00:15", "02:45"])
weekdays = st.lists(st.sampled_from(WEEKDAYS), max_size=4, unique=True)
durations = st.fixed_dictionaries({"duration": st.integers(25, 50).map(lambda hours: timedelta(hours=hours))})
ranges = st.tuples(st.integers(1, 8), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@st.composite
def policies(draw: st.DrawFn, zone: str, day: date) -> ScheduledPolicy:
    def when() -> dict:
        start = draw(times)
        end = st.fixed_dictionaries({"end": times.filter(lambda end: end != start)})
        return {"start": start, "weekdays": draw(weekdays), **draw(end | durations)}

    count = draw(st.integers(1, 3))
    windows = [window(f"w{index}", draw(ranges), priority=index, **when()) for index in range(count)]
    some = (day + timedelta(days=draw(st.integers(-1, 1))) for _ in range(2))
    excluded = [period(f"x{index}", dates=[each], **when() | {"weekdays": ()}) for index, each in enumerate(some)]
    return scheduled_policy(
        zone=zone,
        windows=windows,
        default=draw(st.none() | ranges),
        excluded=draw(st.sampled_from([[], excluded[:1], excluded])),
        look_ahead=draw(st.sampled_from([None, LookAhead(margin=0.0, at_most=timedelta(hours=2))])),
        repeated=draw(st.sampled_from(list(Repeated))),
    )


def clock_of(policy: ScheduledPolicy, begin: datetime) -> list[datetime]:
    """What the policy's clock shows in each step."""
    zone = ZoneInfo(policy.zone)
    local_times = [(begin + step * STEP).astimezone(zone).replace(tzinfo=None) for step in range(STEPS)]
    if policy.repeated is Repeated.FIRST:
        return list(accumulate(local_times, max))
    lowest = list(accumulate(reversed(local_times), min))[::-1]
    repeated = [later <= now for now, later in zip(local_times, [*lowest[1:], local_times[-1] + STEP], strict=True)]
    return [low - timedelta(seconds=late) for low, late in zip(lowest, repeated, strict=True)]


def since_midnight(text: str) -> timedelta:
    return timedelta(hours=int(text[:2]), minutes=int(text[3:]))


def holds(when, local_times: list[datetime]) -> list[bool]:
    """Whether a period holds in each step, by what the clock shows."""
    start = since_midnight(when.start)
    length = when.duration or (since_midnight(when.end) - start) % timedelta(days=1)
    days = [local_times[0].date() + timedelta(days=number) for number in range(-3, 6)]
    named = [day for day in days if not when.weekdays or f"{day:%a}".lower() in when.weekdays]
    dated = [day for day in named if not when.dates or day.isoformat() in when.dates]
    begins = [datetime.combine(day, datetime.min.time()) + start for day in dated]
    return [any(begin <= moment < begin + length for begin in begins) for moment in local_times]


def declared_bounds(policy: ScheduledPolicy, local_times: list[datetime]) -> list[ParallelismRange]:
    default = LIMITS["job"].declared if policy.default is None else policy.default.vertices["*"]
    wanted = [default for _ in local_times]
    for each in sorted(policy.windows, key=lambda each: each.priority):
        bounds = each.bounds.vertices["*"]
        wanted = [bounds if held else other for held, other in zip(holds(each.when, local_times), wanted, strict=True)]
    return wanted


def oracle(policy: ScheduledPolicy, begin: datetime, lead: int) -> list[ParallelismRange]:
    """The bounds in each step; a rescale takes `lead` steps."""
    local_times = clock_of(policy, begin)
    wanted = declared_bounds(policy, local_times)
    excluded = [any(held) for held in zip(*(holds(each, local_times) for each in policy.excluded), strict=True)] or [
        False
    ] * STEPS
    bounds_by_step: list[ParallelismRange] = []
    for step in range(STEPS):
        if excluded[step] and bounds_by_step:
            bounds_by_step.append(bounds_by_step[-1])
            continue
        until = next((late for late in range(step, min(step + lead + 1, STEPS)) if excluded[late]), STEPS)
        seen = wanted[step : min(step + lead, until) + 1]
        bounds_by_step.append(ParallelismRange(max(each.lower for each in seen), max(each.upper for each in seen)))
    return bounds_by_step


def advice_at(policy: ScheduledPolicy, at: datetime, cost: dict[Tier, timedelta]) -> Advice:
    seen = PolicyInput(at=at, requirements={}, limits=LIMITS, rescale_costs=cost)
    return policy.advise(policy.remember(), seen)[1]


@pytest.mark.parametrize(("zone", "day"), DAYS)
def test_bounds_are_those_of_the_oracle_in_each_step(zone, day):
    @settings(max_examples=examples(20), phases=PHASES)
    @given(policies(zone, day), st.sampled_from([1, 9]))
    def check(policy: ScheduledPolicy, steps: int) -> None:
        begin = datetime.combine(day - timedelta(days=2), datetime.min.time(), UTC) + timedelta(hours=12)
        cost = {Tier.QUERY: steps * STEP}
        lead = policy.lead(cost)
        moments, answers = [begin], [advice_at(policy, begin, cost)]
        while (following := answers[-1].next_at) is not None and following < begin + STEPS * STEP:
            moments.append(following)
            answers.append(advice_at(policy, following, cost))
        assert all(one < other for one, other in pairwise(moments))

        expected = oracle(policy, begin, lead // STEP)
        known = STEPS - timedelta(hours=12) // STEP  # of the last hours the oracle does not know what is to come
        bounds_by_step = [
            answers[bisect_right(moments, begin + step * STEP) - 1].bounds["job"] for step in range(known)
        ]
        assert bounds_by_step == expected[:known]

        changes = [(when, answer) for when, answer in zip(moments, answers, strict=True)]
        real = [(when, now) for (_, before), (when, now) in pairwise(changes) if before.bounds != now.bounds]
        reported = upcoming_changes(policy, begin, len(real), limits=LIMITS, lead=lead)
        assert [(each.at, each.after, each.reason) for each in reported] == [
            (when, now.bounds, now.reason) for when, now in real
        ]

        for one, other in [*pairwise(moments)][::4]:
            between = one + (other - one) / 3
            assert advice_at(policy, between, cost) == answers[moments.index(one)]

    check()


@settings(max_examples=examples(40), phases=PHASES)
@given(
    st.lists(st.tuples(times, times, weekdays).filter(lambda each: each[0] != each[1]), min_size=2, max_size=3),
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Casablanca"]),
)
def test_windows_of_the_same_priority_are_refused_exactly_if_they_overlap_in_some_year(hours, zone):
    windows = [
        window(f"w{index}", 1, start=start, end=end, weekdays=days) for index, (start, end, days) in enumerate(hours)
    ]
    year = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    spans = sorted(span for each in windows for span in each.when.spans(WallClock(zone=zone), (), *year))
    overlap = any(later[0] < earlier[1] for earlier, later in pairwise(spans))
    try:
        scheduled_policy(zone=zone, windows=windows)
        refused = False
    except RescalePolicyError:
        refused = True
    assert refused is overlap
