"""The pure parts of the benchmark with the queries of Nexmark."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

from tests.lab.benchmarks.nexmark.__main__ import cost_of_batches, table
from tests.lab.benchmarks.nexmark.case import Row
from tests.lab.benchmarks.nexmark.events import Event, backlog, closing, event, records
from tests.lab.benchmarks.nexmark.measurements import Measured, Times, Written, measure, parse
from tests.lab.benchmarks.nexmark.results import expected, window_ends


def measured(throughput: float = 1.0, low_ms: float = 1) -> Measured:
    return Measured(
        throughput=throughput, low_ms=low_ms, worst_ms=2000, pause_ms=1500, high_ms=3, lost=0, duplicated=0, wrong=0
    )


TIMES = Times(begin=1000, backlog=5000, low=10_000, high=20_000, steady=30_000, end=40_000)


def test_kinds_have_the_shares_of_nexmark():
    kinds = Counter(event(number, 0).kind for number in range(5000))
    assert kinds == {"person": 100, "auction": 300, "bid": 4600}


def test_auctions_and_bids_refer_to_events_of_the_right_kind_that_exist_already():
    for number in range(10_000):
        one = event(number, 0)
        if one.kind != "person":
            assert one.of <= number
            assert event(one.of, 0).kind == {"auction": "person", "bid": "auction"}[one.kind]


def test_a_backlog_has_a_constant_rate_and_ends_at_its_time():
    events = backlog(1000, end=50_000, rate=100)
    assert [events[0].at, events[500].at, events[-1].at] == [40_010, 45_010, 50_000]
    assert [one.id for one in events] == list(range(1000))


def test_a_record_contains_the_event():
    assert json.loads(records([Event("bid", 7, 50, 1)])) == {"kind": "bid", "id": 7, "at": 50, "of": 1}


def test_the_last_events_of_a_partition_refer_to_each_other():
    last = closing(7, 50_000)
    assert [(one.kind, one.id, one.of) for one in last] == [("person", 7, 0), ("auction", 8, 7), ("bid", 9, 8)]
    assert expected("q8", last, 60_000) == {(7, 0, 60_000)}


def test_windows_contain_their_begin_and_not_their_end():
    assert list(window_ends(4000, 2000)) == [6000, 8000, 10_000, 12_000, 14_000]
    assert list(window_ends(3999, 2000)) == [4000, 6000, 8000, 10_000, 12_000]
    assert list(window_ends(10_000, 10_000)) == [20_000]


def test_query_0_passes_all_bids_through():
    events = [Event("person", 0, 1), Event("auction", 1, 2), Event("bid", 2, 3, 1)]
    assert expected("q0", events, 0) == {(2, 0, 3)}


def test_query_5_returns_the_auction_with_the_most_bids_and_of_several_the_greatest():
    events = [Event("bid", 10, 1000, 1), Event("bid", 11, 1500, 2), Event("bid", 12, 2500, 1)]
    assert expected("q5", events, 4000) == {(2, 1, 2000), (1, 2, 4000)}


def test_query_8_returns_the_persons_who_sell_in_the_window_in_which_they_registered():
    events = [
        Event("person", 0, 1000),
        Event("person", 50, 9000),
        Event("auction", 1, 9999, 0),
        Event("auction", 51, 10_000, 50),
    ]
    assert expected("q8", events, 20_000) == {(0, 0, 10_000)}


def test_windows_that_have_not_ended_have_no_results():
    assert expected("q5", [Event("bid", 10, 1000, 1)], 5999) == {(1, 1, 2000), (1, 1, 4000)}


def test_lines_of_the_consumer_become_records():
    assert parse(['CreateTime:17\t{"id":1,"num":2,"at":3}']) == [Written(17, (1, 2, 3))]


def test_delays_and_throughput_are_measured_by_the_first_record_of_a_result():
    due = [(1, 0, 5000), (2, 0, 12_000), (3, 0, 21_000), (4, 0, 31_000)]
    delays = [6000, 300, 900, 200]
    written = [Written(result[2] + delay, result) for result, delay in zip(due, delays, strict=True)]
    again = Written(90_000, due[1])
    assert measure([*written, again], set(due), 500, TIMES) == Measured(
        throughput=50.0, low_ms=300, worst_ms=900, pause_ms=8100, high_ms=200, lost=0, duplicated=1, wrong=0
    )


def test_delays_of_lost_results_are_not_a_number():
    found = measure([Written(6000, (1, 0, 5000))], {(1, 0, 5000), (2, 0, 12_000)}, 500, TIMES)
    assert found.lost == 1
    assert all(math.isnan(delay) for delay in (found.low_ms, found.worst_ms, found.high_ms))


@pytest.mark.parametrize(("change", "found"), [("lost", (1, 0)), ("wrong", (0, 1))])
def test_results_that_are_missing_or_should_not_exist_are_counted(change: str, found: tuple[int, int]):
    due = {(1, 0, 5000), (2, 0, 12_000), (3, 0, 21_000), (4, 0, 31_000)}
    other = (9, 0, 12_000)
    written = [Written(result[2] + 1, result) for result in (due if change == "lost" else {*due, other})]
    measured = measure(written, {*due, other} if change == "lost" else due, 500, TIMES)
    assert (measured.lost, measured.wrong) == found


def test_systems_are_compared_with_the_first_one_of_their_query():
    rows = [
        Row(
            query,
            system,
            measured(throughput=speed),
        )
        for query, system, speed in (("q0", "a", 1000.0), ("q0", "b", 500.0), ("q5", "a", 100.0))
    ]
    assert list(table(rows))[1:] == [
        "| q0 | a | 1,000 | 1.00 | 1 | 2,000 | 1,500 | 3 | 0 | 0 | 0 |",
        "| q0 | b | 500 | 0.50 | 1 | 2,000 | 1,500 | 3 | 0 | 0 | 0 |",
        "| q5 | a | 100 | 1.00 | 1 | 2,000 | 1,500 | 3 | 0 | 0 | 0 |",
    ]


def test_cost_of_micro_batches_is_the_difference_of_the_first_row_to_flink():
    systems = [("Spark, 2 slots", 700.0), ("Spark, 1 to 2 slots", 900.0), ("Flink, adaptive", 40.0)]
    rows = [Row("q0", system, measured(low_ms=delay)) for system, delay in systems]
    (line,) = cost_of_batches([*rows, Row("q5", "Flink, adaptive", measured())])
    assert line == (
        "- q0: at 1,000 events/s, the median result of Spark with 2 slots has a delay of 700 ms, that of Flink 40 ms: a difference of 660 ms."
    )
