"""The stateful job under fault: each row comes twice and leaves once. Leaves marks of which driver ran a query when.

What it forgets comes out twice; what it remembers wrongly is missing.
"""

import sys
from pathlib import Path

from marks import mark_epoch  # type: ignore[import-not-found]  # staged beside it
from pyspark.sql.functions import lit

from airflow_adaptive.job import AdaptiveJob

ROOT = Path(sys.argv[1])
VERTEX = (sys.argv[2:] or ["read"])[0]


def distinct(spark, parallelism):
    epoch = mark_epoch(spark, ROOT)
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 4).json(f"{ROOT}/in")
    checked = rows.repartition(parallelism[VERTEX]).selectExpr("id", "1 / (id + 1) AS checked")  # -1 fails its batch
    stamped = checked.dropDuplicates(["id"]).withColumn("epoch", lit(epoch))
    return stamped.writeStream.format("json").option("path", f"{ROOT}/out").trigger(processingTime="500 milliseconds")


AdaptiveJob(distinct).run()
