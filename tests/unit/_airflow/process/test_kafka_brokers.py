"""The brokers of a connection of type `kafka`. The client is a fake; the tests on real brokers use the real one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk._shared.secrets_masker import redact
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from airflow_adaptive._airflow.process.kafka_brokers import MAX_AGE_S, KafkaAdminHook, KafkaBrokers
from airflow_adaptive._core.ports import SourceUnreachableError, StoreUnavailableError
from airflow_adaptive._core.protocol.sources import KafkaSource
from airflow_adaptive.local.waiting import wait_until

Define = Callable[..., KafkaAdminHook]


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Define:
    """Define the connection `kafka_test` by its extra fields."""

    def define(**extra: object) -> KafkaAdminHook:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", json.dumps({"conn_type": "kafka", "extra": extra}))
        return KafkaAdminHook("kafka_test")

    return define


SOURCE = KafkaSource(cluster="x")


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.elapsed = 0.0


class Client:
    """A client of `confluent_kafka` whose answers the test gives."""

    cluster = "x"

    def __init__(self, **ends: list[int]) -> None:
        self.ends = ends
        self.requests: list[list[str]] = []
        self.committed: dict[str, list[int]] = {}
        self.waiting: list[Future[Any]] = []
        self.is_waiting = False
        self.polls = 0
        self.begun = asyncio.Event()

    def poll(self, timeout: float) -> int:
        assert timeout == 0
        self.polls += 1
        return 0

    def describe_cluster(self, request_timeout: float) -> Future[Any]:
        assert request_timeout > 0
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(cluster_id=self.cluster))
        return future

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        return SimpleNamespace(topics=dict.fromkeys([*self.ends, "__consumer_offsets"]))

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout > 0
        names = list(topics.topic_names)
        self.requests.append(names)
        return {name: self._described(name) for name in names}

    def _described(self, name: str) -> Future[Any]:
        future: Future[Any] = Future()
        if name not in self.ends:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        elif self.is_waiting:
            self.waiting.append(future)
            self.begun.set()
        else:
            future.set_result(self.partitions(name))
        return future

    def partitions(self, name: str) -> Any:
        return SimpleNamespace(partitions=[SimpleNamespace(id=number) for number in range(len(self.ends[name]))])

    def list_offsets(self, specs: Any, isolation_level: Any, request_timeout: float) -> dict[Any, Future[Any]]:
        assert request_timeout > 0
        is_committed = isolation_level == IsolationLevel.READ_COMMITTED
        ends = {**self.ends, **(self.committed if is_committed else {})}
        found: dict[Any, Future[Any]] = {}
        for partition in specs:
            found[partition] = Future()
            found[partition].set_result(SimpleNamespace(offset=ends[partition.topic][partition.partition]))
        return found


class Connected:
    """Brokers over clients of the test."""

    def __init__(self, *clients: Client | Exception) -> None:
        self.clock = Clock()
        self.left = list(clients)
        self.brokers = KafkaBrokers(self.connect, self.read_connection, self.clock)  # type: ignore[arg-type]

    def connect(self) -> Any:
        client = self.left.pop(0)
        if isinstance(client, Exception):
            raise client
        return client

    async def read_connection(self, work: Callable[[], Any]) -> Any:
        return work()

    async def read(self, *topics: str, source: KafkaSource = SOURCE) -> Any:
        self.clock.elapsed += 1
        return await self.brokers.end_offsets(source, frozenset(topics))


@pytest.mark.asyncio
async def test_end_offsets_of_all_partitions_are_read() -> None:
    connected = Connected(client := Client(a=[3, 0], b=[7]))
    assert await connected.read("a", "b") == {"a": {0: 3, 1: 0}, "b": {0: 7}}
    client.ends["a"] = [4, 0, 1]
    assert await connected.read("a") == {"a": {0: 4, 1: 0, 2: 1}}
    assert client.requests == [["a", "b"], ["a"]]


@pytest.mark.asyncio
async def test_one_read_at_a_time_serves_all_jobs() -> None:
    """The brokers hang. A hundred jobs request three topics in the meantime."""
    connected = Connected(client := Client(a=[3], b=[7], c=[1]))
    client.is_waiting = True
    first = asyncio.create_task(connected.read("a"))
    await client.begun.wait()
    others = [asyncio.create_task(connected.read("abc"[number % 3])) for number in range(100)]
    await asyncio.sleep(0.01)
    assert client.requests == [["a"]]
    client.is_waiting = False
    client.waiting[0].set_result(client.partitions("a"))
    assert await first == {"a": {0: 3}}
    await asyncio.gather(*others)
    assert client.requests == [["a"], ["a", "b", "c"]]


@pytest.mark.asyncio
async def test_a_topic_fails_alone() -> None:
    connected = Connected(Client(a=[3]))
    good, bad = asyncio.create_task(connected.read("a")), asyncio.create_task(connected.read("missing"))
    assert await good == {"a": {0: 3}}
    with pytest.raises(SourceUnreachableError, match="the end offsets of topic 'missing' cannot be read: "):
        await bad


@pytest.mark.asyncio
async def test_a_job_that_ends_does_not_cancel_the_read_of_the_others() -> None:
    connected = Connected(client := Client(a=[3], b=[7]))
    client.is_waiting = True
    canceled, following = asyncio.create_task(connected.read("a")), asyncio.create_task(connected.read("b"))
    await client.begun.wait()
    canceled.cancel()
    client.is_waiting = False
    client.waiting[0].set_result(client.partitions("a"))
    client.waiting[1].set_result(client.partitions("b"))
    assert await following == {"b": {0: 7}}
    assert client.requests == [["a", "b"]]


@pytest.mark.asyncio
async def test_a_hundred_jobs_share_a_connection_that_fails() -> None:
    connected = Connected(SourceUnreachableError("no answer"), Client(a=[3]))
    reads = [connected.brokers.end_offsets(SOURCE, frozenset("a")) for _ in range(100)]
    errors = await asyncio.gather(*reads, return_exceptions=True)
    assert {str(error) for error in errors} == {"no answer"}
    assert len(connected.left) == 1


@pytest.mark.asyncio
async def test_connection_is_read_again_when_the_brokers_fail_for_a_minute() -> None:
    connected = Connected(Client(), Client(a=[3]))
    for _ in range(2):
        with pytest.raises(SourceUnreachableError):
            await connected.read("a")
    connected.clock.elapsed += MAX_AGE_S
    with pytest.raises(SourceUnreachableError):
        await connected.read("a")
    assert await connected.read("a") == {"a": {0: 3}}


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [StoreUnavailableError("no answer"), SourceUnreachableError("no answer")])
async def test_connection_that_cannot_be_read_is_read_again(error: Exception) -> None:
    connected = Connected(error, Client(a=[3]))
    with pytest.raises(SourceUnreachableError, match="no answer"):
        await connected.read("a")
    assert await connected.read("a") == {"a": {0: 3}}


def test_missing_connection_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceUnreachableError, match="'no_such' is not defined: .*airflow connections add no_such"):
        KafkaAdminHook("no_such").client()


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"group.id": "a"}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:1", "security.protocol": "quiet"}, "security.protocol"),
        ({"bootstrap.servers": "a:1", "oauth_cb": "a.b"}, "callback"),
    ],
)
def test_invalid_connection_is_an_error(define: Define, extra: dict[str, object], problem: str) -> None:
    with pytest.raises(SourceUnreachableError, match=f"connection 'kafka_test': .*{problem}"):
        define(**extra).client()


def test_credentials_are_masked_in_logs(define: Define) -> None:
    secrets = {"sasl.username": "reader", "sasl.password": "quiet-password", "ssl.key.password": "quiet-passphrase"}
    define(**{"bootstrap.servers": "127.0.0.1:1", "sasl.mechanism": "PLAIN", **secrets}).client()
    assert redact("reader: quiet-password, quiet-passphrase") == "reader: ***, ***"


def test_private_key_is_masked_in_logs_although_its_name_is_not_secret(define: Define) -> None:
    key = "-----BEGIN PRIVATE KEY-----quiet-key-----END PRIVATE KEY-----"
    with pytest.raises(SourceUnreachableError) as raised:
        define(**{"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.key.pem": key}).client()
    assert "quiet-key" not in str(raised.value)
    assert redact(f"the key is {key}") == "the key is ***"


@pytest.mark.asyncio
async def test_callbacks_of_the_connection_are_served_before_each_read() -> None:
    """A connection with OAuth fetches its token in a callback."""
    connected = Connected(client := Client(a=[3]))
    for reads in (1, 2):
        await connected.read("a")
        assert client.polls == reads


@pytest.mark.asyncio
async def test_new_connection_is_kept_for_a_minute_although_it_fails() -> None:
    connected = Connected(Client(), Client(a=[3]))
    connected.clock.elapsed = 10 * MAX_AGE_S
    for _ in range(3):
        with pytest.raises(SourceUnreachableError):
            await connected.read("a")
    assert len(connected.left) == 1


@pytest.mark.asyncio
async def test_callback_of_the_connection_that_fails_is_an_error_without_secrets() -> None:
    class Failing(Client):
        def poll(self, timeout: float) -> int:
            raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, "no token: client_secret=hush"))

    connected = Connected(Failing(), Client(a=[3]))
    for _ in range(2):
        with pytest.raises(SourceUnreachableError, match="no token") as caught:
            await connected.read("a")
        assert "hush" not in str(caught.value)
    connected.clock.elapsed += MAX_AGE_S
    with pytest.raises(SourceUnreachableError):
        await connected.read("a")
    assert await connected.read("a") == {"a": {0: 3}}


@pytest.mark.asyncio
async def test_topics_that_no_job_reads_are_forgotten() -> None:
    connected = Connected(Client(a=[3], b=[7]))
    await connected.read("a")
    connected.clock.elapsed += MAX_AGE_S
    await connected.read("b")
    assert {topic for request in connected.brokers._found for topic in request.topics} == {"b"}


@pytest.mark.asyncio
async def test_errors_of_brokers_contain_no_secrets() -> None:
    class Failing(Client):
        def _described(self, name: str) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(KafkaException(KafkaError(KafkaError._FAIL, "refused: sasl.password=hush")))
            return future

    with pytest.raises(SourceUnreachableError, match="refused: sasl.password=") as caught:
        await Connected(Failing()).read("a")
    assert "hush" not in str(caught.value)


@pytest.mark.asyncio
async def test_open_transactions_count_only_for_sources_that_read_them() -> None:
    client = Client(a=[500])
    client.committed = {"a": [0]}
    connected = Connected(client)
    committed = connected.read("a", source=KafkaSource(cluster="x", committed=True))
    assert list(await asyncio.gather(connected.read("a"), committed)) == [{"a": {0: 500}}, {"a": {0: 0}}]


@pytest.mark.asyncio
async def test_source_of_another_cluster_is_not_read() -> None:
    connected = Connected(client := Client(a=[3]))
    with pytest.raises(SourceUnreachableError, match="reads the Kafka cluster y, and the connection leads to .* x$"):
        await connected.read("a", source=KafkaSource(cluster="y"))
    assert client.requests == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("pat-.*", {"pat-one", "pat-two", "pat-3.x"}),
        (r"pat-[a-z]+", {"pat-one", "pat-two"}),
        (r"pat-(?:one|3\..)|other", {"pat-one", "pat-3.x", "other"}),
        (r"^pat-\w{3}$", {"pat-one", "pat-two"}),
        (r"(pat-one|pat-\d.[^a])", {"pat-one", "pat-3.x"}),
        (".+", {"pat-one", "pat-two", "pat-3.x", "other"}),
    ],
)
async def test_new_topics_of_a_pattern_are_read(pattern: str, found: set[str]) -> None:
    connected = Connected(Client(**{"pat-one": [1], "pat-two": [2], "pat-3.x": [3], "other": [4]}))
    assert (await connected.read("pat-one", source=KafkaSource(cluster="x", pattern=pattern))).keys() == found


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "pattern",
    [
        r"\Qpat\E-.*",
        "(a|b)*pat-one",
        "(a+)+pat-one|pat-one",
        "(?i)PAT-ONE",
        "[a-z&&[^x]]+-one",
        r"\p{Lower}+-one",
        ".*.*.*.*",
        "pat-[z-a]|pat-one",
        "other",
    ],
    ids=str,
)
async def test_new_topics_of_a_pattern_that_is_not_evaluated_are_unknown(pattern: str) -> None:
    """The last pattern does not match a topic that the query reads, so that it has another meaning in Spark."""
    connected = Connected(Client(**{"pat-one": [1]}))
    with pytest.raises(SourceUnreachableError, match="new topics of the pattern .* are unknown"):
        await connected.read("pat-one", source=KafkaSource(cluster="x", pattern=pattern))


@pytest.mark.asyncio
@pytest.mark.parametrize("is_reading", [False, True])
async def test_client_is_dropped_outside_of_the_event_loop(is_reading: bool) -> None:
    """The end of a client waits for its requests."""
    ended_in: list[threading.Thread] = []

    class Ending(Client):
        def __del__(self) -> None:
            ended_in.append(threading.current_thread())

    connected = Connected(Ending(a=[3]))
    await connected.read("a")
    if is_reading:
        client: Any = connected.brokers._client[0]
        client.is_waiting = True
        asyncio.create_task(connected.read("a")).add_done_callback(lambda it: it.cancelled())
        await client.begun.wait()
        del client
    await connected.brokers.close()
    wait_until(lambda: ended_in, 60, "the end of the client")
    assert threading.main_thread() not in ended_in
