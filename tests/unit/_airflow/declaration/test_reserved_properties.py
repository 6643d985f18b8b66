"""The tables of properties without effect name properties of Spark, and parameters of the operator."""

from __future__ import annotations

import inspect
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from airflow_adaptive._airflow.declaration.validation import refused, refused_on_kubernetes
from airflow_adaptive._core.protocol.reserved import (
    KUBERNETES_DETERMINED,
    KUBERNETES_PARAMETERS,
    KUBERNETES_PREFIXES,
    MANAGED_PARAMETERS,
    PARAMETERS,
    STREAMING_PARAMETERS,
    SUPERVISE,
)
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator

TABLES = (PARAMETERS, STREAMING_PARAMETERS, MANAGED_PARAMETERS, KUBERNETES_PARAMETERS, KUBERNETES_PREFIXES)

CONFIGURATION = ("org/apache/spark/internal/config/", "org/apache/spark/deploy/k8s/C", "/SQLConf")
"""Parts of the names of the classes that define the properties of Spark."""

DEFINED_ELSEWHERE = {"spark.app.id", "spark.app.name", "spark.kubernetes.authenticate.submission."}


def test_names_are_those_of_spark() -> None:
    """Spark ignores a property whose name it does not know, and its names distinguish the case."""
    constants = b""
    for jar in Path(pyspark.__file__).with_name("jars").glob("spark-*.jar"):
        with ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if any(part in name for part in CONFIGURATION)]
            constants += b"".join(map(archive.read, names))
    named = {*KUBERNETES_DETERMINED, SUPERVISE}.union(*TABLES)
    assert {name for name in named if name.encode() not in constants} == DEFINED_ELSEWHERE


def test_parameters_are_those_of_the_operator() -> None:
    known = inspect.signature(AdaptiveSparkOperator).parameters
    assert {parameter for table in TABLES for parameter in table.values()} <= known.keys()


@pytest.mark.parametrize(
    ("streaming", "managed", "tables"),
    [
        (True, True, PARAMETERS | STREAMING_PARAMETERS | MANAGED_PARAMETERS),
        (True, False, PARAMETERS | STREAMING_PARAMETERS),
        (False, False, PARAMETERS),
    ],
)
def test_property_names_the_parameter_that_determines_it(
    streaming: bool, managed: bool, tables: dict[str, str]
) -> None:
    for name, parameter in tables.items():
        (violation,) = refused({name: "1"}, streaming=streaming, managed=managed)
        assert violation.startswith(f"{name!r}] would have no effect: use the parameter {parameter!r}")


def test_unmanaged_script_and_batch_set_their_partitions_themselves() -> None:
    for streaming in (True, False):
        assert not [*refused(dict.fromkeys(MANAGED_PARAMETERS, "1"), streaming=streaming, managed=False)]


def test_property_on_kubernetes_names_the_parameter_or_the_owner() -> None:
    prefixes = {f"{prefix}NAME": parameter for prefix, parameter in KUBERNETES_PREFIXES.items()}
    for name, parameter in (KUBERNETES_PARAMETERS | prefixes).items():
        assert list(refused_on_kubernetes({name: "1"})) == [
            f"{name!r}] would have no effect: use the parameter {parameter!r} of the operator"
        ]
    for name in KUBERNETES_DETERMINED:
        assert list(refused_on_kubernetes({name: "1"})) == [
            f"{name!r}] is determined by airflow-adaptive: leave it out"
        ]
