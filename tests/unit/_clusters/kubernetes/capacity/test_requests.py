"""The requests of drivers and executors. Real Spark confirms the same numbers in tests/integration/spark/test_kubernetes_requests.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._clusters.kubernetes.capacity.requests import driver_request, executor_request
from airflow_adaptive._core.ports import MIB, Resources


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
