"""The ids of the topics that each source of a query has read, in a file in its checkpoint.

Theory: a topic that was deleted and created again has its old name, a new id, and offsets that begin at 0. The offsets in the checkpoint
then refer to other records, as they do if the source reads another cluster. Spark notices this only while the new topic has fewer records than
the query has read; afterwards, the query would leave out the first records of the new topic. The offsets belong to a source, which Spark numbers:
two sources of a query may read topics of one name on two clusters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.hadoop_directory import HadoopFiles

FILE: Final = "kafka-topics.json"

NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Id of each topic of brokers that have no ids of topics (`org.apache.kafka.common.Uuid.ZERO_UUID`), which are older than 2.8."""

MAX_FILE_BYTES: Final = 10_000_000


class TopicRecreatedError(Exception):
    """A topic was deleted and created again, or is on another cluster. A restart cannot help."""


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """The topics that a source has read.

    Attributes:
        cluster: id of the cluster.
        ids: id of each topic.
    """

    cluster: str
    ids: Mapping[str, str]


class TopicIds:
    """The known topics of one query."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._files = HadoopFiles(spark)
        self._path = self._files.path(f"{checkpoint}/{FILE}")

    def read(self) -> dict[int, KnownTopics]:
        """Return the known topics of each source, by its number. Raises the exceptions of Hadoop."""
        content = self._files.read(self._path, MAX_FILE_BYTES)
        return {} if content is None else decode_topics(content)

    def write(self, known: Mapping[int, KnownTopics]) -> None:
        """Replace the known topics. Raises the exceptions of Hadoop."""
        content = {str(number): {"cluster": it.cluster, "topics": dict(it.ids)} for number, it in known.items()}
        self._files.replace(self._path, json.dumps(content, sort_keys=True).encode())

    def __str__(self) -> str:
        return str(self._path.toString())


class TopicGuard:
    """Compares the topics of one source with the topics that the source has read."""

    def __init__(self, ids: Any, source: int, *, fail_on_data_loss: bool, warn: Callable[[str], None]) -> None:
        """Guard the source with this number in the query; `fail_on_data_loss` is its option. `ids` are `TopicIds`."""
        self._ids = ids
        self._source = source
        self._fail_on_data_loss = fail_on_data_loss
        self._warn = warn
        self._known: KnownTopics | None = None
        self._is_read = self._is_warned = False

    def known(self) -> Mapping[str, str]:
        """Return the known id of each topic. Raises the exceptions of Hadoop."""
        if not self._is_read:
            self._known = self._ids.read().get(self._source)
            self._is_read = True
        return {} if self._known is None else self._known.ids

    def require_same(self, cluster: str | None, found: Mapping[str, str]) -> None:
        """Compare the ids of the topics with the known ones, and remember new topics. Without the id of the cluster, nothing can be compared.

        Raises:
            TopicRecreatedError: a topic has another id than before, or is on another cluster.
            Py4JError: the file cannot be read or written.
        """
        if cluster is None:
            if found and not self._is_warned:
                self._is_warned = True
                self._warn(
                    f"the brokers report no id of their cluster, so the driver does not notice if {_topics(sorted(found))} created again"
                )
            return
        known = self.known()
        is_same_cluster = self._known is None or self._known.cluster == cluster
        replaced = sorted(
            topic for topic, id_ in found.items() if topic in known and (known[topic] != id_ or not is_same_cluster)
        )
        if replaced:
            self._refuse(cluster, known, replaced)
        if not is_same_cluster or any(known.get(topic) != id_ for topic, id_ in found.items()):
            self._known = KnownTopics(cluster, {**known, **found} if is_same_cluster else dict(found))
            # Another source of the query may have added its topics since.
            self._ids.write({**self._ids.read(), self._source: self._known})

    def _refuse(self, cluster: str, known: Mapping[str, str], replaced: list[str]) -> None:
        """Raise `TopicRecreatedError`, or warn if the source accepts a loss of data."""
        before = cluster if self._known is None else self._known.cluster
        if before == cluster:
            text = f"{_topics(replaced)} deleted and created again since the query read it"
        else:
            text = f"{_topics(replaced)} read from the Kafka cluster {before} before, and the source now reads the cluster {cluster}"
        text = f"{text}, so the offsets in the checkpoint do not apply"
        if self._fail_on_data_loss:
            raise TopicRecreatedError(f"{text}. {self._remedy(known, replaced)}")
        self._warn(f"{text}. The query continues, because failOnDataLoss is false; it may leave out records")

    def _remedy(self, known: Mapping[str, str], replaced: list[str]) -> str:
        ids = ", ".join(f"{topic} had the id {known[topic]}" for topic in replaced)
        return (
            "To read the new topic from its beginning, delete the checkpoint of the query. To continue with the old offsets, delete "
            f"{self._ids} ({ids})"
        )


def decode_topics(text: bytes) -> dict[int, KnownTopics]:
    """Return the topics in a file. What is not readable contains no known topic."""
    try:
        return {
            int(number): KnownTopics(str(it["cluster"]), {str(topic): str(id_) for topic, id_ in it["topics"].items()})
            for number, it in json.loads(text).items()
        }
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}


def _topics(names: list[str]) -> str:
    return f"topic {names[0]!r} was" if len(names) == 1 else f"topics {', '.join(map(repr, names))} were"
