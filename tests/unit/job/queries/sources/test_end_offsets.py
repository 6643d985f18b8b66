from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive.job.queries.sources.source_monitor import MAX_RECORDS, Age, EndOffsetHistory

A, B = ("a", 0), ("a", 1)


def history(*records: tuple[float, int]) -> EndOffsetHistory:
    recorded = EndOffsetHistory()
    for at, end in records:
        recorded.record(at, {A: end})
    return recorded


def test_the_arrival_of_a_row_is_interpolated_between_two_records():
    recorded = history((100.0, 10), (110.0, 30))
    assert recorded.ages({A: 10}, 120.0) == {A: Age(seconds=20.0)}
    assert recorded.ages({A: 15}, 120.0) == {A: Age(seconds=17.5)}
    assert recorded.ages({A: 29}, 120.0) == {A: Age(seconds=10.5)}


def test_a_partition_whose_rows_are_all_read_has_no_age():
    assert history((100.0, 10), (110.0, 30)).ages({A: 30}, 120.0) == {}
    assert history((100.0, 10)).ages({A: 31}, 120.0) == {}


def test_a_row_that_was_there_before_the_first_record_is_at_least_as_old_as_the_record():
    assert history((100.0, 10), (110.0, 30)).ages({A: 9}, 120.0) == {A: Age(seconds=20.0, is_minimum=True)}


def test_a_row_behind_the_position_of_an_earlier_driver_is_at_least_as_old_as_its_batch():
    """The batch may have left the row unread, because it had the largest number of rows. A row of a later record arrived after the batch."""
    recorded = EndOffsetHistory()
    recorded.restore(100.0, {A: 10})
    recorded.record(110.0, {A: 20})
    recorded.record(120.0, {A: 30})
    assert recorded.ages({A: 10}, 130.0) == {A: Age(seconds=30.0, is_minimum=True)}
    assert recorded.ages({A: 19}, 130.0) == {A: Age(seconds=21.0, is_minimum=True)}
    assert recorded.ages({A: 20}, 130.0) == {A: Age(seconds=20.0)}


def test_a_row_that_arrived_after_a_quiet_time_is_not_as_old_as_the_quiet_time():
    recorded = history((0.0, 10), (1000.0, 10), (1010.0, 12))
    assert recorded.ages({A: 10}, 1010.0) == {A: Age(seconds=10.0)}


def test_a_new_partition_is_read_from_its_first_row():
    recorded = history((100.0, 10))
    recorded.record(110.0, {A: 10, B: 4})
    assert recorded.ages({A: 10}, 115.0) == {B: Age(seconds=5.0, is_minimum=True)}


def test_a_partition_that_was_created_again_loses_its_records():
    recorded = history((100.0, 50), (110.0, 3), (120.0, 5))
    assert recorded.ages({A: 3}, 130.0) == {A: Age(seconds=20.0)}
    assert recorded.ends == {A: 5}


def test_a_deleted_partition_is_forgotten():
    recorded = history((100.0, 50))
    recorded.record(110.0, {B: 1})
    assert recorded.ends == {B: 1}
    assert recorded.ages({}, 110.0).keys() == {B}


def test_records_of_read_rows_are_forgotten():
    recorded = history((100.0, 10), (110.0, 20), (120.0, 30))
    recorded.forget({A: 20})
    assert recorded.ages({A: 20}, 130.0) == {A: Age(seconds=20.0)}
    assert recorded.ages({A: 10}, 130.0) == {A: Age(seconds=20.0, is_minimum=True)}


def test_rows_are_at_least_as_old_as_the_first_record_after_the_clock_was_set_back():
    recorded = history((1000.0, 10), (1010.0, 20), (110.0, 30))
    assert recorded.ages({A: 15}, 120.0) == {A: Age(seconds=10.0, is_minimum=True)}


def test_a_clock_that_was_set_back_leads_to_no_negative_age():
    assert history((100.0, 10)).ages({A: 5}, 90.0) == {A: Age(seconds=0.0, is_minimum=True)}


def test_a_long_history_keeps_its_first_record_and_stays_bounded():
    recorded = history(*((float(at), at) for at in range(10 * MAX_RECORDS)))
    assert recorded.ages({A: 0}, 10.0 * MAX_RECORDS) == {A: Age(seconds=10.0 * MAX_RECORDS)}
    assert len(recorded._records[A]) <= MAX_RECORDS


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 100)), min_size=1, max_size=30),
    st.integers(0, 3000),
)
def test_the_age_lies_between_the_records_around_the_row(steps: list[tuple[int, int]], row: int):
    at, end, recorded, records = 0, 0, EndOffsetHistory(), []
    for passed, rows in steps:
        at, end = at + passed, end + rows
        recorded.record(float(at), {A: end})
        records.append((at, end))
    found = recorded.ages({A: row}, float(at)).get(A)
    if end <= row:
        assert found is None
        return
    assert found is not None
    oldest = max((t for t, e in records if e <= row), default=records[0][0])
    newest = min(t for t, e in records if e > row)
    assert at - max(newest, oldest) - 1e-9 <= found.seconds <= at - oldest + 1e-9
    assert found.is_minimum == (records[0][1] > row)
