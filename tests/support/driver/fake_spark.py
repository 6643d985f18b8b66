"""Streaming queries without Spark: a session, writers that start queries, and the JVM's objects behind them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StructField

from airflow_adaptive.job.queries.job_queries import SHUFFLE_PARTITIONS


class Maybe:
    """Scala's `Option`."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def isDefined(self) -> bool:
        return self._value is not None

    def get(self) -> Any:
        return self._value


class Throwable:
    """What ended a query."""

    def getClass(self) -> Any:
        return SimpleNamespace(getName=lambda: "org.apache.spark.SparkArithmeticException")

    def getMessage(self) -> str:
        return "[DIVIDE_BY_ZERO] no"

    def getCause(self) -> None:
        return None


class Pool:
    """`org.apache.spark.scheduler.Pool`, and the empty queue of its stages."""

    def __init__(self, name: str = "", mode: str = "", floor: int = 0, weight: int = 1) -> None:
        self.name = name
        self.settings = (mode, floor, weight)
        self.busy = False
        self.pools: list[Pool] = []
        self.by_name: dict[str, Pool] = {}

    def weight(self) -> int:
        return self.settings[2]

    def addSchedulable(self, pool: Pool) -> None:
        self.pools.append(pool)
        self.by_name[pool.name] = pool

    def schedulableQueue(self) -> Pool:
        return self

    def isEmpty(self) -> bool:
        return not self.busy

    def remove(self, pool: Pool) -> None:
        self.pools.remove(pool)


class HadoopPath:
    """In place of `org.apache.hadoop.fs.Path`, its file system, and the status of a file, over files in memory."""

    working = "file:/work/driver-1"
    """Working folder of the default file system."""

    def __init__(self, spark: Spark, *parts: Any) -> None:
        text = "/".join(map(str, parts))
        if not text:
            raise IllegalArgumentException("Can not create a Path from an empty string")
        scheme, _, path = text.rpartition(":")
        root = scheme or self.working.partition(":")[0]
        folder = path if path.startswith("/") else f"{self.working.partition(':')[2]}/{path}"
        self.uri = f"{root}:{folder}".replace("file://", "file:")
        self._spark = spark

    def __str__(self) -> str:
        return self.uri

    def getFileSystem(self, _: object) -> HadoopPath:
        return self

    def makeQualified(self, path: HadoopPath) -> HadoopPath:
        return path

    def toString(self) -> str:
        return self.uri

    def exists(self, folder: HadoopPath) -> bool:
        return any(file.startswith(f"{folder}/") for file in self._stored)

    def listStatus(self, folder: HadoopPath) -> list[HadoopPath]:
        inside = {
            file.removeprefix(f"{folder}/").partition("/")[0] for file in self._stored if file.startswith(f"{folder}/")
        }
        return [HadoopPath(self._spark, folder, name) for name in sorted(inside)]

    def open(self, file: HadoopPath) -> Any:
        return SimpleNamespace(readAllBytes=lambda: self._stored[str(file)], close=lambda: None)

    def getPath(self) -> HadoopPath:
        return self

    def getName(self) -> str:
        return self.uri.rpartition("/")[2]

    def getLen(self) -> int:
        return len(self._stored[self.uri])

    def isFile(self) -> bool:
        return self.uri in self._stored

    def isDirectory(self) -> bool:
        return not self.isFile()

    @property
    def _stored(self) -> dict[str, bytes]:
        return {HadoopPath(self._spark, file).uri: content for file, content in self._spark.files.items()}


class Spark:
    """A session as far as queries use it, and its context.

    Attributes:
        files: content of the files of the storage, by their URIs.
    """

    def __init__(self) -> None:
        self.version = "4.3.0"
        self.conf = self
        self.streams = self
        self.sparkContext = self
        self._jsc = self
        self.files: dict[str, bytes] = {}
        self.settings: dict[str, str] = {}
        self.properties = {"user.dir": "/work/driver-1", "java.io.tmpdir": "/tmp"}
        self.local: dict[str, str] = {}
        self.queries: list[Query] = []
        self.cancellations = 0
        self.root = Pool()
        scheduling = {
            "SchedulingMode": SimpleNamespace(FAIR=lambda: "FAIR"),
            "Pool": Pool,
        }
        self._jvm = SimpleNamespace(
            **{f"org.apache.spark.scheduler.{name}": value for name, value in scheduling.items()},
            **{"org.apache.hadoop.fs.Path": lambda *parts: HadoopPath(self, *parts)},
            **{"scala.jdk.javaapi.CollectionConverters": SimpleNamespace(asJava=list)},
            **{"java.lang.System": SimpleNamespace(getProperty=self.properties.get)},
        )
        self._jsparkSession = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: None))

    def get(self, name: str, default: str | None) -> str | None:
        return self.settings.get(name, default)

    def getConf(self) -> Spark:
        return self

    @property
    def active(self) -> list[Query]:
        return [query for query in self.queries if query.isActive]

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def cancelAllJobs(self) -> None:
        self.cancellations += 1

    def setLocalProperty(self, name: str, value: str) -> None:
        self.local[name] = value

    def sc(self) -> Spark:
        return self

    def taskScheduler(self) -> Any:
        return SimpleNamespace(rootPool=lambda: self.root)


class Query(StreamingQuery):
    """One run; `over` or `fails` end it."""

    def __init__(self, spark: Spark, name: str, checkpoint: str = "") -> None:
        self.query_name = name
        self.checkpoint = checkpoint
        self.partitions = spark.settings.get(SHUFFLE_PARTITIONS)
        self.pool = spark.local.get("spark.scheduler.pool")
        self.running = True
        self.stopped = False
        self.error: Throwable | None = None
        self.progress: list[Any] = []
        self.message = "Waiting for data to arrive"
        self.number = len(spark.queries)
        spark.queries.append(self)
        once = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: "OneTimeTrigger"))
        without_sources = SimpleNamespace(collectLeaves=list)
        execution = SimpleNamespace(
            trigger=lambda: once,
            analyzedPlan=lambda: without_sources,
            watermarkTracker=lambda: None,
            resolvedCheckpointRoot=lambda: self.checkpoint,
            sink=lambda: SimpleNamespace(toString=lambda: "ForeachBatchSink"),
        )
        self._jsq = SimpleNamespace(
            exception=lambda: Maybe(self.error), stop=self.stop, streamingQuery=lambda: execution
        )

    @property
    def name(self) -> str:
        return self.query_name

    @property
    def runId(self) -> str:
        return f"run {self.number}"

    @property
    def isActive(self) -> bool:
        return self.running

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": False, "message": self.message}

    @property
    def lastProgress(self) -> Any:
        return self.progress[-1] if self.progress else None

    @property
    def recentProgress(self) -> list[Any]:
        return self.progress

    def stop(self) -> None:
        self.running, self.stopped = False, True

    def over(self) -> None:
        self.running = False

    def fails(self) -> None:
        self.running, self.error = False, Throwable()


class _Field:
    """`java.lang.reflect.Field` of a writer."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def setAccessible(self, _: bool) -> None:
        pass

    def get(self, _: Any) -> Any:
        return self._value


class Stream(DataStreamWriter):
    """A writer that a script has given a name, or none; with an error it can't be started."""

    def __init__(
        self,
        name: str | None = None,
        spark: Spark | None = None,
        *,
        error: Exception | None = None,
        columns: Sequence[str] = ("id",),
    ) -> None:
        self.session = spark
        self._spark: Any = spark
        self._df: Any = SimpleNamespace(schema=[StructField(column, LongType()) for column in columns])
        self.error = error
        self.given: dict[str, Any] = {} if name is None else {"queryName": name}

    @property
    def _jwrite(self) -> Any:
        read = SimpleNamespace(
            getClass=lambda: SimpleNamespace(getSimpleName=lambda: "StreamingRelation"), children=list
        )
        once = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: "OneTimeTrigger"))
        values = {"extraOptions": SimpleNamespace(get=lambda name: Maybe(self.given.get(name))), "trigger": once}
        values["ds"] = SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: read))
        return SimpleNamespace(getClass=lambda: SimpleNamespace(getDeclaredField=lambda name: _Field(values[name])))

    def queryName(self, name: str) -> Stream:
        self.given["queryName"] = name
        return self

    def option(self, key: str, value: Any) -> Stream:
        self.given[key] = value
        return self

    def start(self, *_: Any, **__: Any) -> Query:
        if self.error is not None:
            raise self.error
        assert self.session is not None
        return Query(self.session, self.given["queryName"], self.given["checkpointLocation"])
