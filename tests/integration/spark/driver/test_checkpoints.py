"""What the runbook says of checkpoints, on a real Spark: a job goes on from one that another began, with new code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus, decode_document
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.bounded_job import end_of_job

pytestmark = pytest.mark.long

SCRIPT = dedent(
    """
    import json, sys
    from pathlib import Path
    from airflow_adaptive.job import AdaptiveJob


    def count(spark, parallelism):
        def write(batch, number):
            rows = {row["value"]: row["count"] for row in batch.collect()}
            Path(sys.argv[1], "output.json").write_text(json.dumps({"code": CODE, "rows": rows}))

        words = spark.readStream.format("text").load(f"{sys.argv[1]}/input")
        counts = words.groupBy("value").count().writeStream.outputMode("complete")
        return counts.foreachBatch(write).trigger(availableNow=True)


    AdaptiveJob(count).run()
    """
)


def test_job_goes_on_from_a_checkpoint_that_was_copied_into_its_directory(
    spark_cluster: LocalCluster, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    (tmp_path / "input").mkdir()

    (tmp_path / "input" / "1.txt").write_text("one\ntwo\none\n")
    run(spark_cluster, tmp_path, "first", code=1)
    assert output(tmp_path) == {"code": 1, "rows": {"one": 2, "two": 1}}

    checkpoints = tmp_path / "jobs" / "second" / "checkpoints"
    checkpoints.mkdir(parents=True)
    shutil.copytree(tmp_path / "jobs" / "first" / "checkpoints" / "first", checkpoints / "second")
    (tmp_path / "input" / "2.txt").write_text("one\nthree\n")
    run(spark_cluster, tmp_path, "second", code=2)
    assert output(tmp_path) == {"code": 2, "rows": {"one": 3, "two": 1, "three": 1}}
    (query,) = decode_document(DriverStatus, (tmp_path / "jobs" / "second" / "status.json").read_bytes()).queries
    assert query.input_rows == 2


def test_job_starts_after_a_driver_that_was_killed_while_it_logged_the_first_offsets(
    spark_cluster: LocalCluster, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "1.txt").write_text("one\n")
    offsets = tmp_path / "jobs" / "first" / "checkpoints" / "first" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.489fa5fc-87a7-41a7-b070-d489cf31fbb9.tmp").touch()
    run(spark_cluster, tmp_path, "first", code=1)
    assert output(tmp_path) == {"code": 1, "rows": {"one": 1}}


def empty(file: str) -> Callable[[Path], None]:
    """The file is empty, as after a power loss. Object stores have no checksums beside their files."""

    def harm(checkpoint: Path) -> None:
        (checkpoint / file).write_bytes(b"")
        _checksum(checkpoint / file).unlink()

    return harm


def missing(file: str) -> Callable[[Path], None]:
    def harm(checkpoint: Path) -> None:
        (checkpoint / file).unlink()

    return harm


def cut_state(checkpoint: Path) -> None:
    """The newest changes of a partition are cut to half of their size."""
    (file,) = (checkpoint / "state/0/0").glob("2.changelog")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    _checksum(file).unlink()


def _checksum(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


@pytest.mark.timeout(1800)
def test_damaged_checkpoint_ends_the_job_at_once_with_the_file_and_writes_nothing(
    spark_cluster: LocalCluster, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    (tmp_path / "input").mkdir()
    for number, text in enumerate(("one\n", "two\n")):
        (tmp_path / "input" / f"{number}.txt").write_text(text)
        run(spark_cluster, tmp_path, "first", code=1)
    checkpoint, sound = tmp_path / "jobs/first/checkpoints/first", tmp_path / "sound"
    shutil.copytree(checkpoint, sound)
    (tmp_path / "input" / "3.txt").write_text("three\n")
    (tmp_path / "output.json").unlink()
    for harm, file in (
        (empty("commits/1"), "commits/1 is empty"),
        (missing("offsets/1"), "offsets/1 is missing"),
        (empty("metadata"), "metadata is empty"),
        (cut_state, "state/0/0/2.changelog is cut or damaged"),
    ):
        harm(checkpoint)
        ended = end_of_run(spark_cluster, tmp_path, "first", code=1)
        assert ended.outcome is Outcome.FAILED
        assert ended.cause is not None
        assert ended.cause.error_class.endswith("DamagedCheckpointError")
        assert file in ended.cause.message
        assert not (tmp_path / "output.json").exists()
        shutil.rmtree(checkpoint)
        shutil.copytree(sound, checkpoint)
    missing("commits/1")(checkpoint)
    run(spark_cluster, tmp_path, "first", code=1)
    assert output(tmp_path) == {"code": 1, "rows": {"one": 1, "two": 1, "three": 1}}


def output(folder: Path) -> Any:
    return json.loads((folder / "output.json").read_text())


def run(cluster: LocalCluster, folder: Path, job: str, code: int) -> None:
    """Run a bounded job until it has finished, without Airflow."""
    ended = end_of_run(cluster, folder, job, code)
    assert ended.outcome is Outcome.FINISHED, ended.cause


def end_of_run(cluster: LocalCluster, folder: Path, job: str, code: int) -> Finished:
    """Run a bounded job to its end, and return how it ended."""
    return end_of_job(cluster, folder, job, f"CODE = {code}\n{SCRIPT}")
