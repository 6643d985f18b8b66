"""Reads what the job wrote, as the file sink's own log says: killed batches leave files that do not count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow
import pyarrow.parquet

from airflow_adaptive.local.demo.truth import Hour

LOG_VERSION = "v1"
COMPACT = ".compact"


class SinkLogError(ValueError):
    """The sink's log is not one that this reader knows."""


def read_hours(output: Path) -> list[Hour]:
    """All rows that were committed, ordered; a row that was written twice is there twice."""
    return sorted(row for file in committed_files(output) for row in _rows(file))


def committed_files(output: Path) -> list[Path]:
    """The sink's data files, as `_spark_metadata` lists them (Spark's `FileStreamSinkLog`).

    The log has a file `<batch>` for each batch; now and then one is `<batch>.compact` instead, which lists the files of
    all batches so far.

    Raises:
        SinkLogError: a log file is of another version.
    """
    logs = {int(log.name.removesuffix(COMPACT)): log for log in _log_files(output)}
    compacted = [batch for batch, log in logs.items() if log.name.endswith(COMPACT)]
    first = max(compacted, default=0)
    return [file for batch in sorted(logs) if batch >= first for file in _entries(logs[batch])]


def _log_files(output: Path) -> Iterator[Path]:
    """Log files; others, such as checksums and those half-written, begin with a dot."""
    return (file for file in (output / "_spark_metadata").glob("*") if file.name[0].isdigit())


def _entries(log: Path) -> Iterator[Path]:
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != LOG_VERSION:
        raise SinkLogError(f"{log}: version {version!r}, not {LOG_VERSION!r}")
    return (Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines)


def _rows(file: Path) -> Iterator[Hour]:
    table = pyarrow.parquet.read_table(file)
    column = table.schema.get_field_index("hour")
    hours = table["hour"].cast(pyarrow.timestamp("us", tz="UTC"))  # Spark writes UTC without saying so
    return (Hour(**row) for row in table.set_column(column, "hour", hours).to_pylist())
