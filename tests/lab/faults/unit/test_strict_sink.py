"""The strict sink appends each attempt to write a batch, and its files are never overwritten."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.faults.harness import strict_sink
from tests.lab.faults.harness.sink_log import is_repeated, read_writes
from tests.lab.faults.harness.strict_sink import FOLDER, StrictSink


class FakeContext:
    """A Spark context in a driver of epoch 3, whose JVM's clock ticks with each reading."""

    applicationId = "app-1"

    def __init__(self, directory: Path) -> None:
        self._conf = {
            "spark.airflow.adaptive.directory": directory.as_uri(),
            "spark.airflow.adaptive.job": "copy",
            "spark.airflow.adaptive.epoch": "3",
        }
        clock = SimpleNamespace(currentTimeMillis=itertools.count(1000).__next__)
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=clock)))

    def getConf(self) -> dict[str, str]:
        return self._conf

    def getLocalProperty(self, name: str) -> str:
        assert name == "sql.streaming.queryId"
        return "query-1"


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    strict_sink._opened.cache_clear()
    yield
    strict_sink._opened.cache_clear()


@pytest.fixture
def spark(tmp_path: Path) -> Any:
    """A session whose query has committed batch 0 and begun batch 1."""
    checkpoint = tmp_path / "jobs" / "copy" / "checkpoints" / "copy"
    for log, batches in {"commits": 1, "offsets": 2}.items():
        (checkpoint / log).mkdir(parents=True)
        for batch in range(batches):
            (checkpoint / log / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}')
    return SimpleNamespace(sparkContext=FakeContext(tmp_path / "jobs" / "copy"))


def frame(*rows: tuple[int, str]) -> Any:
    return SimpleNamespace(collect=lambda: list(rows))


def test_batch_that_is_written_twice_is_in_the_file_twice(spark: Any, tmp_path: Path) -> None:
    sink = StrictSink(spark, tmp_path)
    sink(frame((2, "b"), (1, "a")), 1)
    sink(frame((1, "a"), (2, "b")), 1)
    first, second = read_writes(tmp_path / FOLDER)
    assert (first.epoch, first.query, first.batch, first.committed) == (3, "query-1", 1, 0)
    assert (first.start, first.end) == ('{"logOffset":0}', '{"logOffset":1}')
    assert (first.began, first.ended, first.rows) == (1000, 1001, ((1, "a"), (2, "b")))
    assert (second.began, second.ended) == (1002, 1003)
    assert is_repeated(first, second)


def test_batch_that_fails_has_no_end(spark: Any, tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        StrictSink(spark, tmp_path)(SimpleNamespace(collect=fail), 1)  # type: ignore[arg-type]
    (write,) = read_writes(tmp_path / FOLDER)
    assert (write.ended, write.rows) == (None, ())


def test_first_batch_has_no_start(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "jobs" / "copy" / "checkpoints" / "copy" / "commits" / "0").unlink()
    StrictSink(spark, tmp_path)(frame(), 0)
    (write,) = read_writes(tmp_path / FOLDER)
    assert (write.committed, write.start, write.end) == (-1, None, '{"logOffset":0}')


def test_queries_of_one_process_share_its_file_and_another_process_cannot_open_it(spark: Any, tmp_path: Path) -> None:
    for sink in (StrictSink(spark, tmp_path), StrictSink(spark, tmp_path)):
        sink(frame(), 1)
    assert len(read_writes(tmp_path / FOLDER)) == 2
    strict_sink._opened.cache_clear()
    with pytest.raises(FileExistsError):
        StrictSink(spark, tmp_path)
