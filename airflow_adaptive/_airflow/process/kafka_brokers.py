"""The brokers of a Kafka cluster, through an Airflow connection of type `kafka`.

This module needs the extra `kafka`: Airflow's Kafka provider reads the connection, and `confluent-kafka` reads the offsets.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_adaptive._airflow.internals import AirflowException, AirflowNotFoundException, mask_secret
from airflow_adaptive._core.ports import Clock, PortError, SourceUnreachableError
from airflow_adaptive._core.protocol.failures import redact
from airflow_adaptive._core.protocol.secret_names import is_secret
from airflow_adaptive._core.protocol.sources import KafkaSource

REQUEST_TIMEOUT_S: Final = 10.0
"""Limit for each of the requests of a read, including the search for the broker that leads a partition."""

MAX_AGE_S: Final = 60.0
"""Time after which the offsets of a topic that no job reads are forgotten, and after which a connection that failed is read again."""

Ends = Mapping[int, int]
"""End offset of each partition of a topic, by the number of the partition."""

TopicEnds = Mapping[str, Ends]

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that a pattern never matches (`org.apache.kafka.common.internals.Topic`)."""

SIMPLE_PATTERN: Final = re.compile(
    r"(?:(?:[\w-]|\\[.dw-]|\.|\[\^?[\w.-]+\])(?:[*+?]|\{\d{1,2}(?:,\d{1,2})?\})?|\(\?:|[|()^$])*", re.ASCII
)
"""Patterns of topics that mean the same in Java and in Python: without repeated groups, whose evaluation may take for ever."""

MAX_REPETITIONS: Final = 3
"""Greatest number of `*`, `+` and `{1,2}` in a pattern: the time to evaluate it grows with this power of the length of a name."""


class KafkaAdminHook(KafkaBaseHook):
    """Reads a connection as Airflow's Kafka provider does: the extra field contains the configuration of `confluent-kafka`."""

    def __init__(self, conn_id: str) -> None:
        super().__init__(conn_id)

    def _get_client(self, config: dict[str, Any]) -> AdminClient:
        """Return the client, without a request. `librdkafka` logs to the standard error output; the loops report errors instead."""
        for name, value in config.items():
            if isinstance(value, str) and is_secret(name, value):
                mask_secret(value)
        return AdminClient({"log_level": 0, **config})

    def client(self) -> AdminClient:
        """Return a new client; blocks on Airflow's connections.

        Raises:
            SourceUnreachableError: the connection does not exist, or is not valid. The message contains no value of the connection.
        """
        conn_id = self.kafka_config_id
        try:
            return cast(AdminClient, self.get_conn)
        except AirflowNotFoundException as error:
            raise SourceUnreachableError(
                f"connection {conn_id!r} is not defined: add it, for example `airflow connections add {conn_id} --conn-type kafka "
                '--conn-extra \'{"bootstrap.servers": "broker:9092"}\'`'
            ) from error
        except KafkaException as error:
            raise SourceUnreachableError(f"connection {conn_id!r}: {_text(error)}") from error
        except (AirflowException, TypeError, ValueError) as error:
            raise SourceUnreachableError(f"connection {conn_id!r}: {redact(str(error))}") from error


@dataclass(frozen=True, slots=True)
class TopicsRequest:
    """The topics that a job needs of one source."""

    source: KafkaSource
    topics: frozenset[str]


class KafkaBrokers:
    """The brokers of one connection, which all loops of a process share (`_core.ports.SourceOffsets`).

    At most one read is in progress. The next read covers all sources that the loops have requested in the meantime, so that the number of
    requests does not grow with the number of jobs. The loops share its result, also if it is an error. No call blocks the event loop.
    """

    def __init__(
        self, connect: Callable[[], AdminClient], read_connection: Callable[..., Awaitable[Any]], clock: Clock
    ) -> None:
        """Connect with the first read.

        Args:
            connect: returns a client; blocks on Airflow's connections. Raises `SourceUnreachableError`.
            read_connection: runs a blocking function outside of the event loop (`StoreAccess.read_connection`).
            clock: measures durations.
        """
        self._connect = connect
        self._read_connection = read_connection
        self._clock = clock
        self._client: list[AdminClient] = []
        """The client, if there is one."""
        self._connected_s = 0.0
        self._wanted: set[TopicsRequest] = set()
        self._found: dict[TopicsRequest, tuple[float, TopicEnds | SourceUnreachableError]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def end_offsets(self, source: KafkaSource, topics: frozenset[str]) -> TopicEnds:
        """Return the end offsets; see the port."""
        requested_s, request = self._clock.elapsed, TopicsRequest(source, topics)
        while request not in self._found or self._found[request][0] < requested_s:
            self._wanted.add(request)
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_wanted())
            await asyncio.shield(self._reading)  # A loop that ends does not cancel the read of the others.
        found = self._found[request][1]
        if isinstance(found, SourceUnreachableError):
            raise found
        return found

    async def close(self) -> None:
        """Disconnect. A request in progress ends with an error."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        self._disconnect()

    def _disconnect(self) -> None:
        """Drop the client in a thread, because its end waits for its requests."""
        if not self._client:
            return
        client, self._client = self._client, []
        threading.Thread(target=client.clear, name="kafka-disconnect", daemon=True).start()

    async def _read_wanted(self) -> None:
        """Read the end offsets of all sources that were requested since the last read."""
        wanted, self._wanted = list(self._wanted), set()
        found: list[TopicEnds | SourceUnreachableError]
        try:
            await self._require_client()
            found = await self._read(wanted)
        except SourceUnreachableError as error:
            found = [error] * len(wanted)
        except Exception as error:  # noqa: BLE001  A callback of the connection may raise anything, and all loops wait for the read.
            found = [SourceUnreachableError(f"the brokers cannot be read: {redact(str(error))}")] * len(wanted)
        now_s = self._clock.elapsed
        self._found = {request: it for request, it in self._found.items() if now_s - it[0] < MAX_AGE_S}
        self._found |= {request: (now_s, ends) for request, ends in zip(wanted, found, strict=True)}
        if all(isinstance(it, SourceUnreachableError) for it in found) and now_s - self._connected_s > MAX_AGE_S:
            self._disconnect()  # The connection may contain other servers or credentials by now.

    async def _require_client(self) -> None:
        if not self._client:
            try:
                self._client = [await self._read_connection(self._connect)]
            except SourceUnreachableError:
                raise
            except PortError as error:
                raise SourceUnreachableError(str(error)) from error
            self._connected_s = self._clock.elapsed

    async def _read(self, wanted: Sequence[TopicsRequest]) -> list[TopicEnds | SourceUnreachableError]:
        """Return the end offsets of each source. A source fails alone."""
        await asyncio.to_thread(
            self._client[0].poll, 0
        )  # serves the callbacks of the connection, which may fetch a token
        try:
            cluster = await asyncio.wrap_future(self._client[0].describe_cluster(request_timeout=REQUEST_TIMEOUT_S))
            names = await self._all_topics() if any(it.source.pattern is not None for it in wanted) else ()
        except KafkaException as error:
            raise SourceUnreachableError(f"the brokers cannot be read: {_text(error)}") from None
        resolved = [await asyncio.to_thread(_topics_of, request, str(cluster.cluster_id), names) for request in wanted]
        keys = {
            (name, request.source.committed)
            for request, topics in zip(wanted, resolved, strict=True)
            if not isinstance(topics, SourceUnreachableError)
            for name in topics
        }
        ends = await self._ends(sorted(keys))
        return [
            topics if isinstance(topics, SourceUnreachableError) else _assembled(request, topics, ends)
            for request, topics in zip(wanted, resolved, strict=True)
        ]

    async def _all_topics(self) -> list[str]:
        """Return the topics that the user of the connection can see, as a pattern matches them in Spark."""
        metadata = await asyncio.to_thread(self._client[0].list_topics, timeout=REQUEST_TIMEOUT_S)
        return [name for name in metadata.topics if name not in INTERNAL_TOPICS]

    async def _ends(self, keys: Sequence[tuple[str, bool]]) -> dict[tuple[str, bool], Ends | SourceUnreachableError]:
        """Return the end offsets of each topic, of committed records or of all records. A topic fails alone."""
        if not keys:
            return {}
        names = TopicCollection(sorted({name for name, _ in keys}))
        described = self._client[0].describe_topics(names, request_timeout=REQUEST_TIMEOUT_S)
        found = await asyncio.gather(*(self._ends_of(described[name], name, committed) for name, committed in keys))
        return dict(zip(keys, found, strict=True))

    async def _ends_of(self, described: Any, topic: str, committed: bool) -> Ends | SourceUnreachableError:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        try:
            description = await asyncio.wrap_future(described)
            specs = {TopicPartition(topic, it.id): OffsetSpec.latest() for it in description.partitions}
            offsets = self._client[0].list_offsets(specs, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
            ends = await asyncio.gather(*map(asyncio.wrap_future, offsets.values()))
        except KafkaException as error:
            return SourceUnreachableError(f"the end offsets of topic {topic!r} cannot be read: {_text(error)}")
        return {partition.partition: end.offset for partition, end in zip(offsets, ends, strict=True)}


def _topics_of(request: TopicsRequest, cluster: str, names: Sequence[str]) -> frozenset[str] | SourceUnreachableError:
    """Return the topics that the query reads: those that it has read, and those of the cluster that its pattern matches."""
    source, topics = request.source, request.topics
    if source.cluster != cluster:
        return SourceUnreachableError(
            f"the source reads the Kafka cluster {source.cluster}, and the connection leads to the cluster {cluster}"
        )
    if source.pattern is None:
        return topics
    pattern = _compiled(source.pattern)
    if pattern is None or not all(map(pattern.fullmatch, topics)):
        return SourceUnreachableError(
            f"new topics of the pattern {source.pattern!r} are unknown, because only patterns without repeated groups are evaluated outside of Spark"
        )
    return topics | {name for name in names if pattern.fullmatch(name)}


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern of Java that means the same in Python and matches fast, or None."""
    is_simple = SIMPLE_PATTERN.fullmatch(pattern) and sum(map(pattern.count, "*+,")) <= MAX_REPETITIONS
    try:
        return re.compile(pattern, re.ASCII) if is_simple else None
    except re.error:
        return None


def _assembled(
    request: TopicsRequest, topics: frozenset[str], ends: Mapping[tuple[str, bool], Ends | SourceUnreachableError]
) -> TopicEnds | SourceUnreachableError:
    """Return the end offsets of all topics of a source, or the first error."""
    found: dict[str, Ends] = {}
    for name in sorted(topics):
        of_topic = ends[name, request.source.committed]
        if isinstance(of_topic, SourceUnreachableError):
            return of_topic
        found[name] = of_topic
    return found


def _text(error: KafkaException) -> str:
    """Return the text of an error, without secrets."""
    return redact(str(error.args[0].str() if error.args else error))
