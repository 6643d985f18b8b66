#!/usr/bin/env bash
# Makes an archive of the classes that drivers and executors load (AppCDS): SPARK_HOME=/opt/spark class-archive.sh /opt/spark/spark.jsa
# A stateful query runs on a small cluster, which lives in its driver. Needs Java 17 or later, Python, and 2 GiB of memory.
set -euo pipefail
archive=$(realpath -m "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > query.py <<'PYTHON'
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("key INT, word STRING").json("words")
prefix = udf(lambda word: word[:3], "string")
counts = rows.groupBy("key", prefix("word").alias("prefix")).count()
query = counts.writeStream.outputMode("update").format("noop").option("checkpointLocation", "checkpoint").start()
query.processAllAvailable()
spark.stop()
PYTHON
mkdir words
for key in {1..100}; do echo "{\"key\": $key, \"word\": \"abcde\"}"; done > words/words.json

"$SPARK_HOME/bin/spark-submit" --master 'local-cluster[1,1,512]' --driver-memory 512m \
    --conf spark.executor.memory=512m --conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false --conf spark.log.level=WARN \
    --conf spark.sql.streaming.stateStore.providerClass=org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider \
    --conf "spark.driver.extraJavaOptions=-XX:DumpLoadedClassList=$folder/driver" \
    --conf "spark.executor.extraJavaOptions=-XX:DumpLoadedClassList=$folder/executor" \
    query.py
awk '!/^#/ && !seen[$0]++' driver executor > classes

# Only jars are on the class path: Java accepts no folder with files there, as Spark's `conf` is one.
"${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xshare:dump -XX:SharedClassListFile=classes -XX:SharedArchiveFile="$archive.new" \
    -cp "$SPARK_HOME/jars/*" > dump.log || { tail dump.log; exit 1; }
chmod 644 "$archive.new"
mv "$archive.new" "$archive"
