"""The plans are those of Spark 4.3 with its connector for Kafka."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.protocol.sources import Shuffle
from airflow_adaptive.job.queries.sources.query_sources import shuffle_in, shuffle_of

SCAN = "MicroBatchScan[key#7, value#8] class org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan"

AGGREGATION = f"""
+- StateStoreSave [partition#10], state info [ checkpoint = file:/ck/state, runId = 7eb, opId = 0, ver = 3]
   +- Exchange hashpartitioning(partition#10, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=372]
      +- {SCAN}"""

REPARTITIONED = f"""
+- AdaptiveSparkPlan isFinalPlan=false
   +- == Initial Plan ==
      Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=254]
      +- {SCAN}"""

BROADCAST = f"""
+- *(1) BroadcastHashJoin [key#7], [id#1], Inner, BuildRight
   :- {SCAN}
   +- BroadcastExchange HashedRelationBroadcastMode(List(id#1)), [plan_id=3]"""


@pytest.mark.parametrize(
    ("plan", "shuffle"),
    [
        (f"+- *(1) Project [key#7]\n   +- {SCAN}", Shuffle.NONE),
        (AGGREGATION, Shuffle.EXCHANGE),
        (REPARTITIONED, Shuffle.REPARTITION),
        (AGGREGATION + REPARTITIONED, Shuffle.REPARTITION),
        (BROADCAST, Shuffle.NONE),
    ],
    ids=["none", "aggregation", "repartition", "both", "broadcast"],
)
def test_shuffle_is_read_from_the_plan(plan: str, shuffle: Shuffle):
    assert shuffle_in(plan) is shuffle
    assert shuffle_of(execution("NoopTable$", plan)) is shuffle


def execution(sink: str, plan: str | None) -> Any:
    executed = SimpleNamespace(executedPlan=lambda: SimpleNamespace(toString=lambda: plan))
    return SimpleNamespace(
        sink=lambda: SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: sink)),
        lastExecution=lambda: None if plan is None else executed,
    )


def test_plan_is_unknown_before_the_first_batch():
    assert shuffle_of(execution("NoopTable$", None)) is None


def test_what_a_function_of_the_script_does_is_unknown():
    assert shuffle_of(execution("ForeachBatchSink", SCAN)) is Shuffle.UNKNOWN
