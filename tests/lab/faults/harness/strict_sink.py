"""A sink that hides no repeated batch; staged with the scripts under test.

Each driver process appends to a file of its own, which no other process opens, and syncs each line. The sink writes one line when a
batch begins and one line when the batch has been written, so a batch that is written twice is in the files twice. The times
come from the clock of the driver's JVM. `tests/lab/faults/harness/sink_log.py` reads and checks the files.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

FOLDER = "sink"
"""Of the files, below the root of the job."""

QUERY_ID = "sql.streaming.queryId"
"""Local property with the identifier that Spark stores in the checkpoint: a query without its checkpoint gets another one."""


class StrictSink:
    """The function of `foreachBatch`."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        """Open the file of this process."""
        conf = spark.sparkContext.getConf()
        self._context: Any = spark.sparkContext
        directory = folder_of(conf.get("spark.airflow.adaptive.directory", ""), root)
        self._checkpoint = directory / "checkpoints" / conf.get("spark.airflow.adaptive.job", "")
        epoch = int(conf.get("spark.airflow.adaptive.epoch", "0"))
        self._file = _opened(root / FOLDER / f"{epoch}-{self._context.applicationId}-{os.getpid()}.jsonl")

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Append the rows of a batch."""
        begin = {"event": "begin", "batch": batch, "at": self._now(), "query": self._context.getLocalProperty(QUERY_ID)}
        committed = self._committed()
        offsets = {"committed": committed, "start": self._offset(committed), "end": self._offset(batch)}
        self._append(begin | offsets)
        rows = sorted(list(row) for row in frame.collect())
        self._append({"event": "end", "batch": batch, "at": self._now(), "rows": rows})

    def _now(self) -> int:
        """Milliseconds since the epoch, by the clock of the JVM."""
        return int(self._context._jvm.java.lang.System.currentTimeMillis())

    def _committed(self) -> int:
        """The newest batch in the commit log of the checkpoint, -1 without any."""
        log = self._checkpoint / "commits"
        return max((int(file.name) for file in log.glob("*") if file.name.isdecimal()), default=-1)

    def _offset(self, batch: int) -> str | None:
        """Where the source stands after a batch, by the offset log of the checkpoint."""
        return None if batch < 0 else (self._checkpoint / "offsets" / str(batch)).read_text().splitlines()[2]

    def _append(self, line: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())
        os.fsync(self._file)


def folder_of(uri: str, root: Path) -> Path:
    """The folder of a job directory. The buckets of an object store are folders below the root of the job."""
    parts = urlsplit(uri)
    return root / parts.netloc / parts.path.lstrip("/") if parts.netloc else Path(parts.path)


@cache
def _opened(file: Path) -> int:
    """The file, created; the function of a job runs again in the same process when the plan changes."""
    file.parent.mkdir(exist_ok=True)
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
