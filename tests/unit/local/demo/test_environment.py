"""The working directory of the demo, its example DAGs, and the output of the job as the log of the file sink describes it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from airflow_adaptive.local.demo.command import Sink, SinkLogError, committed_files, empty, example_dags
from airflow_adaptive.local.demo.replay import CarrierHour


def test_the_directory_stays_and_its_content_is_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    directory = tmp_path / "demo"
    (directory / "folder" / "inner").mkdir(parents=True)
    (directory / "file").touch()
    (directory / "link").symlink_to(outside)
    before = directory.stat().st_ino
    empty(directory)
    assert [*directory.iterdir()] == []
    assert (directory.stat().st_ino, outside.is_dir()) == (before, True)


def test_a_directory_that_does_not_exist_is_created(tmp_path: Path) -> None:
    empty(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def add_examples(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "flight_departures.py").touch()
    return folder


def test_wheel_has_its_examples_in_the_package(tmp_path: Path) -> None:
    package = tmp_path / "airflow_adaptive"
    add_examples(tmp_path / "dags")
    examples = add_examples(package / "example_dags")
    assert example_dags(package) == examples


def test_clone_has_its_examples_beside_the_package(tmp_path: Path) -> None:
    examples = add_examples(tmp_path / "dags")
    assert example_dags(tmp_path / "airflow_adaptive") == examples


def test_missing_examples_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()  # a folder of another package
    with pytest.raises(FileNotFoundError, match=r"neither in .*example_dags nor in .*dags"):
        example_dags(tmp_path / "airflow_adaptive")


TEN = datetime(2013, 1, 1, 10, tzinfo=UTC)
ROW = CarrierHour(carrier="AA", hour=TEN, departures=2, mean_delay_minutes=1.5)


def add_file(output: Path, name: str, row: CarrierHour) -> dict[str, object]:
    """Write a data file as Spark does and return its entry for the sink's log."""
    file = output / name
    columns = {
        "carrier": [row.carrier],
        "hour": pyarrow.array([row.hour.replace(tzinfo=None)], pyarrow.timestamp("ns")),
        "departures": [row.departures],
        "mean_delay_minutes": [row.mean_delay_minutes],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), file, use_deprecated_int96_timestamps=True)
    return {"path": file.as_uri(), "size": file.stat().st_size, "isDir": False, "action": "add"}


def write_log(output: Path, name: str, *entries: dict[str, object]) -> None:
    log = output / "_spark_metadata" / name
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(["v1", *map(json.dumps, entries)]))


def test_only_committed_files_are_read(tmp_path: Path) -> None:
    write_log(tmp_path, "0", add_file(tmp_path, "a b.parquet", ROW))
    write_log(tmp_path, "1")
    add_file(tmp_path, "orphan.parquet", ROW)
    (tmp_path / "_spark_metadata" / ".2.crc").touch()
    assert Sink(tmp_path).rows() == [ROW]


def test_newest_compacted_log_and_later_logs_are_read(tmp_path: Path) -> None:
    rows = [replace(ROW, departures=n) for n in range(4)]
    first, second, third, fourth = (add_file(tmp_path, f"{row.departures}.parquet", row) for row in rows)
    write_log(tmp_path, "8", first)
    write_log(tmp_path, "9.compact", first, second)
    write_log(tmp_path, "10", third)
    write_log(tmp_path, "19.compact", first, second, third)
    write_log(tmp_path, "20", fourth)
    assert Sink(tmp_path).rows() == rows


def test_row_that_was_written_twice_is_there_twice(tmp_path: Path) -> None:
    write_log(tmp_path, "0", add_file(tmp_path, "a.parquet", ROW), add_file(tmp_path, "b.parquet", ROW))
    assert Sink(tmp_path).rows() == [ROW, ROW]


def test_log_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v2\n")
    with pytest.raises(SinkLogError, match="v2"):
        committed_files(tmp_path)


def test_sink_without_output_has_no_batch(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "output")
    assert (sink.last_batch, sink.last_hour, sink.rows()) == (-1, None, [])


def test_sink_follows_new_batches(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    write_log(tmp_path, "0", add_file(tmp_path, "a.parquet", ROW))
    assert (sink.last_batch, sink.last_hour) == (0, TEN)
    later = replace(ROW, hour=TEN.replace(hour=11))
    write_log(tmp_path, "9.compact", add_file(tmp_path, "a.parquet", ROW), add_file(tmp_path, "b.parquet", later))
    assert (sink.last_batch, sink.last_hour) == (9, later.hour)
