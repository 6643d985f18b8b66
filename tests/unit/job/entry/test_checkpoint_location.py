"""Locations of checkpoints: which Spark uses, and which do not outlive the driver."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.job.entry.unmanaged_script import QueryStart, TransientFolders
from airflow_adaptive.job.hadoop_directory import hadoop_uri
from airflow_adaptive.job.queries.writers import AdaptiveJobError
from tests.support.driver.fake_spark import HadoopPath, Spark, Stream

JOB = "file:///shared/jobs/departures"


class Session(Spark):
    """A session with a scratch folder."""

    def __init__(self) -> None:
        super().__init__()
        self.settings["spark.local.dir"] = "/scratch/a,/scratch/b"


def start(
    writer: Stream, path: str | None = None, format: str | None = None, queryName: str | None = None, **options: Any
) -> None:
    """The parameters of `DataStreamWriter.start`, as far as they are read."""


def query(*args: Any, session: Spark | None = None, given: dict[str, Any] | None = None, **options: Any) -> QueryStart:
    writer = Stream(spark=session or Session())
    writer.given |= given or {}
    return QueryStart(start, writer, args, options)


def folders(script: str | None = "/staged/departures.py") -> TransientFolders:
    return TransientFolders(None if script is None else Path(script))


def refusal(location: str, directory: str = JOB, transient: TransientFolders | None = None) -> str:
    found = query(given={"queryName": "orders", "checkpointLocation": location})
    with pytest.raises(AdaptiveJobError) as refused:
        (transient or folders()).require_durable(Session(), found, directory)  # type: ignore[arg-type]
    return str(refused.value)


def accept(location: str, directory: str = JOB, transient: TransientFolders | None = None) -> None:
    found = query(given={"queryName": "orders", "checkpointLocation": location})
    (transient or folders()).require_durable(Session(), found, directory)  # type: ignore[arg-type]


def test_location_is_an_option_of_the_writer_or_of_the_call():
    assert query(given={"checkpointLocation": "/a"}).location == "/a"
    assert query(checkpointlocation="/b", given={"checkpointLocation": "/a"}).location == "/b"
    assert query(checkpointLocation=Path("/c")).location == "/c"
    assert query().location is None


def test_location_of_a_query_with_a_name_is_below_the_one_of_the_session():
    session = Session()
    session.set("spark.sql.streaming.checkpointLocation", "/root")
    assert query(None, None, "orders", session=session).location == "/root/orders"
    assert query(session=session, given={"queryName": "daily"}).location == "/root/daily"
    assert query(session=session, given={"checkpointLocation": "/a", "queryName": "daily"}).location == "/a"
    assert query(session=session).location is None


def test_relative_location_is_in_the_working_folder():
    assert refusal("checkpoints/orders") == (
        "the checkpoint file:/work/driver-1/checkpoints/orders ('checkpoints/orders' in the script) of query 'orders' is in the working "
        "folder of this driver, so the next driver would start from an empty checkpoint: use an absolute location on "
        "storage that all workers can access, for example file:///shared/jobs/departures/checkpoints/orders"
    )


def test_relative_location_is_refused_whatever_the_working_folder(monkeypatch):
    monkeypatch.setattr(HadoopPath, "working", "file:")
    monkeypatch.setattr(Spark, "properties", {}, raising=False)
    session = Session()
    session.properties["user.dir"] = "/"
    found = query(session=session, given={"checkpointLocation": "chk"})
    with pytest.raises(
        AdaptiveJobError, match=r"file:/chk \('chk' in the script\) of a query without a name is in the working"
    ):
        folders().require_durable(session, found, JOB)  # type: ignore[arg-type]
    other = query(session=session, given={"checkpointLocation": "/data/chk"})
    folders().require_durable(session, other, JOB)  # type: ignore[arg-type]


def test_relative_location_on_another_file_system_is_durable(monkeypatch):
    monkeypatch.setattr(HadoopPath, "working", "hdfs:/user/spark")
    accept("checkpoints/orders")


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("/staged/chk", "the folder of this driver with a copy of the script"),
        ("/work/driver-1/../driver-1/chk", "the working folder"),
        ("file:///shared/jobs/departures/code/0a/chk", "the staged code of the job"),
        ("/tmp/chk", "a temporary folder of this worker"),
        ("file:/var/tmp/chk", "a temporary folder of this worker"),
        ("/scratch/b/chk", "a temporary folder of this worker"),
        ("/tmp/spark-00000000-1111-2222-3333-444444444444/chk", "a temporary folder with another name in each driver"),
    ],
)
def test_location_that_does_not_outlive_the_driver_is_refused(location, folder):
    assert f"is in {folder}" in refusal(location)


@pytest.mark.parametrize(
    "location",
    ["/data/chk", "file:///shared/jobs/departures/checkpoints/orders", "s3a://bucket/tmp/chk", "hdfs://n1/tmp/chk"],
)
def test_location_that_may_be_durable_is_accepted(location):
    accept(location)


def test_staged_code_is_refused_on_an_object_store():
    assert "is in the staged code" in refusal("s3a://bucket/jobs/departures/code/0a/chk", "s3://bucket/jobs/departures")
    accept("s3a://bucket/jobs/departures/checkpoints/orders", "s3://bucket/jobs/departures")


def test_temporary_folder_with_the_job_directory_is_kept():
    job = "file:///tmp/case/jobs/departures"
    accept("/tmp/case/chk", job)
    accept(
        "/tmp/run-00000000-1111-2222-3333-444444444444/chk",
        "file:///tmp/run-00000000-1111-2222-3333-444444444444/jobs/j",
    )
    assert "a temporary folder of this worker" in refusal("/var/tmp/chk", job)
    assert "with another name in each driver" in refusal("/tmp/spark-00000000-1111-2222-3333-444444444444/chk", job)


def test_temporary_folder_that_the_script_creates_is_refused(tmp_path):
    transient = folders()
    created = transient.create(tempfile.mkdtemp, dir=tmp_path)
    assert "with another name in each driver" in refusal(f"{created}/chk", tmp_path.as_uri() + "/job", transient)
    accept(f"{tmp_path}/chk", tmp_path.as_uri() + "/job", transient)


def test_file_system_that_is_mounted_in_a_temporary_folder_may_be_durable(monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == "/tmp/mounted")
    accept("/tmp/mounted/chk")
    assert "a temporary folder of this worker" in refusal("/tmp/other/chk", "file:///tmp/mounted/jobs/departures")


def test_script_in_no_folder_and_query_without_a_checkpoint_are_not_refused():
    accept("/staged/chk", transient=folders(None))
    folders().require_durable(Session(), query(), JOB)  # type: ignore[arg-type]


def test_spark_reports_a_location_that_is_not_valid(monkeypatch):
    monkeypatch.setattr(HadoopPath, "getFileSystem", lambda path, _: HadoopPath(path._spark, ""))
    accept("no-such-scheme://chk")


@pytest.mark.parametrize(
    ("uri", "hadoop"),
    [
        ("s3://bucket/base/job/", "s3a://bucket/base/job"),
        ("s3a://bucket/job", "s3a://bucket/job"),
        ("file:///tmp/job", "file:///tmp/job"),
        ("hdfs://name:8020/job", "hdfs://name:8020/job"),
    ],
)
def test_uris_are_translated_for_hadoop(uri, hadoop):
    assert hadoop_uri(uri) == hadoop
