"""Packages from a repository in a folder, resolved by a real Ivy in the JVM of a driver on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive._core.protocol.failures import python_errors
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive._engine.staging import MAIN_PROGRAM, runtime_zip
from airflow_adaptive.local.distribution import find_java, find_spark
from tests.support.driver.dependencies import ivy_properties

pytestmark = pytest.mark.long

SCRIPT = """\
import routes
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
print("in the driver:", routes.VERSION, loader.getResource("routes.py") is not None)
on_executor = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("routes").VERSION).collect()
print("on the executor:", on_executor, "jars:", spark.conf.get("spark.jars").rsplit("/", 1)[-1])
"""


Submit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    properties = [f"{name}={value}" for name, value in ivy_properties(tmp_path).items()]

    def submit(packages: str, *conf: str) -> subprocess.CompletedProcess[str]:
        return _submit(tmp_path, packages, *properties, *conf)

    return submit


def _submit(folder: Path, packages: str, *conf: str) -> subprocess.CompletedProcess[str]:
    runtime, program = folder / "airflow_adaptive.zip", folder / "run_departures.py"
    runtime.write_bytes(runtime_zip())
    program.write_text(MAIN_PROGRAM.format(script="departures.py"))
    (folder / "departures.py").write_text(SCRIPT)
    properties = [f"{PACKAGES_PROPERTY}={packages}", f"spark.jars.ivy={folder}/ivy", "spark.ui.enabled=false", *conf]
    spark = find_spark().home
    return subprocess.run(
        [
            str(spark / "bin" / "spark-submit"), "--master", "local[1]", "--py-files", str(runtime),
            *(argument for text in properties for argument in ("--conf", text)), str(program),
        ],
        env={**os.environ, "SPARK_HOME": str(spark), "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def _failure(ended: subprocess.CompletedProcess[str]) -> Failure:
    raised = next(iter(python_errors(ended.stdout)), None)
    assert raised is not None, ended.stdout + ended.stderr
    assert ended.returncode == 1
    return Failure(error_class=raised.name, message=raised.message)


def test_error_names_the_newest_published_version_of_a_version_that_does_not_exist(submit: Submit) -> None:
    failure = _failure(submit("org.example:routes:2.0"))
    assert failure.message == (
        "the packages cannot be resolved: [unresolved dependency: org.example#routes;2.0: not found]; "
        "the newest published version of org.example:routes is 1.2"
    )
    assert not is_recoverable(failure)


def test_repository_that_does_not_answer_is_an_error_that_a_restart_may_correct(tmp_path: Path) -> None:
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
    failure = _failure(_submit(tmp_path, "org.example:routes:1.1", f"spark.driver.extraJavaOptions={nowhere}"))
    assert (
        "[unresolved dependency: org.example#routes;1.1: not found]; the driver cannot reach https://repo1"
        in failure.message
    )
    assert is_recoverable(failure)
