"""The job under fault: copies rows, and leaves marks of which driver ran a query when."""

import sys
from pathlib import Path

from marks import mark_epoch  # type: ignore[import-not-found]  # staged beside it
from pyspark.sql.functions import lit

from airflow_adaptive.job import AdaptiveJob

ROOT = Path(sys.argv[1])


def copy(spark, parallelism):
    epoch = mark_epoch(spark, ROOT)
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(f"{ROOT}/in")
    checked = rows.repartition(parallelism["job"]).selectExpr("id", "1 / (id + 1) AS checked")  # -1 fails its batch
    stamped = checked.withColumn("epoch", lit(epoch))
    return stamped.writeStream.format("json").option("path", f"{ROOT}/out").trigger(processingTime="500 milliseconds")


AdaptiveJob(copy).run()
