"""The capacity of a namespace on each level of permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive.ports import ClusterUnreachableError, Resources
from airflow_adaptive.spark.kubernetes.capacity.capacity import NamespaceObjects, capacity
from airflow_adaptive.spark.kubernetes.capacity.cluster_reader import ClusterPods
from airflow_adaptive.spark.kubernetes.capacity.quota import Cap
from airflow_adaptive.spark.kubernetes.capacity.workers import Usage

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
    assert found.executors.workers == {"app": {"1": "node-1"}}


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
    assert found.executors.workers == {"app": {"1": "node-1"}}


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
    assert found.executors.workers == {"app": {"1": "team"}}
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
