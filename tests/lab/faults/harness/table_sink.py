"""Sinks that are tables; staged with the scripts under test.

Each row of a table has the epoch of the driver that wrote it, and how often the row was written. MERGE increments this number, so that a batch
that is merged twice is in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

CATALOG = "lake"

ROWS = "db.rows"
"""Name of the Iceberg table in its catalog."""

FOLDER = "tables"
"""Of the tables, below the root of the job."""

MERGE = """
    MERGE INTO {table} AS t USING batch AS b ON t.id = b.id
    WHEN MATCHED THEN UPDATE SET times = t.times + b.times
    WHEN NOT MATCHED THEN INSERT *
"""


def table_writer(rows: DataFrame, sink: str, root: Path) -> DataStreamWriter:
    """Return the query that writes rows to a table.

    Args:
        rows: rows with an `id` and a column that fails for a bad row.
        sink: `delta`, `iceberg`, `delta-merge` or `iceberg-merge`.
        root: of the job.
    """
    spark, (kind, _, how) = rows.sparkSession, sink.partition("-")
    name = f"{CATALOG}.{ROWS}" if kind == "iceberg" else f"delta.`{root / FOLDER / 'delta'}`"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT, epoch BIGINT, times BIGINT) USING {kind}")
    epoch = spark.conf.get("spark.airflow.adaptive.epoch", "0")
    marked = rows.selectExpr("id", f"{epoch}L AS epoch", "IF(checked IS NULL, 0L, 1L) AS times")
    if how == "merge":
        return marked.writeStream.outputMode("update").foreachBatch(MERGES[kind](name))
    return marked.writeStream.format(kind).option("path", str(root / FOLDER / "delta") if kind == "delta" else name)


def merge_into_delta(table: str) -> Callable[[DataFrame, int], None]:
    """Return a function of `foreachBatch`: Delta ignores a batch that it has."""

    def merge(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        spark.conf.set("spark.databricks.delta.write.txnAppId", str(query))
        spark.conf.set("spark.databricks.delta.write.txnVersion", number)
        batch.createOrReplaceTempView("batch")
        spark.sql(MERGE.format(table=table))

    return merge


def merge_into_iceberg(table: str) -> Callable[[DataFrame, int], None]:
    """Return a function of `foreachBatch`: the snapshot of each batch has the number of the batch."""

    def merge(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        merged = f"summary['query'] = '{query}' AND CAST(summary['batch'] AS BIGINT) >= {number}"
        if not spark.table(f"{table}.snapshots").where(merged).isEmpty():
            return
        spark.conf.set("spark.sql.iceberg.snapshot-property.query", str(query))
        spark.conf.set("spark.sql.iceberg.snapshot-property.batch", number)
        batch.createOrReplaceTempView("batch")
        spark.sql(MERGE.format(table=table))

    return merge


MERGES = {"delta": merge_into_delta, "iceberg": merge_into_iceberg}
