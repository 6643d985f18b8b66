"""Validation of a declaration: one error lists all violations, and properties that another parameter determines are refused."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
import pytest
from airflow.sdk import BaseOperator

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.declaration.validation import DeclarationError, refused
from airflow_adaptive._core.protocol.conf import (
    KUBERNETES_DETERMINED,
    KUBERNETES_PARAMETERS,
    KUBERNETES_PREFIXES,
    MANAGED_PARAMETERS,
    PARAMETERS,
    STREAMING_PARAMETERS,
    SUPERVISE,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.spec import DriverShape
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator


def violations(check: validation.Check) -> list[str]:
    try:
        validation.require([check])
    except DeclarationError as error:
        return list(error.violations)
    return []


def test_every_violation_of_every_check_is_reported_once() -> None:
    def refuse() -> None:
        raise DeclarationError(["one", "two"])

    def no_number() -> None:
        raise ValueError("three")

    with pytest.raises(DeclarationError, match=r"^one; two; three \[declaration\]$"):
        validation.require([refuse, lambda: None, no_number, refuse])


def test_wrong_type_in_a_graph_is_a_violation() -> None:
    bounds: Any = (1, 8)
    graph = JobGraph(job="j", vertices=(JobVertex(name="read", parallelism=bounds),))
    (violation,) = violations(lambda: validation.graph(lambda: graph))
    assert violation.startswith("parallelism, max_parallelism or job_graph has a value of a wrong type: 'tuple' object")
    most: Any = "8"
    assert violations(lambda: validation.graph(lambda: JobGraph.single("j", ParallelismRange(1, 8), most)))


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [
        (1, "512m", []),
        ("two", "512m", ["driver_cores 'two' must be 1 or more"]),
        (
            0,
            "much",
            [
                "driver_memory 'much' is not a memory size: use, for example, '512m' or '2g'",
                "driver_cores 0 must be 1 or more",
            ],
        ),
        (
            0,
            "1m",
            ["driver_cores 0 must be 1 or more", "driver_memory of 1 MiB is below the 450 MiB that Spark requires"],
        ),
    ],
)
def test_both_parts_of_a_size_are_checked(cores: object, memory: str, expected: list[str]) -> None:
    assert violations(lambda: validation.size(DriverShape, "driver", cores, memory)) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("spark.executor.memory", "conf['spark.executor.memory'] would have no effect: use the parameter 'executor_memory' of the operator"),
        ("spark.cores.max", "conf['spark.cores.max'] would have no effect: use the parameter 'parallelism' of the operator"),
        ("spark.sql.shuffle.partitions", "conf['spark.sql.shuffle.partitions'] would have no effect: use the parameter 'max_parallelism' of the operator"),
        ("spark.sql.streaming.checkpointLocation", "conf['spark.sql.streaming.checkpointLocation'] would have no effect: use the parameter 'job_directory' of the operator"),
        ("spark.airflow.adaptive.epoch", "conf['spark.airflow.adaptive.epoch'] is reserved for the runtime: leave it out"),
        ("spark.driver.supervise", "conf['spark.driver.supervise'] must be off, because the scheduler restarts the driver"),
    ],
)  # fmt: skip
def test_property_that_would_be_overridden_names_the_parameter(name: str, message: str) -> None:
    assert violations(lambda: validation.no_overridden_properties(conf={name: "true"})) == [message]


@pytest.mark.parametrize("wrong", [None, [], "a=b", {"spark.locality.wait": "0s"}])
def test_properties_are_checked_only_where_there_are_some(wrong: Any) -> None:
    assert violations(lambda: validation.no_overridden_properties(conf=wrong)) == []
    assert violations(lambda: validation.no_secrets(conf=wrong)) == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"conf": {"spark.my.credential": "hush"}}, "conf['spark.my.credential']"),
        ({"env": {"MYSQL_PWD": "hush"}}, "env['MYSQL_PWD']"),
        ({"env": {"BROKER": "amqp://me:hush@h1"}}, "env['BROKER']"),
        ({"conf": {"spark.my.url": "jdbc:db://h1?password=hush"}}, "conf['spark.my.url']"),
        ({"application_args": ["--db-password", "hush"]}, "application_args['--db-password']"),
        ({"application_args": ["--db-password=hush"]}, "application_args['--db-password']"),
        ({"application_args": ["--broker", "amqp://me:hush@h1"]}, "application_args['--broker']"),
        ({"application_args": ["--broker=amqp://me:hush@h1"]}, "application_args['--broker']"),
        ({"application_args": ["in", "amqp://me:hush@h1"]}, "application_args['1']"),
        ({"application_args": ["--conf", "spark.my.token=hush"]}, "application_args['spark.my.token']"),
    ],
)
def test_secret_is_named_without_its_value_and_can_be_declared_public(given: Any, named: str) -> None:
    def check(*not_secret: str) -> list[str]:
        arguments = {name: value for name, value in given.items() if isinstance(value, list)}
        properties = {name: value for name, value in given.items() if name not in arguments}
        return violations(lambda: validation.no_secrets(arguments=arguments, not_secret=not_secret, **properties))

    (violation,) = check()
    assert violation.startswith(f"{named}: Airflow would store these secrets in clear text")
    assert "hush" not in violation
    assert check(named.split("'")[1]) == []


@pytest.mark.parametrize(
    "args",
    [
        ["--max-tokens", "512"],
        ["--token-file", "/run/x"],
        ["--use-token"],
        ["--use-token", "--verbose"],
        ["password"],
        "x",
    ],
)
def test_arguments_without_secrets_are_accepted(args: Any) -> None:
    assert violations(lambda: validation.no_secrets(arguments={"application_args": args})) == []


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: validation.texts(conn_id=None), "conn_id None must be text that is not empty"),
        (lambda: validation.texts(job_directory=" "), "job_directory ' ' must be text that is not empty"),
        (lambda: validation.lists(py_files="a.py"), "py_files must be a list, for example ['a.py']"),
        (lambda: validation.lists(py_files=None), "py_files must be a list, for example [None]"),
        (lambda: validation.mappings(conf=["a=b"]), "conf must be a mapping, as {'name': 'value'}"),
    ],
)
def test_wrong_type_is_reported(check: validation.Check, message: str) -> None:
    assert violations(check) == [message]


def test_misspelled_parameter_names_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match=r"^BaseOperator has no parameter 'retires': did you mean 'retries'\?"):
        validation.known_parameters(BaseOperator, ["owner", "retires", "quite_else"], ["stop_timeout"])
    with pytest.raises(TypeError, match=r"'stop_timout': did you mean 'stop_timeout'\?"):
        validation.known_parameters(BaseOperator, ["stop_timout"], ["stop_timeout"])
    with pytest.raises(TypeError, match=r"'trigger_ruel': did you mean 'trigger_rule'\?"):
        validation.known_parameters(AdaptiveSparkOperator, ["trigger_ruel"], ["max_trigger_delay"])
    validation.known_parameters(BaseOperator, ["quite_else"], ["stop_timeout"])  # Airflow refuses it


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


def test_unmanaged_script_and_batch_set_their_partitions_themselves() -> None:
    for streaming in (True, False):
        assert not [*refused(dict.fromkeys(MANAGED_PARAMETERS, "1"), streaming=streaming, managed=False)]
