"""The stateful job under fault: each row comes twice and leaves once. Leaves marks of which driver ran a query when.

What it forgets comes out twice; what it remembers wrongly is missing.
"""

import sys
import threading
import time
from pathlib import Path

from pyspark.sql.functions import lit

from airflow_adaptive.job import AdaptiveJob

ROOT = Path(sys.argv[1])
VERTEX = (sys.argv[2:] or ["read"])[0]
SAMPLE_S = 0.2


def mark(spark, epoch):
    """Write down again and again whether a query is active in this process."""
    with (ROOT / "marks" / f"{epoch}-{time.time_ns()}").open("w", buffering=1) as marks:
        while True:
            active = any(query.isActive for query in spark.streams.active)
            marks.write(f"{time.time():.3f} {int(active)}\n")
            time.sleep(SAMPLE_S)


def distinct(spark, parallelism):
    epoch = int(spark.sparkContext.getConf().get("spark.airflow.adaptive.epoch"))
    if "marks" not in {thread.name for thread in threading.enumerate()}:
        threading.Thread(target=mark, args=(spark, epoch), name="marks", daemon=True).start()
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 4).json(f"{ROOT}/in")
    checked = rows.repartition(parallelism[VERTEX]).selectExpr("id", "1 / (id + 1) AS checked")  # -1 fails its batch
    stamped = checked.dropDuplicates(["id"]).withColumn("epoch", lit(epoch))
    return stamped.writeStream.format("json").option("path", f"{ROOT}/out").trigger(processingTime="500 milliseconds")


AdaptiveJob(distinct).run()
