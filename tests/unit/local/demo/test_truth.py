"""The two ways to the demo's result: from the raw data, and from the sink as its log says; and their comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from airflow_adaptive.local.demo.flights import Flight, flights
from airflow_adaptive.local.demo.report import differences
from airflow_adaptive.local.demo.sink import SinkLogError, committed_files, read_hours
from airflow_adaptive.local.demo.truth import Hour, hours

TEN = datetime(2013, 1, 1, 10, tzinfo=UTC)
ELEVEN = datetime(2013, 1, 1, 11, tzinfo=UTC)
ROW = Hour(carrier="AA", hour=TEN, departures=2, mean_delay_minutes=1.5)


def flight(carrier: str, scheduled: datetime, delay: int | None) -> Flight:
    return Flight(carrier=carrier, scheduled=scheduled, delay_minutes=delay)


def add_file(output: Path, name: str, row: Hour) -> dict[str, object]:
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


def test_all_flights_of_the_year_are_there() -> None:
    assert sum(flight.departed for flight in flights()) == 336_776 - 8_255


def test_truth_counts_departures_per_carrier_and_hour_and_leaves_cancelled_flights_out() -> None:
    given = [flight("AA", TEN, 4), flight("AA", TEN, -1), flight("AA", TEN, None), flight("UA", ELEVEN, None)]
    assert hours(given) == [ROW]


def test_sink_reads_committed_files_only(tmp_path: Path) -> None:
    write_log(tmp_path, "0", add_file(tmp_path, "a b.parquet", ROW))
    write_log(tmp_path, "1")
    add_file(tmp_path, "orphan.parquet", ROW)
    (tmp_path / "_spark_metadata" / ".2.crc").touch()
    assert read_hours(tmp_path) == [ROW]


def test_sink_reads_the_newest_compacted_log_and_what_came_after(tmp_path: Path) -> None:
    rows = [replace(ROW, departures=n) for n in range(4)]
    first, second, third, fourth = (add_file(tmp_path, f"{row.departures}.parquet", row) for row in rows)
    write_log(tmp_path, "8", first)
    write_log(tmp_path, "9.compact", first, second)
    write_log(tmp_path, "10", third)
    write_log(tmp_path, "19.compact", first, second, third)
    write_log(tmp_path, "20", fourth)
    assert read_hours(tmp_path) == rows


def test_sink_refuses_a_log_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v2\n")
    with pytest.raises(SinkLogError, match="v2"):
        committed_files(tmp_path)


def test_equal_results_have_no_differences() -> None:
    assert differences([ROW], [ROW]) == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        pytest.param([], "1 rows missing", id="missing"),
        pytest.param([ROW, ROW], "1 rows wrong or double", id="double"),
        pytest.param([replace(ROW, mean_delay_minutes=1.5000001)], "1 rows missing", id="wrong"),
    ],
)
def test_a_difference_is_told(output: list[Hour], said: str) -> None:
    assert said in differences(output, [ROW])[0]
