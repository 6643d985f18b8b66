"""The job under fault with a table as its sink. The table is counted without Spark."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from airflow_adaptive._engine.spec import DriverShape, ExecutorShape
from tests.lab.faults.harness import table_sink
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.sink_log import row_violations
from tests.lab.faults.matrix.matrix_job import MatrixJob
from tests.support.jars import MINOR
from tests.support.tables.contents import READERS
from tests.support.tables.jars import FORMATS, table_jars

SINKS: Final = ("delta", "iceberg", "delta-merge", "iceberg-merge")

MEMORY_MB: Final = 640
"""Of a driver and of an executor. Tables need more than the strict sink."""


@dataclass
class TableJob(MatrixJob):
    """A job that writes to a table.

    Attributes:
        sink: one of `SINKS`.
    """

    sink: str = ""

    imports: ClassVar[tuple[Path, ...]] = (*MatrixJob.imports, Path(table_sink.__file__))

    def __post_init__(self) -> None:
        """Make the folders, and stage the script."""
        super().__post_init__()
        self.changes = {
            **self.changes,
            "args": (str(self.root), "read", self.sink),
            "conf": table_conf(self.kind, self.root),
            "driver": DriverShape(cores=1, memory_mb=MEMORY_MB),
            "executor": ExecutorShape(cores=1, memory_mb=MEMORY_MB),
        }

    @property
    def kind(self) -> str:
        """`delta` or `iceberg`."""
        return self.sink.partition("-")[0]

    @property
    def folder(self) -> Path:
        """Of the table."""
        return self.root / table_sink.FOLDER / ("delta" if self.kind == "delta" else table_sink.ROWS.replace(".", "/"))

    def rows(self) -> list[int]:
        """Rows in the table; a row that was merged twice comes twice."""
        return [row["id"] for row in self._read() for _ in range(row["times"])]

    def so_far(self) -> Outcome:
        """What is in the table. How many drivers wrote at once is not known."""
        found, expected = self.rows(), self.expected_rows()
        return Outcome(
            expected=len(expected),
            found=len(found),
            duplicated=len(found) - len(set(found)),
            repeated=0,
            drivers_at_once=0,
            epochs=len({row["epoch"] for row in self._read()}),
            recovery_s=self.recovery_s,
            violations=tuple(row_violations(found, expected)),
        )

    def _read(self) -> list[dict[str, int]]:
        table = READERS[self.kind](self.folder)
        return [] if table is None else table.to_pylist()


def table_conf(kind: str, root: Path) -> dict[str, str]:
    """Return the Spark properties of a job that writes to a table.

    Args:
        kind: `delta` or `iceberg`.
        root: of the job.
    """
    jars = {"spark.jars": ",".join(map(str, table_jars(kind)))}
    if kind == "delta":
        return jars | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",  # tasks that read the log of the table: 50 without this
        }
    catalog = f"spark.sql.catalog.{table_sink.CATALOG}"
    return jars | {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(root / table_sink.FOLDER),
    }


def supported_sinks() -> list[str]:
    """Return the sinks whose format is published for the Spark that the tests run."""
    return [sink for sink in SINKS if MINOR in FORMATS[sink.partition("-")[0]]]


if __name__ == "__main__":
    sys.stdout.write("\n".join(supported_sinks()) + "\n")
