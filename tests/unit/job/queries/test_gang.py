"""The gang of a query in Real-Time Mode: its slots, and the partitions for the slots of a plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive.job.queries.real_time_mode import Gang, shuffles_of

AGGREGATION = """
+- StateStoreSave [name#1], state info [ checkpoint = <unknown>, opId = 0, ver = 0, numPartitions = 7], 2
   +- *(2) HashAggregate(keys=[name#1], functions=[merge_count(1)])
      +- Exchange hashpartitioning(name#1, other#2, 7), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=54]
         +- *(1) HashAggregate(keys=[name#1], functions=[partial_count(1)])
"""


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("*(1) Project\n+- StreamingRelation kafka", (0, 0)),
        (AGGREGATION, (0, 1)),
        ("Exchange RoundRobinPartitioning(5), REPARTITION_BY_NUM, [plan_id=1]", (5, 0)),
        ("Exchange hashpartitioning(name#1, 3), REPARTITION_BY_NUM, [plan_id=1]", (3, 0)),
        ("Exchange hashpartitioning(name#1, 3), REPARTITION_BY_COL, [plan_id=1]", (0, 1)),
        ("Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1]", (1, 0)),
        ("BroadcastExchange HashedRelationBroadcastMode(List(input[0, int, false]))", (0, 0)),
        (f"Exchange RoundRobinPartitioning(5), REPARTITION_BY_NUM, [plan_id=1]\n{AGGREGATION}", (5, 1)),
    ],
)
def test_shuffles_of_a_plan(plan: str, expected: tuple[int, int]) -> None:
    assert shuffles_of(plan) == expected


def test_gang_has_a_slot_for_each_task_of_all_stages() -> None:
    gang = Gang(inputs=2, fixed=5, shuffles=2)
    assert gang.minimum == 9
    assert gang.slots(3) == 13


def test_gang_without_shuffles_is_as_large_as_its_input() -> None:
    assert Gang(inputs=4).minimum == 4
    assert Gang(inputs=4).partitions(9, 8) == 8


def test_partitions_follow_the_slots_up_to_the_maximum() -> None:
    gang = Gang(inputs=2, shuffles=1)
    assert [gang.partitions(slots, 4) for slots in (3, 4, 6, 9)] == [1, 2, 4, 4]


def test_partitions_of_a_checkpoint_that_cannot_change_belong_to_the_gang() -> None:
    gang = Gang(inputs=2, shuffles=1, kept=5)
    assert gang.minimum == 7
    assert gang.partitions(20, 20) == 5


@given(st.integers(1, 50), st.integers(0, 10), st.integers(0, 3), st.integers(1, 200), st.integers(1, 64))
def test_gang_fits_into_every_number_of_slots_from_its_minimum(
    inputs: int, fixed: int, shuffles: int, slots: int, most: int
) -> None:
    gang = Gang(inputs=inputs, fixed=fixed, shuffles=shuffles)
    partitions = gang.partitions(slots, most)
    assert 1 <= partitions <= most
    if slots >= gang.minimum:
        assert gang.slots(partitions) <= slots
