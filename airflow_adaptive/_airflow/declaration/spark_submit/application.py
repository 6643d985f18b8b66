"""The script of a job: a file where Airflow runs, or on an object store."""

from __future__ import annotations

from pathlib import PurePosixPath

from airflow_adaptive._airflow.declaration.spark_submit.dependencies import (
    is_uri,
    local_path,
    require_own_module,
    require_staged_name,
)
from airflow_adaptive._airflow.object_storage import object_storage_path
from airflow_adaptive._engine.staging import ReadablePath

JVM_APPLICATIONS = (".jar", ".scala", ".java")

LOCAL = "local:"


def check_script(application: str) -> None:
    """Reject a JVM application, and a name that Spark would not find in its lists and URIs. Raises `ValueError`."""
    require_staged_name(application, PurePosixPath(application).name)
    if PurePosixPath(application).suffix.lower() in JVM_APPLICATIONS:
        raise ValueError(
            f"application {application!r} is a JVM application, and airflow-adaptive runs PySpark scripts only: use SparkSubmitOperator, or "
            "call the classes from a PySpark script with the parameter 'jars'"
        )
    require_own_module(application)


def application_path(application: str) -> ReadablePath:
    """Return the path of the script; blocks on the Airflow connection in the URI of an object store.

    Raises:
        AddressError: Airflow does not find the connection in the URI, or refuses access to the connection.
        ValueError: Airflow has no access to the script.
    """
    if application.startswith(LOCAL):
        raise ValueError(
            f"application {application!r} is a file of the cluster: use a file where Airflow runs, or on an object store, because the "
            "script is staged in the job directory"
        )
    if not is_uri(application):
        return local_path(application)
    return object_storage_path(application)
