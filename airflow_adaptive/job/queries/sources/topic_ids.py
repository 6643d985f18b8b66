"""The ids of the topics that a query has read, in a file in its checkpoint.

Theory: a topic that was deleted and created again has its old name, a new id, and offsets that begin at 0. The offsets in the checkpoint
then refer to other records. Spark notices this only while the new topic has fewer records than the query has read; afterwards, the query
would leave out the first records of the new topic.

The module uses the JVM: `CheckpointFileManager` of `org.apache.spark.sql.execution.streaming.checkpointing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.hadoop_directory import FILE_MANAGER
from airflow_adaptive.job.jvm import java_class

FILE: Final = "kafka-topics.json"

NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Id of each topic of brokers that have no ids of topics (`org.apache.kafka.common.Uuid.ZERO_UUID`), which are older than 2.8."""

MAX_FILE_BYTES: Final = 10_000_000


class TopicRecreatedError(Exception):
    """A topic was deleted and created again. A restart cannot help."""


class TopicIds:
    """The known ids of the topics of one query."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        """Refer to a checkpoint; nothing is read yet.

        Args:
            spark: session whose Hadoop configuration has the credentials.
            checkpoint: URI of the checkpoint.
        """
        self._path = java_class(spark, "org.apache.hadoop.fs.Path")(f"{checkpoint}/{FILE}")
        self._managers = java_class(spark, FILE_MANAGER)
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()

    def read(self) -> dict[str, str]:
        """Return the known id of each topic. Raises the exceptions of Hadoop."""
        files = self._path.getFileSystem(self._conf)
        if not files.exists(self._path):
            return {}
        stream = files.open(self._path)
        try:
            return _decode(bytes(stream.readNBytes(MAX_FILE_BYTES)))
        finally:
            stream.close()

    def write(self, ids: Mapping[str, str]) -> None:
        """Replace the known ids, as Spark writes the files of a checkpoint. Raises the exceptions of Hadoop."""
        stream = self._managers.create(self._path.getParent(), self._conf).createAtomic(self._path, True)
        try:
            stream.write(bytearray(json.dumps(ids, sort_keys=True).encode()))
        except BaseException:
            stream.cancel()
            raise
        stream.close()

    def __str__(self) -> str:
        return str(self._path.toString())


class TopicGuard:
    """Compares the topics of one source with the topics that its query has read."""

    def __init__(self, ids: Any, *, fail_on_data_loss: bool, warn: Callable[[str], None]) -> None:
        """Know no topic yet.

        Args:
            ids: the known ids of the query, as `TopicIds`.
            fail_on_data_loss: option `failOnDataLoss` of the source.
            warn: called if a topic was created again and the source accepts a loss of data.
        """
        self._ids = ids
        self._fail_on_data_loss = fail_on_data_loss
        self._warn = warn
        self._known: dict[str, str] | None = None

    def known(self) -> Mapping[str, str]:
        """Return the known id of each topic. Raises the exceptions of Hadoop."""
        if self._known is None:
            self._known = self._ids.read()
        return self._known

    def require_same(self, found: Mapping[str, str]) -> None:
        """Compare the topics with the known topics, and remember new topics.

        Raises:
            TopicRecreatedError: a topic has another id than before.
            Py4JError: the file cannot be read or written.
        """
        known = self.known()
        recreated = sorted(topic for topic, id_ in found.items() if known.get(topic, id_) != id_)
        if recreated:
            text = f"{_topics(recreated)} deleted and created again since the query read it, so the offsets in the checkpoint do not apply"
            if self._fail_on_data_loss:
                raise TopicRecreatedError(f"{text}. {self._remedy(known, recreated)}")
            self._warn(f"{text}. The query continues, because failOnDataLoss is false; it may leave out records")
        if any(known.get(topic) != id_ for topic, id_ in found.items()):
            # Another source of the query may have added its topics since.
            self._known = {**self._ids.read(), **found}
            self._ids.write(self._known)

    def _remedy(self, known: Mapping[str, str], recreated: list[str]) -> str:
        ids = ", ".join(f"{topic} had the id {known[topic]}" for topic in recreated)
        return (
            "To read the new topic from its beginning, delete the checkpoint of the query. To continue with the old offsets, delete "
            f"{self._ids} ({ids})"
        )


def _decode(text: bytes) -> dict[str, str]:
    """Return the ids in a file. A file that is not readable contains no known topic."""
    try:
        return {str(topic): str(id_) for topic, id_ in json.loads(text).items() if id_ != NO_ID}
    except (AttributeError, ValueError):
        return {}


def _topics(names: list[str]) -> str:
    return f"topic {names[0]!r} was" if len(names) == 1 else f"topics {', '.join(map(repr, names))} were"
