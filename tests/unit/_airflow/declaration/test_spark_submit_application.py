"""The script of a job: where it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies, application_path, check_script


@pytest.mark.parametrize("application", ["/opt/job.py", "file:///opt/job.py"])
def test_path_is_a_file_where_airflow_runs(application: str) -> None:
    assert application_path(application) == Path("/opt/job.py")


def test_file_of_the_cluster_is_refused() -> None:
    with pytest.raises(
        ValueError, match="'local:///opt/job.py' is a file of the cluster: use a file where Airflow runs"
    ):
        application_path("local:///opt/job.py")


@pytest.mark.parametrize("application", ["/opt/job.jar", "s3a://b/job.JAR", "/opt/Job.scala"])
def test_jvm_application_is_refused(application: str) -> None:
    with pytest.raises(
        ValueError, match="is a JVM application, and airflow-adaptive runs PySpark scripts only: use SparkS"
    ):
        check_script(application)


@pytest.mark.parametrize(
    "name", ["a,b.py", "my job.py", "job#1.py", "100%.py", "job'.py", "ü.py", "a\nb.py", "a\u2028b.py"]
)
@pytest.mark.parametrize("folder", ["/opt", "s3://bucket"])
def test_name_that_spark_would_not_find_is_refused(folder: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"rename .*: the name of a staged file may contain letters"):
        check_script(f"{folder}/{name}")


@pytest.mark.parametrize("name", ["copy.py", "queue.py", "pyspark.py"])
def test_script_with_the_name_of_a_module_of_every_driver_is_refused(name: str) -> None:
    """`copy.py` ended with an `ImportError` of `airflow_adaptive.job`, because Python imported the script instead of its own module."""
    with pytest.raises(ValueError, match=rf"'/opt/{name}' has the name of the module .*: rename the file"):
        check_script(f"/opt/{name}")
    assert [*Dependencies(py_files=[f"/opt/{name}"]).violations({})] == [
        f"'/opt/{name}' has the name of the module {name[:-3]!r}, and the driver would import this file instead: rename the file"
    ]
