"""The share of each query in the slots: a FAIR pool of its name, whose weight is the number of slots of its group."""

from __future__ import annotations

import pytest

from tests.unit.job.queries.test_job_queries import Job, plan


@pytest.fixture
def two() -> Job:
    return Job("a", "b")


def test_a_single_query_stays_in_the_default_pool() -> None:
    job = Job("a")
    job.start(plan(pool_weights={"a": 3}))
    assert job.runs[0].pool == "default"
    assert job.pools == {}


def test_weights_of_the_pools_are_the_slots_of_the_groups(two: Job) -> None:
    two.start(plan(pool_weights={"a": 3}))
    assert [run.pool for run in two.runs] == ["a", "b"]
    assert {name: pool.settings for name, pool in two.pools.items()} == {"a": ("FAIR", 0, 3), "b": ("FAIR", 0, 1)}
    assert two.spark.local["spark.scheduler.pool"] == "default", "other jobs of this thread use the default pool"


def test_a_pool_has_at_least_weight_1(two: Job) -> None:
    two.start(plan(pool_weights={"a": 0}))
    assert two.pools["a"].weight() == 1


def test_a_new_weight_applies_to_new_stages_while_old_ones_end(two: Job) -> None:
    two.start(plan(pool_weights={"a": 1, "b": 2}))
    old = two.pools["a"]
    old.busy = True
    two.queries.adopt(plan(pool_weights={"a": 3, "b": 2}))
    assert {name: pool.weight() for name, pool in two.pools.items()} == {"a": 3, "b": 2}
    two.queries.adopt(plan(pool_weights={"a": 3, "b": 2}))
    assert old in two.spark.root.pools
    old.busy = False
    two.queries.adopt(plan(pool_weights={"a": 3, "b": 2}))
    assert two.spark.root.pools == [two.pools["b"], two.pools["a"]]
