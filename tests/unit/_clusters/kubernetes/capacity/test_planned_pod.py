"""The pods that Spark would create, and their requests. Real Spark confirms them in tests/integration/kubernetes/test_spark_requests.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import (
    driver_request,
    executor_request,
    planned_driver,
    planned_executor,
    spec_of,
)
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


def memory_mb(request: Resources) -> int:
    assert request.memory_bytes % MIB == 0
    return request.memory_bytes // MIB


@pytest.mark.parametrize("role", [driver_request, executor_request])
def test_without_properties_the_overhead_is_that_of_python(role):
    assert role({}, 2, 512) == Resources(2000, (512 + 384) * MIB)
    assert role({}, 2, 1024) == Resources(2000, (1024 + 409) * MIB)


@pytest.mark.parametrize(("role", "request_of"), [("driver", driver_request), ("executor", executor_request)])
@pytest.mark.parametrize(
    ("properties", "expected_mb"),
    [
        ({"spark.kubernetes.memoryOverheadFactor": "0.1"}, 4096 + 409),
        ({"spark.{}.memoryOverheadFactor": "0.5", "spark.kubernetes.memoryOverheadFactor": "0.1"}, 4096 + 2048),
        ({"spark.{}.memoryOverheadFactor": "0.01"}, 4096 + 384),
        ({"spark.{}.memoryOverheadFactor": "0.01", "spark.{}.minMemoryOverhead": "64m"}, 4096 + 64),
        ({"spark.{}.minMemoryOverhead": "2g"}, 4096 + 2048),
        ({"spark.{}.memoryOverhead": "1"}, 4097),
        ({"spark.{}.memoryOverhead": "100m", "spark.{}.minMemoryOverhead": "2g"}, 4196),
        ({"spark.{}.memoryOverhead": "0"}, 4096),
    ],
)
def test_the_overhead_follows_the_properties(role: str, request_of, properties: dict[str, str], expected_mb: int):
    conf = {name.format(role): value for name, value in properties.items()}
    assert memory_mb(request_of(conf, 1, 4096)) == expected_mb


def test_an_executor_also_needs_its_python_and_off_heap_memory():
    conf = {
        "spark.executor.memoryOverhead": "100m",
        "spark.executor.pyspark.memory": "1g",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": str(200 * MIB),
    }
    assert memory_mb(executor_request(conf, 1, 1000)) == 1000 + 100 + 1024 + 200
    assert memory_mb(driver_request(conf, 1, 1000)) == 1000 + 400
    assert memory_mb(executor_request(conf | {"spark.memory.offHeap.enabled": "FALSE"}, 1, 1000)) == 2124
    assert memory_mb(executor_request(conf | {"spark.memory.offHeap.size": "300m"}, 1, 1000)) == 2424


def test_a_property_replaces_the_cores():
    conf = {"spark.kubernetes.driver.request.cores": "500m", "spark.kubernetes.executor.request.cores": "0.25"}
    assert driver_request(conf, 4, 1024).cpu_millicores == 500
    assert executor_request(conf, 4, 1024).cpu_millicores == 250


@pytest.mark.parametrize(
    ("text", "expected_mb"),
    [
        ("1", 1),
        ("1024k", 1),
        ("2047kb", 1),
        ("1m", 1),
        ("1MB", 1),
        ("2g", 2048),
        ("1gb", 1024),
        ("1t", 1 << 20),
        ("1 tb", 1 << 20),
        ("1p", 1 << 30),
        ("1pb", 1 << 30),
        ("1048576b", 1),
        (" 3m ", 3),
    ],
)
def test_sizes_are_read_as_spark_reads_them(text: str, expected_mb: int):
    assert memory_mb(executor_request({"spark.executor.memoryOverhead": text}, 1, 1000)) == 1000 + expected_mb


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.executor.memoryOverhead", "1.5g"),
        ("spark.executor.memoryOverhead", "much"),
        ("spark.executor.memoryOverhead", "1x"),
        ("spark.executor.memoryOverheadFactor", "half"),
        ("spark.kubernetes.executor.request.cores", "two"),
    ],
)
def test_an_invalid_value_is_named(name: str, value: str):
    with pytest.raises(ValueError, match=rf"^{name} '{value}' is not "):
        executor_request({name: value}, 1, 1024)


@given(st.integers(450, 1 << 20), st.floats(0.0, 4.0), st.integers(0, 1 << 16))
def test_the_overhead_is_never_below_the_minimum_and_never_a_mebibyte_below_the_fraction(heap, factor, minimum):
    conf = {"spark.executor.memoryOverheadFactor": repr(factor), "spark.executor.minMemoryOverhead": f"{minimum}m"}
    overhead = memory_mb(executor_request(conf, 1, heap)) - heap
    assert overhead >= minimum
    assert factor * heap - 1 < overhead <= max(factor * heap, minimum)
