"""Spark's connector for Kafka in a job: resolved as packages, and as jars on a cluster without access to a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies
from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive._core.protocol.failures import python_errors
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.bounded_job import end_of_job
from tests.support.driver.driver_on_cluster import DriverOnCluster, plan, sink_rows
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import CONNECTOR, connector_jars
from tests.support.page_dags import page_dags

pytestmark = pytest.mark.timeout(600)

TIMEOUT_S = 240.0
"""The packages are resolved first, beside other tests."""

NO_REPOSITORY = {"spark.driver.extraJavaOptions": "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"}

SCRIPT = """
import sys
from airflow_adaptive.job import AdaptiveJob


def read(spark, parallelism):
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}").option("subscribe", "{topic}")
    values = records.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING) AS value")
    return values.writeStream.format("json").option("path", sys.argv[1] + "/out").trigger(availableNow=True)


AdaptiveJob(read).run()
"""


def _cached_repository() -> dict[str, str]:
    """Return the properties with which Ivy finds the connector in the cache of the tests, and the metadata in the central repository."""
    folder = CONNECTOR.jars[0].parent.parent
    return {"spark.jars.ivy": str(folder), "spark.jars.ivySettings": str(folder / "ivysettings.xml")}


@pytest.fixture
def driver(spark_cluster: LocalCluster, tmp_path: Path) -> DriverOnCluster:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    driver = DriverOnCluster(spark_cluster, tmp_path)
    driver.direct(Action.RUN, 1, plan(1))
    return driver


@pytest.mark.parametrize("way", ["packages", "jars"])
def test_job_reads_each_record_of_a_topic(driver: DriverOnCluster, kafka: KafkaCluster, topic: str, way: str) -> None:
    kafka.clients.create_topic(topic, 2)
    kafka.clients.produce(topic, ["a", "b", "c"])
    script = SCRIPT.format(servers=kafka.bootstrap_servers, topic=topic)
    if way == "packages":
        driver.submit(script, 1, _cached_repository(), dependencies=Dependencies(packages=CONNECTOR.names))
    else:
        jars = Dependencies(jars=[str(jar) for jar in CONNECTOR.jars])
        driver.submit(script, 1, NO_REPOSITORY, dependencies=jars)
    assert driver.wait_end(TIMEOUT_S) == "FINISHED", driver.output()
    assert sorted(row["value"] for row in sink_rows(driver.root / "out")) == ["a", "b", "c"]


def test_dag_of_the_page_copies_each_record(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    name, copies = "departures_to_kafka", f"{topic}-copies"
    kafka.clients.create_topic(topic, 1)
    kafka.clients.create_topic(copies, 1)
    kafka.clients.produce(topic, ["a", "b", "c"])
    replaced = {
        "broker:9092": kafka.bootstrap_servers,
        "'flights'": repr(topic),
        "'departures')": f"{copies!r}).trigger(availableNow=True)",
    }
    script = page_dags()[name].script(replaced)
    jars = {"spark.jars": ",".join(map(str, connector_jars()))}
    ended = end_of_job(spark_cluster, tmp_path, name, script, conf=jars)
    assert ended.outcome is Outcome.FINISHED, ended.cause
    assert kafka.clients.read(copies) == ["a", "b", "c"]


def test_version_that_is_not_published_ends_the_driver_with_the_newest_version(driver: DriverOnCluster) -> None:
    unpublished = CONNECTOR.names[0].rpartition(":")[0] + ":0.0.1"
    ivy = {
        **_cached_repository(),
        "spark.jars.ivy": str(driver.root / "ivy"),
    }  # the driver also resolves the newest version
    driver.submit("", 1, ivy, dependencies=Dependencies(packages=[unpublished]))
    assert driver.wait_end(TIMEOUT_S) == "FAILED"
    (folder,) = driver.cluster.directory.glob(f"work/*/{driver.submissions[-1]}")
    raised = next(iter(python_errors((folder / "stdout").read_text())), None)
    assert raised is not None
    assert raised.name == "airflow_adaptive.job.entry.packages.UnpublishedPackageError"
    assert raised.message.startswith(
        "the packages cannot be resolved: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;0.0.1: "
    )
    newest = raised.message.rpartition(
        "the newest published version of org.apache.spark:spark-sql-kafka-0-10_2.13 is "
    )[2]
    assert newest.split(".") >= CONNECTOR.names[0].rpartition(":")[2].split("."), raised.message
