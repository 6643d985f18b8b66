"""The little that Spark's Python API lacks for reaching the driver's JVM through Py4J."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of the JVM by its full name."""
    return getattr(spark._jvm, name)


def scala_object(spark: SparkSession, name: str) -> Any:
    """A Scala `object` by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def from_scala(spark: SparkSession, collection: Any) -> Any:
    """A Scala collection as Python's list or dict of it."""
    return java_class(spark, "scala.jdk.javaapi.CollectionConverters").asJava(collection)


def scala_seq(spark: SparkSession, items: Iterable[str]) -> Any:
    """A `Seq[String]` (`org.apache.spark.api.python.PythonUtils`)."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(items))


def empty_scala_map(spark: SparkSession) -> Any:
    """An empty immutable `Map` (`org.apache.spark.api.python.PythonUtils`)."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap({})
