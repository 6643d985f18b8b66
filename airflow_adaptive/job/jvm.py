"""Access to the driver's JVM through Py4J, where Spark's Python API does not suffice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of the JVM by its full name."""
    return getattr(spark._jvm, name)


def scala_object(spark: SparkSession, name: str) -> Any:
    """Return a Scala `object` by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def from_scala(spark: SparkSession, collection: Any) -> Any:
    """Return a Scala collection as a Python list or dict."""
    return java_class(spark, "scala.jdk.javaapi.CollectionConverters").asJava(collection)


def scala_seq(spark: SparkSession, items: Iterable[str]) -> Any:
    """Return a `Seq[String]` (`org.apache.spark.api.python.PythonUtils`)."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(items))


def empty_scala_map(spark: SparkSession) -> Any:
    """Return an empty immutable `Map` (`org.apache.spark.api.python.PythonUtils`)."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap({})


def writer_option(writer: DataStreamWriter, name: str) -> str | None:
    """Return the value of an option that the script set on a query, or None.

    The options are in `extraOptions` of `org.apache.spark.sql.classic.DataStreamWriter`.
    """
    value = writer_field(writer, "extraOptions").get(name)
    return str(value.get()) if value.isDefined() else None


def writer_plans(writer: DataStreamWriter) -> Any:
    """Return the plans of a query that was not started (`QueryExecution`). The data is in `ds` of the same class."""
    return writer_field(writer, "ds").queryExecution()


def writer_field(writer: DataStreamWriter, name: str) -> Any:
    """Return a private field of `org.apache.spark.sql.classic.DataStreamWriter`."""
    field = writer._jwrite.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(writer._jwrite)
