"""Quotas, their scopes, and limit ranges. The real API server confirms the same rules in tests/integration/kubernetes/test_quota.py."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import MUCH
from airflow_adaptive._clusters.kubernetes.capacity.quota import (
    Cap,
    forbidding_limits,
    is_in_scope,
    limits_of,
    unused,
    with_defaults,
)
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


def test_requests_and_limits_of_a_pod_are_charged_to_limits_of_their_own():
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


def limit_range(kind: str = "Container", **item: Any) -> dict[str, Any]:
    return {"metadata": {"name": "range"}, "spec": {"limits": [{"type": kind, **item}]}}


def placement(limit_cores: str | None = None, *more: dict[str, Any], **spec: Any) -> str:
    """Return the placement of an executor of 1 core and 1 GiB."""
    conf = {"spark.executor.memoryOverhead": "512m"}
    limit = {"spark.kubernetes.executor.limit.cores": limit_cores} if limit_cores else {}
    template = {"spec": {"containers": [{"name": "spark"}, *more], **spec}}
    return planned_executor(conf | limit, 1, 512, template).placement


def broken(item: dict[str, Any], its_placement: str) -> list[str]:
    """Return the names of the limits that apply to an executor. They all allow no further executor."""
    applying = [each for each in forbidding_limits([item]) if each.charge(Request(placement=its_placement)) is not None]
    assert all((each.count, each.cpu_millicores, each.memory_bytes) == (0, None, None) for each in applying)
    return [each.name for each in applying]


def test_containers_get_the_values_that_they_lack():
    ranges = [limit_range(default={"cpu": "2", "memory": "2Gi"}, defaultRequest={"cpu": "1"}), limit_range("Pod")]
    given = {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}
    spec = {"containers": [{"name": "a", "resources": given}], "initContainers": [{"name": "b"}], "nodeName": "x"}
    assert with_defaults(spec, ranges) == {
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "1Gi"}}}
        ],
        "initContainers": [
            {"name": "b", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "2Gi"}}}
        ],
        "nodeName": "x",
    }
    assert with_defaults(spec, []) == spec
    assert with_defaults({"containers": []}, [{"metadata": {"name": "empty"}, "spec": {}}]) == {"containers": []}


@pytest.mark.parametrize(
    ("item", "limit_cores", "expected"),
    [
        ({"min": {"memory": "1Gi"}}, None, None),
        ({"min": {"memory": "1025Mi"}}, None, "range (at least 1025Mi memory per container)"),
        ({"min": {"cpu": "1"}}, None, None),
        ({"min": {"cpu": "2"}}, "3", "range (at least 2 cpu per container)"),
        ({"max": {"memory": "1Gi"}}, None, None),
        ({"max": {"memory": "1023Mi"}}, None, "range (at most 1023Mi memory per container)"),
        ({"max": {"cpu": "4"}}, None, "range (at most 4 cpu per container)"),
        ({"max": {"cpu": "4"}}, "4", None),
        ({"max": {"cpu": "4"}}, "5", "range (at most 4 cpu per container)"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, "2", None),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, "3", "range (at most 2 times the cpu request as limit per container)"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            None,
            "range (at most 2 times the cpu request as limit per container)",
        ),
        ({"default": {"cpu": "1"}}, None, None),
        ({"default": {"cpu": "900m"}}, None, "range (a default limit of 900m cpu per container)"),
        ({"default": {"cpu": "900m"}}, "2", None),
        ({"max": {"ephemeral-storage": "1"}}, None, None),
    ],
)
def test_a_container_that_breaks_a_rule_is_forbidden(item, limit_cores: str | None, expected: str | None):
    assert broken(limit_range(**item), placement(limit_cores)) == ([expected] if expected else [])


def test_every_container_must_obey():
    sidecar = {"name": "logs", "resources": {"requests": {"memory": "1Mi"}, "limits": {"memory": "1Mi"}}}
    rule = limit_range(min={"memory": "2Mi"})
    assert broken(rule, placement()) == []
    assert broken(rule, placement(None, sidecar)) == ["range (at least 2Mi memory per container)"]
    assert broken(rule, placement(initContainers=[sidecar])) == ["range (at least 2Mi memory per container)"]


def test_a_container_without_a_request_is_below_each_minimum():
    assert broken(limit_range(min={"memory": "1"}), placement(None, {"name": "logs"})) != []
    assert (
        broken(limit_range(min={"memory": "1"}, defaultRequest={"memory": "1"}), placement(None, {"name": "logs"}))
        == []
    )


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"max": {"memory": "1Gi"}}, []),
        ({"max": {"memory": "1000Mi"}}, ["range (at most 1000Mi memory per pod)"]),
        ({"min": {"cpu": "1001m"}}, ["range (at least 1001m cpu per pod)"]),
        ({"min": {"cpu": "1"}}, []),
        ({"max": {"cpu": "4"}}, ["range (at most 4 cpu per pod)"]),
    ],
)
def test_the_sum_of_a_pod_must_obey_without_its_overhead(item, expected: list[str]):
    assert broken(limit_range("Pod", **item), placement(overhead={"cpu": "9", "memory": "9Gi"})) == expected


def test_other_objects_and_unknown_placements_are_not_forbidden():
    assert broken(limit_range("PersistentVolumeClaim", max={"memory": "1"}), placement()) == []
    assert broken(limit_range(max={"memory": "1"}), "") == []


WITH_REQUEST = {"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}
WITH_LIMIT = {"containers": [{"name": "a"}], "initContainers": [{"name": "b", "resources": {"limits": {"cpu": "1"}}}]}
WITHOUT = {"containers": [{"name": "a", "resources": {}}]}


def test_a_quota_without_scopes_counts_all_pods():
    assert is_in_scope({}, WITHOUT)


@pytest.mark.parametrize(
    ("scope", "spec", "expected"),
    [
        ("BestEffort", WITHOUT, True),
        ("BestEffort", WITH_REQUEST, False),
        ("BestEffort", WITH_LIMIT, False),
        ("NotBestEffort", WITH_LIMIT, True),
        ("NotBestEffort", WITHOUT, False),
        ("Terminating", {"activeDeadlineSeconds": 0}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {"activeDeadlineSeconds": 1}, False),
        ("NotTerminating", {}, True),
        ("CrossNamespacePodAffinity", {}, False),
        ("VolumeAttributesClass", {}, False),
    ],
)
def test_a_scope_selects_pods(scope: str, spec: dict[str, Any], *, expected: bool):
    assert is_in_scope({"scopes": [scope]}, spec) is expected
    selector = {"matchExpressions": [{"scopeName": scope, "operator": "Exists"}]}
    assert is_in_scope({"scopeSelector": selector}, spec) is expected


@pytest.mark.parametrize(
    ("operator", "name", "expected"),
    [
        ("In", "high", True),
        ("In", "low", False),
        ("In", None, False),
        ("NotIn", "high", False),
        ("NotIn", "low", True),
        ("NotIn", None, True),
        ("Exists", "low", True),
        ("Exists", None, False),
        ("DoesNotExist", None, True),
        ("DoesNotExist", "low", False),
    ],
)
def test_a_scope_of_a_priority_class(operator: str, name: str | None, *, expected: bool):
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}
    spec = {"priorityClassName": name} if name else {}
    assert is_in_scope({"scopeSelector": {"matchExpressions": [expression]}}, spec) is expected


def test_all_scopes_must_match():
    assert is_in_scope({"scopes": ["NotTerminating", "BestEffort"]}, WITHOUT)
    assert not is_in_scope({"scopes": ["Terminating", "BestEffort"]}, WITHOUT)
