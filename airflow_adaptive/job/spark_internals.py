"""The internals of Spark that the driver runtime uses, and what each version of Spark can do.

Theory: much of what the driver does has no public interface in Spark. The classes behind it are the same from Spark 4.0 to 4.3, but their
packages, a constructor and the abilities differ. This module contains all their names and the only comparisons of versions. All other
modules get a class from here by its simple name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from airflow_adaptive._core.protocol.documents import Capability, SparkReport
from airflow_adaptive._core.python_version import UnsupportedVersionError

if TYPE_CHECKING:  # the launcher uses this module before it knows whether the driver has pyspark
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OLDEST: Final = (4, 0)
"""Oldest version of Spark whose internals the driver knows."""

SINCE: Final[Mapping[Capability, tuple[int, int]]] = {
    Capability.REPARTITION: (4, 2),
    Capability.REAL_TIME_MODE: (4, 2),
    Capability.HOLD: (4, 4),
}
"""First version of Spark with each capability."""

READ_ONLY_LOGS: Final = (4, 2)
"""First version whose readers of a checkpoint's logs do not create a missing folder."""

OFFSETS_OF_TWO_FORMATS: Final = (4, 2)
"""First version with a second format of the offset log, in which the metadata of a batch has another name."""

SUB_PACKAGES: Final = (4, 1)
"""First version with sub-packages below `STREAMING`."""

STREAMING: Final = "org.apache.spark.sql.execution.streaming"

STREAMING_CLASSES: Final = {
    "CheckpointFileManager": "checkpointing",
    "CommitLog": "checkpointing",
    "OffsetSeqLog": "checkpointing",
    "ACTIVE": "runtime",
    "INITIALIZING": "runtime",
    "TERMINATED": "runtime",
    "FileStreamSink": "sinks",
    "FileStreamSinkLog": "sinks",
    "SinkFileStatus": "sinks",
}
"""Sub-package of each class below `STREAMING`."""

CLASSES: Final = {
    "CompressionCodec": "org.apache.spark.io",
    "DependencyUtils": "org.apache.spark.util",
    "JavaUtils": "org.apache.spark.network.util",
    "JsonUtils": "org.apache.spark.sql.kafka010",
    "Pool": "org.apache.spark.scheduler",
    "PythonSQLUtils": "org.apache.spark.sql.api.python",
    "PythonUtils": "org.apache.spark.api.python",
    "SchedulingMode": "org.apache.spark.scheduler",
    "SerializableConfiguration": "org.apache.spark.util",
    "StateMetadataPartitionReader": "org.apache.spark.sql.execution.datasources.v2.state.metadata",
}
"""Package of each other class, the same in all versions."""


def require_supported(version: str) -> None:
    """Raise `UnsupportedVersionError` if a version of Spark is too old. A version that is not a number passes."""
    if _is_before(version, OLDEST):
        raise UnsupportedVersionError(
            f"the driver runs Spark {version}, and airflow-adaptive supports Spark {_text(OLDEST)} and later: upgrade Spark on the master and the "
            "workers, or use a newer image"
        )


def report_spark(version: str) -> SparkReport:
    """Return what a version of Spark cannot do."""
    lacks = {str(capability): _text(since) for capability, since in SINCE.items() if _is_before(version, since)}
    return SparkReport(version=version, lacks=lacks)


def class_name(name: str, version: str = "") -> str:
    """Return the full name of one of Spark's classes. The version of Spark is not needed outside of `STREAMING_CLASSES`."""
    if name in CLASSES:
        return f"{CLASSES[name]}.{name}"
    folder = "" if _is_before(version, SUB_PACKAGES) else f".{STREAMING_CLASSES[name]}"
    return f"{STREAMING}{folder}.{name}"


def spark_class(spark: SparkSession, name: str) -> Any:
    """Return one of Spark's classes by its simple name."""
    return java_class(spark, class_name(name, spark.version))


def spark_object(spark: SparkSession, name: str) -> Any:
    """Return one of Spark's Scala objects by its simple name."""
    return scala_object(spark, class_name(name, spark.version))


def checkpoint_log(spark: SparkSession, name: str, uri: str) -> Any:
    """Return Spark's reader of a log in a checkpoint by its simple name (`OffsetSeqLog`, `CommitLog`). The folder must exist."""
    read_only = () if _is_before(spark.version, READ_ONLY_LOGS) else (True,)
    return spark_class(spark, name)(spark._jsparkSession, uri, *read_only)


def offset_metadata(spark: SparkSession, logged: Any) -> Any:
    """Return the metadata of an entry of the offset log (`OffsetSeq`), as an `Option`."""
    return logged.metadata() if _is_before(spark.version, OFFSETS_OF_TWO_FORMATS) else logged.metadataOpt()


def separate_task_ids(spark: SparkSession, epoch: int) -> None:
    """Let the task ids of this driver begin above those of all earlier drivers of the job.

    Each session counts its tasks from 0. Iceberg's sink names a file by query, batch, partition and task, so that a driver which repeats a batch could
    otherwise overwrite files that its predecessor has committed to the table, but not to the checkpoint. The lower 32 bits still count from
    0, for code that uses only these.
    """
    # Py4J would turn the counter (`AtomicLong`) into a number, so the JVM gets the field and adds to it in one call.
    context: Any = spark.sparkContext
    scheduler, long = context._jsc.sc().taskScheduler(), java_class(spark, "java.lang.Long").TYPE
    handles, counter = java_class(spark, "java.lang.invoke.MethodHandles"), _accessible(scheduler, "nextTaskId")
    add_type = java_class(spark, "java.lang.invoke.MethodType").methodType(long, long)
    add = handles.publicLookup().findVirtual(counter.getType(), "addAndGet", add_type)
    getters = context._gateway.new_array(java_class(spark, "java.lang.invoke.MethodHandle"), 1)
    getters[0] = handles.publicLookup().unreflectGetter(counter)
    arguments = java_class(spark, "java.util.ArrayList")()
    arguments.add(scheduler)
    arguments.add(epoch << 32)
    handles.filterArguments(add, 0, getters).invokeWithArguments(arguments)


def catch_sigterm(spark: SparkSession) -> tuple[Any, Callable[[], object]]:
    """Let SIGTERM release a latch (`CountDownLatch`) instead of ending the JVM. Returns the latch, and a function that ends this.

    The handler is a method handle: a handler in Python would need a thread of Py4J for the calls of the JVM. Raises `Py4JError` if the JVM leaves
    its signals to others (`-Xrs`).
    """
    signals, handles, of = (
        java_class(spark, name) for name in ("sun.misc.Signal", "java.lang.invoke.MethodHandles", "java.lang.Class")
    )
    latch = java_class(spark, "java.util.concurrent.CountDownLatch")(1)
    no_result = java_class(spark, "java.lang.invoke.MethodType").methodType(java_class(spark, "java.lang.Void").TYPE)
    count_down = handles.publicLookup().findVirtual(latch.getClass(), "countDown", no_result).bindTo(latch)
    parameters = java_class(spark, "java.util.ArrayList")()
    parameters.add(of.forName("sun.misc.Signal"))
    handle = java_class(spark, "java.lang.invoke.MethodHandleProxies").asInterfaceInstance(
        of.forName("sun.misc.SignalHandler"), handles.dropArguments(count_down, 0, parameters)
    )
    previous = signals.handle(signals("TERM"), handle)
    return latch, lambda: signals.handle(signals("TERM"), previous)


def unused_archive(spark: SparkSession) -> str | None:
    """Return the archive of classes that the options of the driver name and its JVM does not use, None if there is none. Java 17 reports nothing."""
    conf = spark.sparkContext.getConf()
    options = " ".join(str(conf.get(f"spark.driver.{kind}JavaOptions", "")) for kind in ("default", "extra"))
    archives = re.findall(r"-XX:SharedArchiveFile=(\S+)", options)
    is_used = "sharing" in java_class(spark, "java.lang.System").getProperty("java.vm.info")
    return archives[-1] if archives and not is_used else None


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a property of the session meanwhile."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def describe_plan(spark: SparkSession, execution: Any) -> str:
    """Return the physical plan of a `QueryExecution` as text."""
    return str(spark_class(spark, "PythonSQLUtils").explainString(execution, "simple"))


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
    """Return a `Seq[String]`."""
    return spark_class(spark, "PythonUtils").toSeq(list(items))


def empty_scala_map(spark: SparkSession) -> Any:
    """Return an empty immutable `Map`."""
    return spark_class(spark, "PythonUtils").toScalaMap({})


def private_field(item: Any, name: str) -> Any:
    """Return a private field of an object of the JVM."""
    return _accessible(item, name).get(item)


def set_private_field(item: Any, name: str, value: Any) -> None:
    """Set a private field of an object of the JVM."""
    _accessible(item, name).set(item, value)


def writer_option(writer: DataStreamWriter, name: str) -> str | None:
    """Return the value of an option that the script set on a query (`extraOptions` of `DataStreamWriter`), or None."""
    value = writer_field(writer, "extraOptions").get(name)
    return str(value.get()) if value.isDefined() else None


def writer_plans(writer: DataStreamWriter) -> Any:
    """Return the plans of a query that was not started (`QueryExecution`). The data is in `ds` of the same class."""
    return writer_field(writer, "ds").queryExecution()


def writer_field(writer: DataStreamWriter, name: str) -> Any:
    """Return a private field of `org.apache.spark.sql.classic.DataStreamWriter`."""
    return private_field(writer._jwrite, name)


def _accessible(item: Any, name: str) -> Any:
    field = item.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _is_before(version: str, other: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < other


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
