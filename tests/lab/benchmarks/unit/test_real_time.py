"""The evaluation of the latencies of Real-Time Mode (`make bench-real-time`)."""

from __future__ import annotations

from tests.lab.benchmarks.real_time import Row, measure, table

ROWS = [Row(at=1000 * number, left=1000 * number + 10 * number) for number in range(1, 101)]


def test_latencies_are_those_of_the_records_that_were_produced_in_the_phase():
    found = measure([*ROWS, Row(at=500_000, left=900_000)], 1000, 101_000)
    assert (found.records, found.p50_ms) == (100, 505.0)
    assert 989 < found.p99_ms <= 1000


def test_pause_is_the_longest_time_without_output():
    assert measure([Row(1, 10), Row(2, 700), Row(3, 710)], 0, 10).pause_ms == 690


def test_table_has_ratios_to_the_first_phase_and_to_a_batch():
    rows = [Row(1, 101), Row(2, 102), Row(11, 311), Row(12, 2812)]
    header, *lines = table({"before": (0, 10), "rescale": (10, 20)}, rows)
    assert header.startswith("| Phase |")
    assert lines == [
        "| before | 2 | 100 | 100 | 1.0 | 1 | 0.00 |",
        "| rescale | 2 | 1550 | 2775 | 27.8 | 2501 | 0.50 |",
    ]
