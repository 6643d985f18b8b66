"""The limits of a namespace. The real API server confirms the same rules in tests/integration/kubernetes/test_quota.py."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.capacity.quantities import MUCH
from airflow_adaptive._clusters.kubernetes.capacity.quota import Cap, limits_of, unused
from airflow_adaptive._core.ports import Limit, LimitKind, Request, Resources

GIB = 1 << 30
EXECUTOR = planned_executor({"spark.executor.memoryOverhead": "512m"}, 1, 512)


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    used = dict.fromkeys(hard, "0") | (used or {})
    return {"metadata": {"name": "team-a"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}


def only(*quotas: Any, ranges: Any = ()) -> Limit:
    [limit] = limits_of(quotas, ranges, Cap(), [])
    return limit


def left(limit: Limit) -> tuple[int | None, int | None, int | None]:
    return limit.cpu_millicores, limit.memory_bytes, limit.count


def own_pod(phase: str = "Running") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"metadata": {}, "spec": {"containers": [container]}, "status": {"phase": phase}}


def test_without_quotas_and_cap_there_is_no_limit():
    assert limits_of([], [], Cap(), []) == ()
    assert limits_of([quota({"configmaps": "1"})], [], Cap(), []) == ()


@pytest.mark.parametrize(
    ("hard", "used", "expected"),
    [
        ({"requests.cpu": "10"}, {"requests.cpu": "2500m"}, (7500, None, None)),
        ({"cpu": "10", "requests.cpu": "4"}, {}, (4000, None, None)),
        ({"requests.memory": "10Gi"}, {"requests.memory": "1Gi"}, (None, 9 * GIB, None)),
        ({"memory": "1Gi", "requests.memory": "2Gi"}, {}, (None, GIB, None)),
        ({"pods": "10", "count/pods": "20"}, {"pods": "2", "count/pods": "15"}, (None, None, 5)),
        ({"pods": "3"}, {"pods": "5"}, (None, None, 0)),
        ({"requests.cpu": "1"}, {"requests.cpu": "2"}, (0, None, None)),
        ({"limits.cpu": "4", "limits.memory": "1Gi"}, {}, (4000, GIB, None)),
    ],
)
def test_a_quota_leaves_what_is_not_used(hard, used, expected: tuple[int | None, int | None, int | None]):
    limit = only(quota(hard, used))
    assert (limit.kind, limit.name, left(limit)) == (LimitKind.QUOTA, "team-a", expected)


def test_a_quota_whose_usage_is_unknown_leaves_nothing():
    new = quota({"pods": "3", "requests.cpu": "4"})
    assert left(only({**new, "status": {}})) == (0, None, 0)
    assert only({**new, "status": {"hard": new["status"]["hard"]}}).count == 0
    assert only(quota({"requests.cpu": "4"}) | {"status": {"used": {"requests.cpu": "0"}}}).cpu_millicores == 0


def test_requests_and_limits_of_a_quota_are_limits_of_their_own():
    requested, limited = limits_of(
        [quota({"requests.memory": "8Gi", "limits.memory": "4Gi", "pods": "9"})], [], Cap(), []
    )
    assert (requested.memory_bytes, requested.count) == (8 * GIB, 9)
    assert (limited.memory_bytes, limited.count) == (4 * GIB, None)


def test_a_driver_or_an_executor_takes_its_requests_from_one_limit_and_its_limits_from_the_other():
    conf = {"spark.executor.memoryOverhead": "512m", "spark.kubernetes.executor.limit.cores": "3"}
    planned = planned_executor(conf, 1, 512)
    requested, limited = limits_of([quota({"requests.cpu": "8", "limits.cpu": "8"})], [], Cap(), [])
    assert requested.charge(planned) == Resources(1000, GIB)
    assert limited.charge(planned) == Resources(3000, GIB)


def test_a_container_without_a_value_for_the_resource_is_refused():
    limit = only(quota({"limits.cpu": "8"}))
    assert limit.charge(EXECUTOR) == Resources(MUCH, MUCH)
    limit = only(quota({"limits.memory": "8Gi"}))
    assert limit.charge(EXECUTOR) == Resources(0, GIB)


def test_a_limit_range_adds_the_value():
    ranges = [{"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}}]
    limit, *_ = limits_of([quota({"limits.cpu": "8"})], ranges, Cap(), [])
    assert limit.charge(EXECUTOR) == Resources(2000, GIB)


def test_a_quota_does_not_count_what_is_out_of_its_scopes():
    assert only(quota({"pods": "1"}, scopes=["Terminating"])).charge(EXECUTOR) is None


def test_without_a_placement_the_request_counts():
    assert only(quota({"pods": "1"}, scopes=["Terminating"])).charge(Request(1, 2)) == Request(1, 2)


def test_the_cap_leaves_what_drivers_and_executors_do_not_request():
    pods = [own_pod(), own_pod("Pending"), own_pod("Succeeded")]
    [limit] = limits_of([], [], Cap(cpu_millicores=4000), pods)
    assert (limit.kind, left(limit)) == (LimitKind.CAP, (2000, None, None))
    assert limit.charge(EXECUTOR) == EXECUTOR
    [limit] = limits_of([], [], Cap(cpu_millicores=1000, memory_bytes=3 * GIB), pods)
    assert left(limit) == (0, GIB, None)


def test_quotas_come_before_limit_ranges_and_the_cap():
    ranges = [{"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}}]
    limits = limits_of([quota({"pods": "1"})], ranges, Cap(1, 1), [])
    assert [limit.name for limit in limits] == ["team-a", "r (at most 1Gi memory per container)", ""]


def test_a_pod_that_is_being_deleted_does_not_count_for_the_cap():
    """On a lost node, it stays until the node returns, and its successor needs the room."""
    deleted = {**own_pod(), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    [cap] = limits_of([], [], Cap(cpu_millicores=3000), [own_pod(), deleted])
    assert cap.cpu_millicores == 2000


def test_an_unused_quota_leaves_everything():
    assert left(only(unused(quota({"pods": "3", "requests.cpu": "4"}, {"pods": "3", "requests.cpu": "4"})))) == (
        4000,
        None,
        3,
    )
    assert only(unused({**quota({"pods": "3"}), "status": {}})).count == 3
