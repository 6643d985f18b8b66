"""Lets Spark repartition the state of aggregations in Real-Time Mode.

An aggregation in Real-Time Mode has the same state as in micro-batches, and Spark continues each with the state of the other. Only its
name in the checkpoint differs, and Spark's state readers do not know the name (Spark 4.3, `StatePartitionKeyExtractorFactory`). A
checkpoint whose first batch was a micro-batch keeps the name that they know, also in Real-Time Mode. Therefore the module gives the
operator this name, as a first micro-batch would have done.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.spark_internals import java_class, spark_class

REAL_TIME: Final = "StatefulStreamlineAggregate"

MICRO_BATCH: Final = "stateStoreSave"


def rename_operator(metadata: str) -> str | None:
    """Return the metadata of an operator with the name that micro-batches give it, or None if nothing is to be changed.

    Args:
        metadata: content of the file: a line with the version, and the operator as JSON.
    """
    version, newline, content = metadata.partition("\n")
    fields = json.loads(content)
    operator = fields["operatorInfo"]
    if operator["operatorName"] != REAL_TIME:
        return None
    renamed = {**fields, "operatorInfo": {**operator, "operatorName": MICRO_BATCH}}
    return f"{version}{newline}{json.dumps(renamed, separators=(',', ':'))}"


def rename_operators(spark: SparkSession, checkpoint: str, operators: list[int]) -> None:
    """Rename these operators of a checkpoint. A query may run: it reads the names only when it starts. Raises the exceptions of Spark."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    for operator in operators:
        path = java_class(spark, "org.apache.hadoop.fs.Path")(f"{checkpoint}/state/{operator}/_metadata/metadata")
        manager = spark_class(spark, "CheckpointFileManager").create(path.getParent(), conf)
        renamed = rename_operator(_read(manager, path))
        if renamed is not None:
            _replace(manager, path, renamed)


def _read(manager: Any, path: Any) -> str:
    stream = manager.open(path)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def _replace(manager: Any, path: Any, content: str) -> None:
    overwrite = True
    stream = manager.createAtomic(path, overwrite)
    try:
        stream.write(bytearray(content.encode()))
    except BaseException:
        stream.cancel()
        raise
    stream.close()
