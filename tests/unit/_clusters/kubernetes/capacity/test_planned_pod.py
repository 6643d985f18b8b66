"""The pods that Spark would create."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_driver, planned_executor, spec_of
from airflow_adaptive._core.ports import MIB, Request, Resources

OVERHEAD = {"spark.driver.memoryOverhead": "512m", "spark.executor.memoryOverhead": "512m"}
GIB = 1024 * MIB


def size(request: Request) -> Resources:
    return Resources(request.cpu_millicores, request.memory_bytes)


def container(name: str, cpu: str, memory: str) -> dict[str, Any]:
    return {"name": name, "image": "any", "resources": {"requests": {"cpu": cpu, "memory": memory}}}


@pytest.mark.parametrize("planned", [planned_driver, planned_executor])
def test_without_a_template_the_pod_has_the_container_of_spark_only(planned):
    pod = planned(OVERHEAD, 2, 512)
    assert size(pod) == Resources(2000, GIB)
    resources = {"requests": {"cpu": "2000m", "memory": str(GIB)}, "limits": {"memory": str(GIB)}}
    role = "driver" if planned is planned_driver else "executor"
    assert spec_of(pod.placement) == {"containers": [{"name": role, "resources": resources}]}


def test_spark_replaces_the_requests_of_the_first_container_of_the_template():
    template = {"spec": {"containers": [container("spark", "9", "9Gi"), container("logs", "500m", "1Mi")]}}
    pod = planned_executor(OVERHEAD, 1, 512, template)
    assert size(pod) == Resources(1500, GIB + MIB)
    assert [each["name"] for each in spec_of(pod.placement)["containers"]] == ["spark", "logs"]


def test_a_property_names_the_container_of_spark():
    conf = OVERHEAD | {"spark.kubernetes.executor.podTemplateContainerName": "spark"}
    template = {"spec": {"containers": [container("logs", "500m", "1Mi"), container("spark", "9", "9Gi")]}}
    assert size(planned_executor(conf, 1, 512, template)) == Resources(1500, GIB + MIB)
    assert size(planned_driver(conf, 1, 512, template)) == Resources(10000, 10 * GIB)


def test_other_resources_of_the_container_of_spark_stay():
    gpu = {"name": "spark", "resources": {"requests": {"cpu": "1", "gpu": "1"}, "limits": {"cpu": "4", "gpu": "1"}}}
    [own] = spec_of(planned_executor(OVERHEAD, 1, 512, {"spec": {"containers": [gpu]}}).placement)["containers"]
    assert own["resources"]["requests"] == {"cpu": "1000m", "memory": str(GIB), "gpu": "1"}
    assert own["resources"]["limits"] == {"cpu": "4", "memory": str(GIB), "gpu": "1"}


def test_a_property_sets_the_limit_of_the_cpu():
    conf = OVERHEAD | {"spark.kubernetes.executor.limit.cores": "3"}
    [own] = spec_of(planned_executor(conf, 1, 512).placement)["containers"]
    assert own["resources"]["limits"]["cpu"] == "3"
    [other] = spec_of(planned_driver(conf, 1, 512).placement)["containers"]
    assert "cpu" not in other["resources"]["limits"]


def test_properties_add_to_the_node_selector_of_the_template():
    conf = {
        "spark.kubernetes.node.selector.zone": "a",
        "spark.kubernetes.node.selector.disk": "hdd",
        "spark.kubernetes.executor.node.selector.disk": "ssd",
        "spark.kubernetes.driver.node.selector.cpu": "arm",
    }
    template = {"spec": {"nodeSelector": {"zone": "b", "team": "x"}}}
    selector = {"zone": "a", "disk": "ssd", "team": "x"}
    assert spec_of(planned_executor(conf, 1, 512, template).placement)["nodeSelector"] == selector
    selector = {"zone": "a", "disk": "hdd", "team": "x", "cpu": "arm"}
    assert spec_of(planned_driver(conf, 1, 512, template).placement)["nodeSelector"] == selector


def test_the_placement_has_what_decides_where_the_pod_fits_and_nothing_else():
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "high",
        "activeDeadlineSeconds": 60,
        "overhead": {"cpu": "250m"},
        "serviceAccountName": "spark",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "initContainers": [container("init", "3", "1Mi")],
    }
    pod = planned_executor(OVERHEAD, 1, 512, {"metadata": {"name": "x"}, "spec": spec})
    assert size(pod) == Resources(3250, GIB)
    kept = ["activeDeadlineSeconds", "containers", "initContainers", "overhead", "priorityClassName"]
    assert list(json.loads(pod.placement)) == [*kept, "requiredNodeAffinity", "tolerations"]
    assert spec_of(pod.placement)["requiredNodeAffinity"] == required
    assert "image" not in pod.placement


def test_equal_pods_have_equal_placements():
    one, two = (
        {"spec": {"tolerations": [], "nodeSelector": {"a": "1", "b": "2"}}},
        {"spec": {"nodeSelector": {"b": "2", "a": "1"}}},
    )
    assert planned_executor(OVERHEAD, 1, 512, one) == planned_executor(OVERHEAD, 1, 512, two)


def test_an_unknown_placement_has_no_constraints():
    assert spec_of("") == {"containers": []}
