"""The capacity of a namespace on each level of permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.capacity import NamespaceObjects, capacity, never_fits
from airflow_adaptive._clusters.kubernetes.capacity.quota import Cap
from airflow_adaptive._clusters.kubernetes.capacity.workers import ClusterPods, Usage
from airflow_adaptive._core.ports import MIB, ClusterUnreachableError, Request, Resources

NODE = {"metadata": {"name": "node-1"}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}}
OWN = {
    "metadata": {"name": "x", "labels": {"spark-app-selector": "app", "spark-exec-id": "1"}},
    "spec": {"nodeName": "node-1", "containers": [{"name": "e", "resources": {"requests": {"cpu": "3"}}}]},
}
QUOTA = {
    "metadata": {"name": "team-a"},
    "spec": {"hard": {"pods": "3"}},
    "status": {"hard": {"pods": "3"}, "used": {"pods": "1"}},
}
RANGE = {"metadata": {"name": "range"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}}


def test_with_nodes_and_all_pods_the_nodes_are_the_workers():
    pods = ClusterPods(
        [NODE], {"team": {"node-1": Usage(Resources(9000, 0), 9)}}, {"node-1": Usage(Resources(1000, 0), 1)}
    )
    found = capacity(NamespaceObjects(namespace="team", own_pods=[OWN], quotas=[QUOTA]), pods)
    [worker] = found.workers
    assert (worker.worker_id, worker.free.cpu_millicores, worker.count) == ("node-1", 4000, 8)
    assert [limit.name for limit in found.limits] == ["team-a"]
    assert found.worker_of("node-1") == "node-1"


def test_with_nodes_no_limit_is_needed():
    assert capacity(NamespaceObjects(namespace="team", own_pods=[]), ClusterPods([NODE], {}, {})).limits == ()


@pytest.mark.parametrize("bound", [{"quotas": [QUOTA]}, {"cap": Cap(memory_bytes=1 << 40)}], ids=["quota", "cap"])
def test_nodes_that_an_autoscaler_may_add_are_one_worker_on_demand(bound: Any):
    known = NamespaceObjects(namespace="team", own_pods=[OWN], has_node_autoscaling=True, **bound)
    found = capacity(known, ClusterPods([NODE], {}, {}))
    assert [(worker.worker_id, worker.is_on_demand) for worker in found.workers] == [
        ("node-1", False),
        ("node-autoscaling", True),
    ]
    assert found.workers[1].accepts("")
    assert found.worker_of("node-1") == "node-1"


def test_nodes_that_an_autoscaler_may_add_need_a_bound():
    """A LimitRange bounds each pod, and not their number."""
    known = NamespaceObjects(namespace="team", own_pods=[], limit_ranges=[RANGE], has_node_autoscaling=True)
    with pytest.raises(ClusterUnreachableError, match="Create a ResourceQuota .* or set max-cores and max-memory"):
        capacity(known, ClusterPods([NODE], {}, {}))


@pytest.mark.parametrize(
    "known",
    [
        NamespaceObjects(namespace="team", own_pods=[OWN], quotas=[QUOTA]),
        NamespaceObjects(namespace="team", own_pods=[OWN], cap=Cap(memory_bytes=1)),
    ],
)
def test_without_nodes_the_namespace_is_one_worker_that_holds_all_executors(known: NamespaceObjects):
    found = capacity(known, None)
    assert [worker.worker_id for worker in found.workers] == ["team"]
    assert found.worker_of("node-1") == "team"
    assert len(found.limits) == 1
    assert found.workers[0].accepts(json.dumps(OWN["spec"]))


def test_without_any_bound_the_error_names_what_is_missing_and_the_remedies():
    forbidden = ["list nodes", "list pods of all namespaces", "list resourcequotas in team"]
    known = NamespaceObjects(namespace="team", own_pods=[], limit_ranges=[RANGE], forbidden=forbidden)
    with pytest.raises(ClusterUnreachableError) as caught:
        capacity(known, None)
    expected = (
        "may not list nodes, list pods of all namespaces, list resourcequotas in team,",
        "ResourceQuota",
        "max-cores",
    )
    assert all(text in str(caught.value) for text in expected)


def misfit(cpu: float, memory_mib: int, *, nodes: bool = True, **known: Any) -> str:
    request = Request(round(cpu * 1000), memory_mib * MIB)
    pods = ClusterPods([NODE, SMALL_NODE], {}, {}) if nodes else None
    return never_fits(NamespaceObjects(namespace="team", own_pods=[], **known), pods, "driver", request)


SMALL_NODE = {"metadata": {"name": "node-2"}, "status": {"allocatable": {"cpu": "16", "memory": "1Gi", "pods": "10"}}}


def sized(**hard: str) -> dict[str, Any]:
    """A quota that is used up."""
    return {"metadata": {"name": "team-a"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": hard}}


def test_a_pod_that_is_larger_than_each_node_never_fits():
    assert misfit(8, 8192) == ""
    assert misfit(16, 1024) == ""
    expected = "the driver requests 9 CPU and 2,048 MiB, including its memory overhead, and no node is large enough: the largest one offers 8 CPU and 8,192 MiB"
    assert misfit(9, 2048).startswith(f"{expected}: reduce `driver_memory` or `driver_cores`, or add larger nodes")
    assert "no node is large enough" in misfit(1, 8193)


def test_a_pod_may_fit_if_the_nodes_are_unknown_or_may_come():
    assert misfit(9, 2048, nodes=False) == ""
    assert misfit(9, 2048, has_node_autoscaling=True) == ""
    assert never_fits(NamespaceObjects(namespace="t", own_pods=[]), ClusterPods([], {}, {}), "driver", BIG) == ""


BIG = Request(9000, 1 << 40)


def test_a_pod_that_is_larger_than_an_empty_quota_or_the_cap_never_fits():
    assert misfit(4, 1024, nodes=False, quotas=[sized(**{"requests.cpu": "4", "pods": "9"})]) == ""
    assert misfit(5, 1024, nodes=False, quotas=[sized(**{"requests.cpu": "4"})]) == (
        "the driver requests 5 CPU and 1,024 MiB, including its memory overhead, more than quota `team-a` allows at all (4 CPU): "
        "reduce `driver_memory` or `driver_cores`, or raise the limit"
    )
    assert "the cap of the connection allows at all (1,000 MiB)" in misfit(1, 1001, cap=Cap(memory_bytes=1000 * MIB))


@pytest.mark.parametrize("hard", [{"pods": "0"}, {"requests.cpu": "0"}, {"requests.memory": "0", "pods": "1"}])
def test_a_quota_that_pauses_a_namespace_may_allow_a_pod_later(hard: dict[str, str]):
    assert misfit(1, 1024, quotas=[sized(**hard)]) == ""
