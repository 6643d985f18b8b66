"""The session that a script creates has the master and the sizes with which its driver was submitted."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import utils as sql_utils

from airflow_adaptive.job.entry import submitted_session
from airflow_adaptive.job.entry.submitted_session import SubmittedSession
from airflow_adaptive.job.queries.writers import AdaptiveJobError

SUBMITTED = {
    "spark.master": "spark://h1:7077",
    "spark.app.name": "departures",
    "spark.cores.max": "3",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.dynamicAllocation.enabled": "true",
}

ON_KUBERNETES = {"spark.master": "k8s://https://h1:6443", "spark.kubernetes.namespace": "jobs"}


class Conf:
    """`SparkConf`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)

    def getAll(self) -> list[tuple[str, str]]:
        return [*self.values.items()]


class Driver:
    """A process of a driver, whose contexts are objects without Spark."""

    def __init__(self) -> None:
        self.session = SubmittedSession()
        self.created: list[dict[str, str]] = []
        self.effective: dict[str, str] = {}
        self.stopped = 0

    def create(self, context: Any, master: str | None = None, appName: str | None = None, conf: Any = None) -> None:
        self.created.append(dict(conf.getAll()) if conf is not None else {})
        context.getConf = lambda: Conf(SUBMITTED | self.effective)
        context.stop = self.stop

    def stop(self) -> None:
        self.stopped += 1

    def builds(self, **properties: object) -> None:
        names = {name.replace("_", "."): value for name, value in properties.items()}
        SparkSession.Builder.getOrCreate(SparkSession.Builder().config(map=names))  # type: ignore[arg-type]

    def creates(self, *args: Any, **options: Any) -> None:
        SparkContext.__init__(SimpleNamespace(), *args, **options)  # type: ignore[arg-type]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(SparkContext, "__init__", made.create)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: made.creates(conf=Conf(SUBMITTED)))
    monkeypatch.setattr(submitted_session, "SparkConf", lambda: Conf(SUBMITTED))
    lookup, context = sql_utils.get_active_spark_context, SimpleNamespace(_parse_ddl=lambda text: f"type {text}")

    def found() -> Any:
        return context

    for module in [module for name, module in [*sys.modules.items()] if name.startswith("pyspark.")]:
        for name, value in [*vars(module).items()]:
            if value is lookup:
                monkeypatch.setattr(module, name, found)
    made.session.install_hooks(SUBMITTED)
    return made


def refusal(driver: Driver, **properties: object) -> str:
    with pytest.raises(AdaptiveJobError) as refused:
        driver.builds(**properties)
    assert driver.session.refusal is refused.value
    assert not driver.created
    return str(refused.value)


@pytest.mark.parametrize("master", ["local[2]", "spark://spark-master:7077", "yarn"])
def test_another_master_is_refused_before_the_context_exists(driver, master):
    text = f"the script sets the master {master!r} itself, so its queries would not run on the cluster of the job, 'spark://h1:7077': "
    assert refusal(driver, spark_master=master) == f"{text}remove .master(...)"
    for arguments in ({"master": master}, {"conf": Conf(SUBMITTED | {"spark.master": master})}):
        with pytest.raises(AdaptiveJobError, match=r"sets the master"):
            driver.creates(**arguments)
    with pytest.raises(AdaptiveJobError, match=r"sets the master"):
        driver.creates(master, "departures")


def test_all_properties_of_the_scheduler_are_named_at_once(driver):
    assert refusal(driver, spark_executor_memory="600m", spark_cores_max=1, spark_executor_instances=2) == (
        "the script sets spark.executor.memory to '600m' instead of '512m' (parameter 'executor_memory'), spark.cores.max to '1' instead of "
        "'3' (parameter 'parallelism'), spark.executor.instances to '2' (parameter 'parallelism'): remove these properties from the script, "
        "and use the parameters of the operator"
    )


def test_dynamic_allocation_is_refused_beside_the_master(driver):
    message = refusal(driver, spark_dynamicAllocation_enabled=False, spark_master="yarn")
    assert (
        "remove .master(...); the script sets spark.dynamicAllocation.enabled to 'false' instead of 'true' (parameter"
        in message
    )


def test_same_values_and_properties_of_the_script_are_accepted(driver):
    driver.builds(spark_executor_memory="0512M", spark_cores_max=3, spark_dynamicAllocation_enabled=True)
    driver.builds(spark_app_name="mine", spark_sql_shuffle_partitions=4, spark_executor_memoryOverhead="1g")
    driver.builds(spark_master="spark://h1:7077", spark_executor_memory=str(512 << 10) + "k")
    assert len(driver.created) == 3


def test_refusal_is_not_why_a_script_that_then_got_a_context_ends(driver):
    refusal(driver, spark_master="local")
    driver.builds()
    assert driver.session.refusal is None


def test_property_that_the_script_sets_on_the_process_is_refused(driver, monkeypatch):
    monkeypatch.setattr(submitted_session, "SparkConf", lambda: Conf(SUBMITTED | {"spark.cores.max": "1"}))
    with pytest.raises(AdaptiveJobError, match=r"spark.cores.max to '1'"):
        driver.creates()


def test_context_with_other_properties_than_requested_is_stopped(driver):
    driver.effective = {"spark.executor.cores": "2"}
    with pytest.raises(AdaptiveJobError, match=r"spark.executor.cores to '2'"):
        driver.creates(conf=Conf(SUBMITTED))
    assert driver.stopped == 1


def test_session_of_spark_connect_is_refused_without_its_address(driver, monkeypatch):
    message = "the script uses Spark Connect, so its queries would run in another driver, or without the scheduler: remove .remote(...), "
    assert refusal(driver, spark_remote="sc://h2:15002/;token=hush") == f"{message}SPARK_REMOTE and spark.api.mode"
    with pytest.raises(AdaptiveJobError, match=r"uses Spark Connect"):
        driver.builds(spark_api_mode="CONNECT")
    monkeypatch.setenv("SPARK_REMOTE", "sc://h2")
    with pytest.raises(AdaptiveJobError, match=r"uses Spark Connect"):
        driver.builds()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "spark.kubernetes.namespace",
            "the script sets spark.kubernetes.namespace (parameter 'namespace'): remove",
        ),
        ("spark.kubernetes.driverEnv.TOKEN", "sets spark.kubernetes.driverEnv.TOKEN (parameter 'env_vars'): remove"),
        ("spark.driver.host", "sets spark.driver.host (determined by airflow-adaptive): remove"),
    ],
)
def test_properties_of_kubernetes_are_refused_there(driver, name, message):
    driver.creates(conf=Conf(SUBMITTED | {name: "other"}))
    driver.session._submitted = ON_KUBERNETES
    with pytest.raises(AdaptiveJobError) as refused:
        driver.creates(conf=Conf(ON_KUBERNETES | {name: "other"}))
    assert message in str(refused.value)
    assert "other" not in str(refused.value)


def test_session_exists_as_soon_as_the_script_needs_it(driver):
    assert F.udf(lambda value: value, "long").returnType == "type long"
    assert F.udf(lambda value: value, "string").returnType == "type string"
    assert driver.created == [SUBMITTED]


def test_static_property_after_a_session_that_the_script_needed_is_refused(driver, monkeypatch):
    conf = SimpleNamespace(isModifiable=lambda name: name == "spark.sql.ansi.enabled", get=lambda name, _: "present")
    monkeypatch.setattr(SparkSession, "active", lambda: SimpleNamespace(conf=conf))
    assert F.udf(lambda value: value, "long").returnType == "type long"
    driver.created.clear()
    assert refusal(driver, spark_sql_ansi_enabled=True, spark_sql_extensions="Delta").startswith(
        "the script sets spark.sql.extensions too late: an earlier line needed a session"
    )
    driver.builds(spark_sql_ansi_enabled=True, spark_sql_extensions="present", spark_app_name="mine", other="value")
