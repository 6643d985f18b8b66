"""The rules by which the scheduler may bind a pod to a node."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.workers import admits, departure, is_ready
from airflow_adaptive._clusters.kubernetes.job_pods import kept
from tests.support.kubernetes.client.pods import driver_pod


def node(**spec: Any) -> dict[str, Any]:
    labels = {"zone": "a", "cpus": "16", "word": "many"}
    return {"metadata": {"name": "node-1", "labels": labels}, "spec": spec}


def tainted(effect: str, value: str | None = "batch") -> dict[str, Any]:
    taint = {"key": "team", "effect": effect}
    return node(taints=[taint if value is None else {**taint, "value": value}])


def affinity(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {"requiredNodeAffinity": {"nodeSelectorTerms": [{}, term]}}


def test_a_pod_without_constraints_runs_on_a_node_without_taints():
    assert admits(node(), {})
    assert admits({"metadata": {"name": "bare"}}, {})


@pytest.mark.parametrize(
    ("effect", "expected"), [("NoSchedule", False), ("NoExecute", False), ("PreferNoSchedule", True)]
)
def test_a_taint_keeps_pods_away_unless_it_is_a_preference(effect: str, *, expected: bool):
    assert admits(tainted(effect), {}) is expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "team", "operator": "Equal", "value": "batch"}, True),
        ({"key": "team", "value": "batch"}, True),
        ({"key": "team", "value": "web"}, False),
        ({"key": "team"}, False),
    ],
)
def test_a_toleration_must_match_the_taint(toleration: dict[str, str], *, expected: bool):
    assert admits(tainted("NoSchedule"), {"tolerations": [toleration]}) is expected


def test_a_taint_without_value_matches_a_toleration_without_value():
    assert admits(tainted("NoSchedule", None), {"tolerations": [{"key": "team"}]})
    assert not admits(tainted("NoSchedule", None), {"tolerations": [{"key": "team", "value": "batch"}]})


def test_every_taint_must_be_tolerated():
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    both = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    assert admits(node(taints=taints), {"tolerations": both})
    assert not admits(node(taints=taints), {"tolerations": both[:1]})


def test_a_cordoned_node_takes_only_pods_that_tolerate_the_cordon():
    assert not admits(node(unschedulable=True), {})
    tolerated = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]
    assert admits(node(unschedulable=True), {"tolerations": tolerated})


def test_a_pod_that_names_its_node_runs_there_only():
    assert admits(node(), {"nodeName": "node-1"})
    assert not admits(node(), {"nodeName": "node-2"})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [({"zone": "a"}, True), ({"zone": "b"}, False), ({"zone": "a", "disk": "ssd"}, False)],
)
def test_each_label_of_the_selector_must_match(selector: dict[str, str], *, expected: bool):
    assert admits(node(), {"nodeSelector": selector}) is expected


@pytest.mark.parametrize(
    ("operator", "key", "values", "expected"),
    [
        ("In", "zone", ["a", "b"], True),
        ("In", "zone", ["b"], False),
        ("In", "none", ["b"], False),
        ("NotIn", "zone", ["b"], True),
        ("NotIn", "zone", ["a"], False),
        ("NotIn", "none", ["a"], True),
        ("Exists", "zone", None, True),
        ("Exists", "none", None, False),
        ("DoesNotExist", "none", None, True),
        ("DoesNotExist", "zone", None, False),
        ("Gt", "cpus", ["8"], True),
        ("Gt", "cpus", ["16"], False),
        ("Gt", "none", ["8"], False),
        ("Gt", "word", ["8"], False),
        ("Lt", "cpus", ["32"], True),
        ("Lt", "cpus", ["16"], False),
        ("Lt", "word", ["8"], False),
    ],
)
def test_an_expression_of_the_required_affinity_must_be_true(operator, key, values, *, expected: bool):
    expression = {"operator": operator, "key": key, "values": values}
    assert admits(node(), affinity(expression)) is expected


def test_all_expressions_of_one_term_must_be_true():
    here = {"operator": "In", "key": "metadata.name", "values": ["node-1"]}
    in_zone, elsewhere = {"operator": "In", "key": "zone", "values": ["a"]}, {"operator": "Exists", "key": "none"}
    assert admits(node(), affinity(in_zone, fields=(here,)))
    assert not admits(node(), affinity(in_zone, elsewhere, fields=(here,)))
    assert not admits(node(), affinity(in_zone, fields=({**here, "values": ["node-2"]},)))


def test_a_term_without_expressions_is_never_true():
    assert not admits(node(), affinity())
    assert not admits(node(), {"requiredNodeAffinity": {}})


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_only_if_its_kubelet_reports_it(status: str, *, expected: bool):
    others = {"type": "MemoryPressure", "status": "True"}
    assert is_ready({"status": {"conditions": [others, {"type": "Ready", "status": status}]}}) is expected
    assert not is_ready({})


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({}, ""),
        ({"unschedulable": True}, "was cordoned"),
        ({"taints": [{"key": "spot", "effect": "NoSchedule"}]}, ""),
        ({"taints": [{"key": "gone", "effect": "NoExecute"}]}, "has the taint gone"),
        ({"taints": [{"key": "tolerated", "effect": "NoExecute"}]}, ""),
        ({"taints": [{"key": "pool", "value": "spark", "effect": "NoExecute"}]}, ""),
        ({"taints": [{"key": "pool", "value": "other", "effect": "NoExecute"}]}, "has the taint pool"),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}, ""),
        ({"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "was cordoned"),
        ({"unschedulable": True, "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}, "was cordoned and has the taint karpenter.sh/disrupted"),
        ({"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]}, "has the taint aws-node-termination-handler/spot-itn"),
    ],
)  # fmt: skip
def test_node_that_is_drained_announces_the_end_of_its_pods(spec: dict[str, Any], reason: str):
    tolerant = driver_pod()
    tolerant["spec"]["tolerations"] = [
        {"key": "tolerated", "operator": "Exists", "tolerationSeconds": 300},
        {"key": "pool", "operator": "Equal", "value": "spark", "effect": "NoExecute"},
        # what Kubernetes adds to each pod
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]
    why = departure(node(**spec), kept(tolerant))
    assert why == (f"node {node()['metadata']['name']} of the driver {reason}" if reason else "")
