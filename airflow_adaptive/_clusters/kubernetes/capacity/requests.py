"""The CPU and the memory that Spark requests for the containers of a driver and an executor. Pure.

Theory: a container needs more memory than the heap of its JVM: the JVM's own memory, and the Python processes. Spark adds an overhead, which
is a fraction of the heap but at least a minimum, and which an explicit overhead replaces. The fraction is higher for Python than for
JVM jobs. The calculation must equal Spark's (`BasicDriverFeatureStep`, `BasicExecutorFeatureStep`, `ResourceProfile`), because capacity
for a smaller container is capacity in which the real container does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from airflow_adaptive._clusters.kubernetes.capacity.quantities import millicores
from airflow_adaptive._core.ports import MIB, Resources

PYTHON_OVERHEAD_FACTOR: Final = 0.4
"""Spark's factor for Python (`NON_JVM_MEMORY_OVERHEAD_FACTOR`). `spark-submit` passes the factor to the driver, so the client does the same."""

OVERHEAD_FACTOR: Final = "spark.kubernetes.memoryOverheadFactor"

MIN_OVERHEAD: Final = "384m"

_SIZE: Final = re.compile(r"(\d+)\s*([a-z]*)")

_UNITS: Final = {
    **dict.fromkeys(("b",), 1),
    **dict.fromkeys(("k", "kb"), 1024),
    **dict.fromkeys(("m", "mb"), MIB),
    **dict.fromkeys(("g", "gb"), 1024 * MIB),
    **dict.fromkeys(("t", "tb"), 1024 * 1024 * MIB),
    **dict.fromkeys(("p", "pb"), 1024 * 1024 * 1024 * MIB),
}


def driver_request(conf: Mapping[str, str], cores: int, memory_mb: int) -> Resources:
    """Return the request of the driver's container.

    Args:
        conf: Spark properties of the job.
        cores: cores of the driver.
        memory_mb: heap of the driver, MiB.

    Raises:
        ValueError: the value of a property is not valid.
    """
    return Resources(_cpu(conf, "driver", cores), (memory_mb + _overhead_mb(conf, "driver", memory_mb)) * MIB)


def executor_request(conf: Mapping[str, str], cores: int, memory_mb: int) -> Resources:
    """Return the request of an executor's container. Arguments and errors as `driver_request`."""
    python_mb = size_mb(conf, "spark.executor.pyspark.memory", "0")
    total_mb = memory_mb + _overhead_mb(conf, "executor", memory_mb) + python_mb + _off_heap_mb(conf)
    return Resources(_cpu(conf, "executor", cores), total_mb * MIB)


def size_mb(conf: Mapping[str, str], name: str, default: str, unit: str = "m") -> int:
    """Return a property that is a size of memory, in whole MiB.

    Args:
        conf: Spark properties.
        name: name of the property.
        default: value of a missing property.
        unit: unit of a number without a unit.

    Raises:
        ValueError: the value is no size of memory.
    """
    text = conf.get(name, default).strip().lower()
    matched = _SIZE.fullmatch(text)
    if matched is None or (matched[2] or unit) not in _UNITS:
        raise ValueError(f"{name} {text!r} is not a memory size: use, for example, '512m' or '2g'")
    return int(matched[1]) * _UNITS[matched[2] or unit] // MIB


def _cpu(conf: Mapping[str, str], role: str, cores: int) -> int:
    name = f"spark.kubernetes.{role}.request.cores"
    text = conf.get(name, str(cores))
    try:
        return millicores(text)
    except ValueError as error:
        raise ValueError(f"{name} {text!r} is not a quantity of CPU: use, for example, '500m' or '2'") from error


def _overhead_mb(conf: Mapping[str, str], role: str, heap_mb: int) -> int:
    explicit = f"spark.{role}.memoryOverhead"
    if explicit in conf:
        return size_mb(conf, explicit, "")
    least_mb = size_mb(conf, f"spark.{role}.minMemoryOverhead", MIN_OVERHEAD)
    return max(int(_factor(conf, role) * heap_mb), least_mb)


def _factor(conf: Mapping[str, str], role: str) -> float:
    names = [name for name in (f"spark.{role}.memoryOverheadFactor", OVERHEAD_FACTOR) if name in conf]
    if not names:
        return PYTHON_OVERHEAD_FACTOR
    text = conf[names[0]]
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{names[0]} {text!r} is not a number") from error


def _off_heap_mb(conf: Mapping[str, str]) -> int:
    if conf.get("spark.memory.offHeap.enabled", "false").strip().lower() != "true":
        return 0
    return size_mb(conf, "spark.memory.offHeap.size", "0", unit="b")
