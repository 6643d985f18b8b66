"""The evaluation of Spark's measurements by the benchmark of load balancing (`make bench-balance`)."""

from typing import Any

import pytest

from airflow_adaptive.job.protocol.documents import NONE, TASKS
from tests.lab.benchmarks.balance import Batch, Measurements, effect, measurements, newest_batches, table

SPARK: dict[str, Any] = {
    "executors": [{"id": "driver"}, {"id": "0"}, {"id": "1"}],
    "jobs": [
        {"jobId": 3, "status": "SUCCEEDED", "description": "q<br/>batch = 2", "stageIds": [6]},
        {"jobId": 2, "status": "SUCCEEDED", "description": "q<br/>batch = 1", "stageIds": [4, 5]},
        {"jobId": 1, "status": "SUCCEEDED", "description": "q<br/>batch = 0", "stageIds": [2]},
        {"jobId": 0, "status": "SUCCEEDED", "stageIds": [0]},
    ],
    "stages/2?details=true": [{"executorSummary": {"0": {"succeededTasks": 1, "taskTime": 9}}}],
    "stages/4?details=true": [{"status": "SKIPPED"}],
    "stages/5?details=true": [
        {"executorSummary": {"0": {"succeededTasks": 1, "taskTime": 4}}},
        {"executorSummary": {"0": {"succeededTasks": 3, "taskTime": 6}}},
    ],
}
"""Spark's REST interface after three batches, of which the last one is not over; two executors, one of them idle."""


def test_a_batch_is_what_its_stages_ran_on_every_executor():
    newest = newest_batches(SPARK.__getitem__, 1)
    assert newest == [Batch({"0": 4, "1": 0}, {"0": 10, "1": 0})]
    assert [sum(batch.tasks.values()) for batch in newest_batches(SPARK.__getitem__, 9)] == [1, 4]


def test_metrics_are_means_over_batches():
    assert measurements(
        [Batch({"0": 4, "1": 0}, {"0": 10, "1": 0}), Batch({"0": 1, "1": 3}, {"0": 5, "1": 15})]
    ) == Measurements(tasks=[3, 1], difference=3.0, max_to_avg_tasks=1.75, max_to_avg_time=1.75)


@pytest.mark.parametrize(("before", "after", "text"), [(2.0, 1.25, "max/avg -0.75"), (1.14, 1.15, "no effect")])
def test_the_table_reports_what_balancing_changed_also_when_that_is_nothing(before, after, text):
    modes = {
        mode: Measurements(tasks=[6, 2], difference=4.0, max_to_avg_tasks=ratio, max_to_avg_time=1.5)
        for mode, ratio in ((NONE, before), (TASKS, after))
    }
    assert effect(modes[NONE], modes[TASKS]) == text
    *_, without, balanced = table({"a job": modes})
    assert without == f"| a job | NONE | 6/2 | 4.0 | {before:.2f} | 1.50 |  |"
    assert balanced == f"| a job | TASKS | 6/2 | 4.0 | {after:.2f} | 1.50 | {text} |"
