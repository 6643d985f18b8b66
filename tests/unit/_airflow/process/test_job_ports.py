"""The composition root: the job directory that a URI names, and the ports of a loop."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import fs
from fsspec.implementations.memory import MemoryFileSystem

from airflow_adaptive._airflow.connections import cluster_address
from airflow_adaptive._airflow.internals import AirflowNotFoundException, AirflowSecretsBackendAccessDenied
from airflow_adaptive._airflow.process import job_ports as composition
from airflow_adaptive._airflow.process import process_resources
from airflow_adaptive._airflow.process.job_ports import job_directory, job_ports, object_storage_path
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob
from airflow_adaptive._clusters.connection_fields import UndefinedConnectionError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._core.ports import StoreUnavailableError, UnavailableError
from airflow_adaptive._core.view import TaskKey
from tests.lab.simulation.one_job import small_job


def deployed(job: str, folder: Path, connections: ConnectionIds = ConnectionIds("spark_default")) -> DeployedJob:  # noqa: B008  frozen
    task = TaskKey(dag_id="flights", task_id=job, run_id="run")
    return DeployedJob(small_job(job, (1, 2), {}), connections, f"file://{folder}", task)


@pytest.mark.parametrize("base", ["jobs", "./jobs", "file://jobs", "local://host/jobs", ""])
def test_directory_that_is_not_absolute_is_refused(base: str) -> None:
    """Worker, triggerer and cluster would each use a different folder."""
    with pytest.raises(ValueError, match="is not absolute: write file:///folder"):
        job_directory(base, "departures")


def test_directory_of_a_job_is_a_folder_of_its_base(tmp_path: Path) -> None:
    uris = {job_directory(base, "departures").uri for base in (f"file://{tmp_path}", str(tmp_path))}
    assert uris == {f"file://{tmp_path}/departures"}


def test_loops_that_start_at_the_same_time_read_their_connection_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_default: None
) -> None:
    """After a restart of 1,000 jobs, Airflow answered one read of the connection after the other, before any loop could claim its journal."""
    reads: list[str] = []

    def counted(conn_id: str) -> ClusterAddress | KubernetesAddress:
        reads.append(conn_id)
        return cluster_address(conn_id)

    monkeypatch.setattr(process_resources, "cluster_address", counted)

    async def directory_of(job: str) -> str:
        async with job_ports(deployed(job, tmp_path), allow, timedelta(0)) as ports:
            await asyncio.sleep(0)
            directory: Any = ports.directory
            return str(directory.uri)

    async def start(jobs: list[str]) -> list[str]:
        return await asyncio.gather(*map(directory_of, jobs))

    assert asyncio.run(start(["a", "b", "c"])) == [f"file://{tmp_path}/{job}" for job in "abc"]
    assert reads == ["spark_default"]


def test_a_loop_that_starts_while_airflow_does_not_answer_reads_its_connection_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_default: None
) -> None:
    """The task of a new job failed after one slow read. Found by the fleet simulator: slow Airflow, many jobs that start."""
    errors: list[Exception] = [StoreUnavailableError("the store of Airflow's connections did not answer within 30 s")]

    def failing_once(conn_id: str) -> ClusterAddress | KubernetesAddress:
        if errors:
            raise errors.pop()
        return cluster_address(conn_id)

    monkeypatch.setattr(process_resources, "cluster_address", failing_once)
    monkeypatch.setattr(composition, "RETRY_INTERVAL", timedelta(0))

    async def start() -> None:
        async with job_ports(deployed("a", tmp_path), allow, timedelta(minutes=1)):
            await asyncio.sleep(0)

    asyncio.run(start())
    assert errors == []


def test_jobs_with_other_credentials_for_the_same_cluster_have_their_own_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = '{"conn_type": "spark", "host": "k8s://https://127.0.0.1:1", "extra": {"namespace": "team-a"}}'
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", fields)

    async def client_of(kubernetes: str) -> Any:
        connections = ConnectionIds("spark_k8s", kubernetes=kubernetes)
        async with job_ports(deployed("a", tmp_path, connections), allow, timedelta(0)) as ports:
            await asyncio.sleep(0)
            return ports.cluster

    async def start(*names: str) -> list[Any]:
        return await asyncio.gather(*map(client_of, names))

    team, same, other = asyncio.run(start("team", "team", "other"))
    assert (team is same, team is other) == (True, False)


async def allow(_: str) -> bool:
    """Return that the loop may take every job over."""
    return True


def connect(connection: str | None, options: Any) -> MemoryFileSystem:
    if connection == "nowhere":
        raise AirflowNotFoundException("The conn_id `nowhere` isn't defined")
    if connection == "broken":
        raise RuntimeError("the session expired")
    asyncio.run(asyncio.sleep(0))  # The provider of S3 reads the credentials in this way.
    if connection == "denied":
        raise AirflowSecretsBackendAccessDenied("403")
    return MemoryFileSystem()


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of S3 is installed, others are not."""
    monkeypatch.setattr(fs, "_register_filesystems", lambda: {"s3": connect})


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
@pytest.mark.usefixtures("providers")
def test_each_scheme_of_spark_for_s3_is_a_path_of_airflow(scheme: str) -> None:
    path = object_storage_path(f"{scheme}://connection@bucket/job.py")
    assert isinstance(path, ObjectStoragePath)
    assert (str(path), path.name, path.suffix) == ("s3://connection@bucket/job.py", "job.py", ".py")


@pytest.mark.asyncio
@pytest.mark.usefixtures("providers")
async def test_connection_is_read_while_an_event_loop_runs() -> None:
    assert object_storage_path("s3://connection@bucket/jobs").path == "bucket/jobs"


@pytest.mark.usefixtures("providers")
def test_other_error_may_be_an_outage() -> None:
    with pytest.raises(UnavailableError, match=r"'s3://broken@b/jobs' cannot be used now \(RuntimeError: the session"):
        object_storage_path("s3://broken@b/jobs")


@pytest.mark.usefixtures("providers")
def test_connection_that_is_not_defined_may_be_an_outage_of_the_secrets_backend() -> None:
    with pytest.raises(
        UndefinedConnectionError, match=r"'s3://nowhere@b/jobs': the connection .*`nowhere` isn't defined"
    ):
        object_storage_path("s3://nowhere@b/jobs")


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [
        ("gs://bucket/jobs", r"install airflow-adaptive\[gcs\] where Airflow runs"),
        ("hdfs://n/jobs", "use an object store such as s3://, or a path"),
    ],
)
@pytest.mark.usefixtures("providers")
def test_missing_file_system_is_reported_with_its_remedy(uri: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=f"'{uri}' cannot be used .*: {remedy}"):
        object_storage_path(uri)
