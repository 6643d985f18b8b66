"""The queries on Spark: `spark_job.py <servers> <topic of the events> <topic of the results> <query>`."""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob

servers, source, sink, query = sys.argv[1:]


def events(spark: SparkSession, kind: str) -> DataFrame:
    """The events of a kind, with the watermark of all events."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    values = records.option("startingOffsets", "earliest").load().select(F.col("value").cast("string").alias("value"))
    fields = F.from_json("value", "kind STRING, id LONG, at LONG, of LONG").alias("event")
    timed = values.select(fields).select("event.*").withColumn("time", F.timestamp_millis("at"))
    return timed.withWatermark("time", "2 seconds").where(F.col("kind") == kind)


def q0(spark: SparkSession) -> DataFrame:
    """Pass all bids through."""
    return events(spark, "bid").selectExpr("id", "0L AS num", "at")


def q5(spark: SparkSession) -> DataFrame:
    """The auction with the most bids."""
    windows = F.window("time", "10 seconds", "2 seconds")
    counts = events(spark, "bid").groupBy(windows, F.col("of").alias("id")).agg(F.count("*").alias("num"))
    hottest = counts.groupBy("window").agg(F.max(F.struct("num", "id")).alias("hot"))
    return hottest.selectExpr("hot.id", "hot.num", "unix_millis(window.end) AS at")


def q8(spark: SparkSession) -> DataFrame:
    """The persons who have registered and created an auction."""
    window = F.window("time", "10 seconds").alias("window")
    persons = events(spark, "person").groupBy(window, "id").count().select("id", F.col("window").alias("registered"))
    sellers = events(spark, "auction").groupBy(window, "of").count().select("of", F.col("window").alias("sold"))
    joined = persons.join(sellers, F.expr("id = of AND registered = sold"))
    return joined.selectExpr("id", "0L AS num", "unix_millis(registered.end) AS at")


def nexmark(spark: SparkSession, parallelism: object) -> DataStreamWriter:
    """The query that the arguments name. It has no shuffle of its own: the partitions of the topic and the slots decide."""
    results = {"q0": q0, "q5": q5, "q8": q8}[query](spark).select(F.to_json(F.struct("id", "num", "at")).alias("value"))
    writer = results.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", sink)
    return writer.outputMode("append").trigger(processingTime="0 seconds")


AdaptiveJob(nexmark).run()
