"""The statistics of rescales."""

import statistics
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.history.rescale_summary import Durations, RescaleSummary, summarize
from airflow_adaptive._core.scheduler.timeline import Amounts, Rescale, TerminatedReason, TriggerCause
from tests.lab.scenario import START

NOTHING = Amounts(desired={}, sufficient={})


def rescale(reason: TerminatedReason | None, seconds: float = 0, downtime: float | None = None) -> Rescale:
    return Rescale(
        number=1,
        requirements=1,
        attempt=1,
        trigger_cause=TriggerCause.INITIAL_SCHEDULE,
        start=START,
        vertices=NOTHING,
        groups=NOTHING,
        downtime=None if downtime is None else timedelta(seconds=downtime),
        end=None if reason is None else START + timedelta(seconds=seconds),
        terminated_reason=reason,
        terminal_state=None if reason is None else reason.terminal_state,
    )


def completed(seconds: float, downtime: float | None = None) -> Rescale:
    return rescale(TerminatedReason.SUCCEEDED, seconds, downtime)


def measured(durations: Durations | None) -> Durations:
    assert durations is not None
    return durations


def test_nothing_is_summed_up_as_nothing():
    assert summarize([]) == RescaleSummary(
        total=0,
        completed=0,
        ignored=0,
        failed=0,
        in_progress=0,
        duration=None,
        completed_duration=None,
        ignored_duration=None,
        failed_duration=None,
        downtime=None,
    )


def test_rescales_are_counted_by_their_result():
    summary = summarize(
        [
            completed(2),
            completed(4),
            rescale(TerminatedReason.JOB_CANCELED, 8),
            rescale(TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED, 16),
            rescale(TerminatedReason.EXCEPTION_OCCURRED, 32),
            rescale(None),
        ]
    )
    counts = (summary.total, summary.completed, summary.ignored, summary.failed, summary.in_progress)
    assert counts == (6, 2, 2, 1, 1)
    longest = [summary.duration, summary.completed_duration, summary.ignored_duration, summary.failed_duration]
    assert [measured(durations).max.total_seconds() for durations in longest] == [32, 4, 16, 32]


def test_downtime_is_that_of_completed_rescales_with_any():
    summary = summarize([completed(9, 2), completed(9), rescale(TerminatedReason.JOB_FINISHED, 9, downtime=7)])
    assert measured(summary.downtime).max == measured(summary.downtime).min == timedelta(seconds=2)


def test_one_duration_is_every_percentile():
    durations = measured(summarize([completed(3)]).duration)
    assert {getattr(durations, name) for name in Durations.__dataclass_fields__} == {timedelta(seconds=3)}


def test_percentiles_lie_between_neighbours():
    durations = measured(summarize(completed(seconds) for seconds in (4, 1, 3, 2)).duration)
    assert (durations.p50, durations.avg) == (timedelta(seconds=2.5), timedelta(seconds=2.5))
    assert (durations.min, durations.p90, durations.p999) == (
        timedelta(seconds=1), timedelta(seconds=4), timedelta(seconds=4),
    )  # fmt: skip


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=2000))
def test_percentiles_are_those_of_the_standard_library(milliseconds: list[int]):
    durations = measured(summarize(completed(ms / 1000) for ms in milliseconds).duration)
    expected = statistics.quantiles(milliseconds, n=1000, method="exclusive")
    for name, share in (("p50", 500), ("p90", 900), ("p95", 950), ("p99", 990), ("p999", 999)):
        inside = min(max(expected[share - 1], min(milliseconds)), max(milliseconds))  # the library extrapolates
        assert getattr(durations, name) / timedelta(milliseconds=1) == pytest.approx(inside, abs=0.01)
