"""Reads the output of the job. Only the files in the log of the file sink count: killed batches leave other files behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow
import pyarrow.parquet

from airflow_adaptive.local.demo.expected_result import CarrierHour

LOG_VERSION = "v1"
COMPACT = ".compact"


class SinkLogError(ValueError):
    """The log of the sink has an unknown format."""


class Sink:
    """The output directory of the job.

    The class reads each data file only once, because data files never change.
    """

    def __init__(self, output: Path) -> None:
        """Describe the output directory, which may not exist yet."""
        self._output = output
        self._rows: dict[Path, list[CarrierHour]] = {}

    @property
    def last_batch(self) -> int:
        """ID of the newest committed batch, -1 before the first batch."""
        return max(_log_files(self._output), default=-1)

    @property
    def last_hour(self) -> datetime | None:
        """Latest hour in the committed rows, None without rows."""
        return max((row.hour for row in self.rows()), default=None)

    def rows(self) -> list[CarrierHour]:
        """Return all committed rows in ascending order. Duplicate rows stay duplicates.

        Raises:
            SinkLogError: a log file has an unknown version.
        """
        files = committed_files(self._output)
        self._rows |= {file: list(_read_rows(file)) for file in files if file not in self._rows}
        return sorted(row for file in files for row in self._rows[file])


def committed_files(output: Path) -> list[Path]:
    """Return the data files that `_spark_metadata` lists (Spark's `FileStreamSinkLog`).

    The log has a file `<batch>` for each batch. Instead of some of them, the log has a file `<batch>.compact`, which lists the
    files of all batches up to this one.

    Raises:
        SinkLogError: a log file has an unknown version.
    """
    logs = _log_files(output)
    compacted = [batch for batch, log in logs.items() if log.name.endswith(COMPACT)]
    first = max(compacted, default=0)
    return [file for batch in sorted(logs) if batch >= first for file in _entries(logs[batch])]


def _log_files(output: Path) -> dict[int, Path]:
    """Return the log files by batch ID. Names of checksums and unfinished files begin with a dot."""
    files = [file for file in (output / "_spark_metadata").glob("*") if file.name[0].isdigit()]
    return {int(file.name.removesuffix(COMPACT)): file for file in files}


def _entries(log: Path) -> Iterator[Path]:
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != LOG_VERSION:
        raise SinkLogError(f"{log} has version {version!r} instead of {LOG_VERSION!r}")
    return (Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines)


def _read_rows(file: Path) -> Iterator[CarrierHour]:
    table = pyarrow.parquet.read_table(file)
    column = table.schema.get_field_index("hour")
    hours = table["hour"].cast(pyarrow.timestamp("us", tz="UTC"))  # Spark writes UTC without the time zone.
    return (CarrierHour(**row) for row in table.set_column(column, "hour", hours).to_pylist())
