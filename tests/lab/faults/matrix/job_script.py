"""The stateful job under fault: each row comes twice and leaves once, to a strict sink or to a table.

What it forgets comes out twice; what it remembers wrongly is missing.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from strict_sink import StrictSink  # type: ignore[import-not-found]  # staged beside it

from airflow_adaptive.job import AdaptiveJob

ROOT = Path(sys.argv[1])
VERTEX = (sys.argv[2:] or ["read"])[0]
SINK = (sys.argv[3:] or [""])[0]


def distinct(spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 4).json(f"{ROOT}/in")
    checked = rows.repartition(parallelism[VERTEX]).selectExpr("id", "1 / (id + 1) AS checked")  # -1 fails its batch
    rows = checked.dropDuplicates(["id"])
    return write(rows).trigger(processingTime="500 milliseconds")


def write(rows: DataFrame) -> DataStreamWriter:
    if not SINK:
        return rows.writeStream.foreachBatch(StrictSink(rows.sparkSession, ROOT))
    from table_sink import table_writer  # type: ignore[import-not-found]  # noqa: PLC0415  Staged only for jobs with such a sink

    return table_writer(rows, SINK, ROOT)


AdaptiveJob(distinct).run()
