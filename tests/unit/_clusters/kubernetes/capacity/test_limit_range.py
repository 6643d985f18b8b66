"""LimitRanges. The real API server confirms the same rules in tests/integration/kubernetes/test_quota.py."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.limit_range import forbidding_limits, with_defaults
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._core.ports import Request


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
