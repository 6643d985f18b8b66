"""Dead times, percentiles and ratios of a rescale benchmark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab.benchmarks.rescale.measurements import (
    Order,
    Span,
    longest_pause,
    median,
    missed,
    percentile,
    period,
    ratio,
    restart,
    worst_delay,
)
from tests.lab.benchmarks.unit.rescale_results import BATCHES

ORDER = Order(slots=2, window=Span(begin=10, end=20), steady=Span(begin=20, end=30))


def test_dead_time_is_from_the_last_batch_of_the_old_run_to_the_first_of_the_new_one():
    old, new = restart(BATCHES, ORDER)
    assert (old.number, new.number) == (1, 2)
    with pytest.raises(ValueError, match="no other run"):
        restart(BATCHES, replace(ORDER, window=ORDER.steady))


def test_longest_pause_is_between_two_batches_of_which_the_later_one_began_in_the_span():
    assert longest_pause(BATCHES, ORDER.window) == 1.0
    assert longest_pause(BATCHES, Span(begin=23, end=30)) == 1.0
    assert longest_pause(BATCHES, Span(begin=40, end=50)) == 0.0


def test_period_is_that_of_batches_while_nothing_is_changed():
    assert period(BATCHES, [ORDER]) == 2.0
    with pytest.raises(ValueError, match="no two batches"):
        period(BATCHES[:3], [ORDER])


@pytest.mark.parametrize(("dead", "pause", "count"), [(0.9, 0.0, 0), (1.0, 0.0, 1), (2.5, 0.6, 1), (0.1, 0.5, 0)])
def test_a_batch_was_missed_if_the_dead_time_would_have_held_it(dead, pause, count):
    assert missed(dead, pause, 1.0) == count


def test_worst_delay_is_of_the_files_that_came_in_the_span_and_all_of_them_must_have_come_out():
    came = {0: 9.9, 1: 10.0, 2: 19.0, 3: 20.0}
    assert worst_delay(came, {0: 50.0, 1: 13.0, 2: 20.0, 3: 60.0}, ORDER.window) == 3.0
    with pytest.raises(ValueError, match=r"never came out: \[2\]"):
        worst_delay(came, {1: 13.0}, ORDER.window)
    with pytest.raises(ValueError, match="of the files \\[\\]"):
        worst_delay(came, {}, Span(begin=0, end=1))


def test_percentile_lies_between_two_values():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([0, 10], 0.95) == pytest.approx(9.5)
    assert percentile([7], 0.95) == 7


def test_intervals_hold_the_median_and_are_the_same_each_time():
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    found = median(values)
    assert found == median(values)
    assert 1 <= found.low < found.value == 3 < found.high <= 100
    assert median([5.0] * 10) == replace(found, value=5, low=5, high=5)


def test_a_ratio_draws_from_both_samples_and_has_no_sense_to_nothing():
    found = ratio([2.0, 2.0], [1.0, 4.0])
    assert found is not None
    assert (found.low, found.value, found.high) == (0.5, 0.8, 2.0)
    assert ratio([1.0], [0.0]) is None
