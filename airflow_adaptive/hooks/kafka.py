"""The brokers of a Kafka cluster, through an Airflow connection of type `kafka`.

This module needs the extra `kafka`: Airflow's Kafka provider reads the connection, and `confluent-kafka` reads the offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from airflow.sdk.log import mask_secret
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_adaptive.ports import Clock, SourceUnreachableError, is_secret, redact
from airflow_adaptive.ports.errors import PortError

Result = TypeVar("Result")

REQUEST_TIMEOUT_S: Final = 10.0
"""Limit for each of the two requests of a read, including the search for the broker that leads a partition."""

MAX_AGE_S: Final = 60.0
"""Time after which the offsets of a topic that no job reads are forgotten, and after which a connection that failed is read again."""

Ends = Mapping[int, int]
"""End offset of each partition of a topic, by the number of the partition."""


class KafkaAdminHook(KafkaBaseHook):
    """Reads a connection as Airflow's Kafka provider does: the extra field contains the configuration of `confluent-kafka`."""

    def __init__(self, conn_id: str) -> None:
        """Read nothing yet."""
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


class KafkaBrokers:
    """The brokers of one connection, which all loops of a process share (`ports.SourceOffsets`).

    At most one read is in progress. The next read covers all topics that the loops have requested in the meantime, so that the number of
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
        self._client: AdminClient | None = None
        self._connected_s = 0.0
        self._wanted: set[str] = set()
        self._found: dict[str, tuple[float, Ends | SourceUnreachableError]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def end_offsets(self, topics: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the end offsets; see the port."""
        requested_s = self._clock.elapsed
        while any(not self._is_newer(topic, requested_s) for topic in topics):
            self._wanted.update(topics)
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_wanted())
            await asyncio.shield(self._reading)  # A loop that ends does not cancel the read of the others.
        return {topic: self._ends(topic) for topic in topics}

    async def close(self) -> None:
        """Disconnect. A request in progress ends with an error."""
        if self._reading is not None:
            self._reading.cancel()
        self._client = None

    def _is_newer(self, topic: str, requested_s: float) -> bool:
        return topic in self._found and self._found[topic][0] >= requested_s

    def _ends(self, topic: str) -> Ends:
        found = self._found[topic][1]
        if isinstance(found, SourceUnreachableError):
            raise found
        return found

    async def _read_wanted(self) -> None:
        """Read the end offsets of all topics that were requested since the last read."""
        wanted, self._wanted = sorted(self._wanted), set()
        try:
            found = await self._read(await self._connected(), wanted)
        except SourceUnreachableError as error:
            found = [error] * len(wanted)
        except Exception as error:  # noqa: BLE001  A callback of the connection may raise anything, and all loops wait for the read.
            found = [SourceUnreachableError(f"the brokers cannot be read: {redact(str(error))}")] * len(wanted)
        now_s = self._clock.elapsed
        self._found = {topic: it for topic, it in self._found.items() if now_s - it[0] < MAX_AGE_S}
        self._found |= {topic: (now_s, ends) for topic, ends in zip(wanted, found, strict=True)}
        if all(isinstance(it, SourceUnreachableError) for it in found) and now_s - self._connected_s > MAX_AGE_S:
            self._client = None  # The connection may contain other servers or credentials by now.

    async def _read(self, client: AdminClient, topics: Sequence[str]) -> list[Ends | SourceUnreachableError]:
        """Return the end offsets of each topic. A topic fails alone."""
        await asyncio.to_thread(client.poll, 0)  # serves the callbacks of the connection, which may fetch a token
        described = client.describe_topics(TopicCollection(list(topics)), request_timeout=REQUEST_TIMEOUT_S)
        return await asyncio.gather(*(self._ends_of(client, topic, described[topic]) for topic in topics))

    async def _connected(self) -> AdminClient:
        if self._client is None:
            try:
                self._client = await self._read_connection(self._connect)
            except SourceUnreachableError:
                raise
            except PortError as error:
                raise SourceUnreachableError(str(error)) from error
            self._connected_s = self._clock.elapsed
        return self._client

    async def _ends_of(self, client: AdminClient, topic: str, described: Any) -> Ends | SourceUnreachableError:
        try:
            description = await asyncio.wrap_future(described)
            specs = {TopicPartition(topic, it.id): OffsetSpec.latest() for it in description.partitions}
            offsets = client.list_offsets(specs, request_timeout=REQUEST_TIMEOUT_S)
            ends = await asyncio.gather(*map(asyncio.wrap_future, offsets.values()))
        except KafkaException as error:
            return SourceUnreachableError(f"the end offsets of topic {topic!r} cannot be read: {_text(error)}")
        return {partition.partition: end.offset for partition, end in zip(offsets, ends, strict=True)}


def _text(error: KafkaException) -> str:
    """Return the text of an error, without secrets."""
    return redact(str(error.args[0].str() if error.args else error))
