"""Jars, files, archives and Python modules on a real cluster."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from airflow_adaptive.declaration.spark_submit.dependencies import Dependencies
from airflow_adaptive.job.protocol.documents import Action
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import DriverOnCluster, Input, plan, sink_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TIMEOUT_S = 240.0
"""A session, an executor and a first batch, beside other tests."""

SCRIPT = """
import sys
from pathlib import Path

import carriers
from airflow_adaptive.job import AdaptiveJob
from pyspark import SparkFiles
from pyspark.sql.functions import udf

ROOT = sys.argv[1]


def on_executor(number):
    return " ".join([carriers.NAME, Path(SparkFiles.get("routes.csv")).read_text(), Path(SparkFiles.get("zones"), "utc").read_text()])


def count(spark, parallelism):
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jar = Path(loader.getResource("fleet.txt").getPath().removeprefix("file:").partition("!")[0]).name
    on_driver = Path(SparkFiles.get("routes.csv")).read_text() + Path(SparkFiles.get("zones"), "utc").read_text()
    rows = spark.readStream.schema("id LONG").json(f"{ROOT}/in").repartition(parallelism["read"])
    found = rows.selectExpr("id", f"'{jar} {on_driver}' AS driver").withColumn("executor", udf(on_executor, "string")("id"))
    return found.writeStream.format("json").option("path", f"{ROOT}/out")


AdaptiveJob(count).run()
"""


def test_driver_and_executors_have_what_the_script_needs(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    Input(tmp_path).write(1)
    driver = DriverOnCluster(spark_cluster, tmp_path)
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(SCRIPT, executors=1, dependencies=_dependencies(tmp_path))
    driver.wait_status("a batch", lambda now: bool(now.queries) and now.queries[0].committed > 0, TIMEOUT_S)
    driver.direct(Action.STOP, 2, plan(1))
    assert driver.wait_end(TIMEOUT_S) == "FINISHED"
    found = {(row["driver"], row["executor"]) for row in sink_rows(tmp_path / "out")}
    assert found == {("fleet.jar TXL-MUC+0", "Lufthansa TXL-MUC +0")}


def _dependencies(folder: Path) -> Dependencies:
    (folder / "carriers.py").write_text("NAME = 'Lufthansa'\n")
    (folder / "routes.csv").write_text("TXL-MUC")
    (folder / "utc").write_text("+0")
    with zipfile.ZipFile(folder / "fleet.jar", "w") as jar:
        jar.writestr("fleet.txt", "A320")
    with tarfile.open(folder / "zones.tar.gz", "w:gz") as archive:
        archive.add(folder / "utc", "utc")
    return Dependencies(
        jars=str(folder / "fleet.jar"),
        files=[str(folder / "routes.csv")],
        archives=[f"{folder}/zones.tar.gz#zones"],
        py_files=[(folder / "carriers.py").as_uri()],
    )
