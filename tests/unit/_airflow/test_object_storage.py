"""Paths on object stores, with the file systems that Airflow's providers register."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import fs
from fsspec.implementations.memory import MemoryFileSystem

from airflow_adaptive._airflow.internals import AirflowNotFoundException, AirflowSecretsBackendAccessDenied
from airflow_adaptive._airflow.object_storage import object_storage_path
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._core.ports import UnavailableError


def connect(connection: str | None, options: Any) -> MemoryFileSystem:
    if connection == "nowhere":
        raise AirflowNotFoundException("The conn_id `nowhere` isn't defined")
    if connection == "broken":
        raise RuntimeError("the session expired")
    asyncio.run(asyncio.sleep(0))  # The provider of S3 reads the credentials in this way.
    if connection == "denied":
        raise AirflowSecretsBackendAccessDenied("403")
    return MemoryFileSystem()


@pytest.fixture(autouse=True)
def providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of S3 is installed, others are not."""
    monkeypatch.setattr(fs, "_register_filesystems", lambda: {"s3": connect})


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_each_scheme_of_spark_for_s3_is_a_path_of_airflow(scheme: str) -> None:
    path = object_storage_path(f"{scheme}://connection@bucket/job.py")
    assert isinstance(path, ObjectStoragePath)
    assert (str(path), path.name, path.suffix) == ("s3://connection@bucket/job.py", "job.py", ".py")


@pytest.mark.asyncio
async def test_connection_is_read_while_an_event_loop_runs() -> None:
    assert object_storage_path("s3://connection@bucket/jobs").path == "bucket/jobs"


def test_other_error_may_be_an_outage() -> None:
    with pytest.raises(UnavailableError, match=r"'s3://broken@b/jobs' cannot be used now \(RuntimeError: the session"):
        object_storage_path("s3://broken@b/jobs")


def test_connection_that_is_not_defined_may_be_an_outage_of_the_secrets_backend() -> None:
    with pytest.raises(
        UndefinedConnectionError, match=r"'s3://nowhere@b/jobs': the connection .*`nowhere` isn't defined"
    ):
        object_storage_path("s3://nowhere@b/jobs")


def test_connection_that_a_secrets_backend_refuses_is_named() -> None:
    with pytest.raises(
        AddressError, match=r"'s3://denied@b/jobs': a secrets backend denies access .*\(403\)"
    ) as raised:
        object_storage_path("s3://denied@b/jobs")
    assert not isinstance(raised.value, UndefinedConnectionError)


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [
        ("gs://bucket/jobs", r"install airflow-adaptive\[gcs\] where Airflow runs"),
        ("hdfs://n/jobs", "use an object store such as s3://, or a path"),
    ],
)
def test_missing_file_system_is_reported_with_its_remedy(uri: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=f"'{uri}' cannot be used .*: {remedy}"):
        object_storage_path(uri)
