"""The topics of a Kafka source, with an Admin client whose answers the tests give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from airflow_adaptive._core.protocol.sources import NO_RETENTION, KafkaSource
from airflow_adaptive.job.queries.sources import kafka_topics
from airflow_adaptive.job.queries.sources.kafka_topics import (
    RETENTION_POLLS,
    Division,
    KafkaSourceError,
    KafkaTopics,
    limit_of,
)
from airflow_adaptive.job.queries.sources.topic_ids import KnownTopics, TopicRecreatedError

ERRORS = "org.apache.kafka.common.errors"
DAY_S = 86_400.0


class Throwable:
    """An exception of Java."""

    _target_id = "o1"
    _gateway_client = None

    def __init__(self, name: str, message: str, cause: Throwable | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> Any:
        return SimpleNamespace(getName=lambda: self.name, getSimpleName=lambda: self.name.rpartition(".")[2])

    def getMessage(self) -> str:
        return self.message

    def getCause(self) -> Throwable | None:
        return self.cause


def error(name: str, message: str = "no") -> Py4JJavaError:
    cause = Throwable(f"{ERRORS}.{name}", message)
    return Py4JJavaError("", Throwable("java.util.concurrent.ExecutionException", "", cause))


def future(value: Any) -> Any:
    def get() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return SimpleNamespace(get=get)


class Options(dict[str, str]):
    def getBoolean(self, name: str, default: bool) -> bool:
        return {"true": True, "false": False}.get(self.get(name, ""), default)


class Brokers:
    """A cluster, and the Admin client and the offset reader of a source on it."""

    def __init__(self) -> None:
        self.cluster: str | Exception | None = "x"
        self.topics: dict[str, str | Exception] = {"a": "1"}
        self.configs: dict[str, Mapping[str, str] | Exception] = {}
        self.ends: dict[str, dict[str, int]] = {"a": {"0": 9}}
        self.first: dict[str, dict[str, int]] = {}
        self.config_requests: list[list[str]] = []

    def admin(self) -> Brokers:
        return self

    def describeCluster(self, _: Any) -> Any:
        return SimpleNamespace(clusterId=lambda: future(self.cluster))

    def describeTopics(self, topics: list[str], _: Any) -> Any:
        unknown = error("UnknownTopicOrPartitionException", "This server does not host this topic-partition.")
        found = {topic: self.topics.get(topic, unknown) for topic in topics}
        return SimpleNamespace(
            topicNameValues=lambda: {name: future(self._described(it)) for name, it in found.items()}
        )

    def _described(self, id_: str | Exception) -> Any:
        return (
            id_
            if isinstance(id_, Exception)
            else SimpleNamespace(topicId=lambda: SimpleNamespace(toString=lambda: id_))
        )

    def describeConfigs(self, topics: list[str]) -> Any:
        self.config_requests.append(topics)
        return SimpleNamespace(values=lambda: {topic: future(self._config(self.configs[topic])) for topic in topics})

    def _config(self, config: Mapping[str, str] | Exception) -> Any:
        if isinstance(config, Exception):
            return config
        return {name: SimpleNamespace(value=lambda value=value: value) for name, value in config.items()}

    def fetchLatestOffsets(self, _: Any) -> Any:
        if all(isinstance(it, str) for it in self.topics.values()) and self.ends.keys() <= self.topics.keys():
            return self.ends
        raise error("UnknownTopicOrPartitionException", "This server does not host this topic-partition.")

    def fetchEarliestOffsets(self) -> Any:
        return self.first


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def known() -> dict[int, KnownTopics]:
    """The file in the checkpoint."""
    return {}


Create = Callable[..., KafkaTopics]


@pytest.fixture
def create(
    monkeypatch: pytest.MonkeyPatch,
    brokers: Brokers,
    warnings: list[str],
    known: dict[int, KnownTopics],
    tmp_path: Path,
) -> Create:
    """Create the topics of a source with these options."""
    classes = {
        "org.apache.kafka.common.TopicCollection": SimpleNamespace(ofTopicNames=list),
        "org.apache.kafka.common.config.ConfigResource": lambda _, topic: topic,
        "org.apache.kafka.common.config.ConfigResource$Type": SimpleNamespace(TOPIC=None),
    }
    limited = lambda: SimpleNamespace(timeoutMs=lambda _: None)  # noqa: E731
    retriable = SimpleNamespace(isInstance=lambda it: "Timeout" in it.name)
    offsets = SimpleNamespace(partitionOffsets=json.dumps)
    monkeypatch.setattr(kafka_topics, "java_class", lambda _, name: classes.get(name, limited))
    monkeypatch.setattr(kafka_topics, "get_java_class", lambda _: retriable)
    monkeypatch.setattr(kafka_topics, "scala_object", lambda _, __: None)
    monkeypatch.setattr(kafka_topics, "spark_object", lambda _, __: offsets)
    file = SimpleNamespace(read=lambda: dict(known), write=known.update)
    monkeypatch.setattr(kafka_topics, "TopicIds", lambda *_: file)

    def create(number: int = 0, **options: str) -> KafkaTopics:
        given = Options(
            {
                "kafka.bootstrap.servers": "user:quiet@one:9092, two:9092",
                **({} if "assign" in options else {"subscribe": "a"}),
            }
        )
        given.update({name.replace("_", "."): value for name, value in options.items()})
        stream = SimpleNamespace(kafkaOffsetReader=lambda: brokers, toString=lambda: "KafkaV2[...]", stop=lambda: None)
        scan = SimpleNamespace(toMicroBatchStream=lambda _: stream)
        table = SimpleNamespace(newScanBuilder=lambda _: SimpleNamespace(build=lambda: scan))
        relation = SimpleNamespace(extraOptions=lambda: given, table=lambda: table)
        spark: Any = None
        return KafkaTopics(spark, number, relation, str(tmp_path), warnings.append)

    return create


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({}, KafkaSource(cluster="x")),
        ({"subscribePattern": "a.*"}, KafkaSource(cluster="x", pattern="a.*")),
        ({"assign": '{"a":[0]}'}, KafkaSource(cluster="x", assigned=True)),
        ({"kafka_isolation_level": "READ_COMMITTED"}, KafkaSource(cluster="x", committed=True)),
        ({"kafka_isolation_level": "read_uncommitted"}, KafkaSource(cluster="x")),
    ],
)
def test_identity_contains_the_cluster_and_what_the_source_reads(
    create: Create, options: dict[str, str], source: KafkaSource
) -> None:
    topics = create(**options)
    assert topics.source is None
    assert topics.end_offsets() == {("a", 0): 9}
    assert topics.source == source


def test_topics_are_compared_per_source_and_cluster(
    create: Create, known: dict[int, KnownTopics], brokers: Brokers
) -> None:
    create(0).end_offsets()
    brokers.cluster, brokers.topics = "y", {"a": "2"}
    create(1).end_offsets()
    assert known == {0: KnownTopics("x", {"a": "1"}), 1: KnownTopics("y", {"a": "2"})}
    create(1).require_known_topics({})
    with pytest.raises(TopicRecreatedError, match="another|cluster x before"):
        create(0).require_known_topics({})


def test_source_of_brokers_without_an_id_has_no_identity(create: Create, brokers: Brokers, warnings: list[str]) -> None:
    brokers.cluster = None
    topics = create()
    assert topics.end_offsets() == {("a", 0): 9}
    assert topics.source is None
    assert len(warnings) == 1


def test_servers_that_do_not_answer_are_named_without_credentials(create: Create, brokers: Brokers) -> None:
    brokers.cluster = error("TimeoutException", "Timed out waiting for a node assignment. Call: listNodes")
    with pytest.raises(KafkaSourceError) as raised:
        create().end_offsets()
    assert str(raised.value) == (
        "no broker of one:9092,two:9092 answers (TimeoutException: Timed out waiting for a node assignment. Call: listNodes)"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "a,b, c"}, "topics 'b', 'c' do not exist on one:9092,two:9092"),
        ({"subscribe": "b"}, "topic 'b' does not exist on one:9092,two:9092"),
        ({"assign": '{"b":[0,1]}'}, "topic 'b' does not exist on one:9092,two:9092"),
    ],
)
def test_topics_that_do_not_exist_are_named(
    create: Create, brokers: Brokers, options: dict[str, str], text: str
) -> None:
    brokers.ends = {"b": {"0": 1}}
    with pytest.raises(KafkaSourceError) as raised:
        create(**options).end_offsets()
    assert str(raised.value) == (
        f"{text} (UnknownTopicOrPartitionException: This server does not host this topic-partition.)"
    )
    with pytest.raises(KafkaSourceError, match=f"^{text}$"):
        create(**options).explain()


def test_partition_that_does_not_exist_and_other_errors_name_the_topics_and_servers(
    create: Create, brokers: Brokers
) -> None:
    brokers.ends = {"b": {"0": 1}}
    with pytest.raises(KafkaSourceError, match=r"^topic 'a' on one:9092,two:9092 cannot be read \(UnknownTopic"):
        create(assign='{"a":[7]}').end_offsets()
    brokers.cluster = error("SaslAuthenticationException", "Authentication failed")
    with pytest.raises(KafkaSourceError, match="^each topic that matches 'a.*' on one:9092,two:9092 cannot be read"):
        create(subscribePattern="a.*").explain()


def test_error_outside_of_kafka_remains(create: Create, brokers: Brokers) -> None:
    brokers.cluster = Py4JJavaError("", Throwable("java.lang.IllegalStateException", "stopped"))
    with pytest.raises(Py4JJavaError):
        create().explain()


def test_topics_that_exist_have_no_problem(create: Create) -> None:
    create().explain()


@pytest.mark.parametrize(
    ("policy", "retention_ms", "retention_s"),
    [
        ("delete", "86400000", DAY_S),
        ("compact,delete", "86400000", DAY_S),
        ("delete,compact", "86400000", DAY_S),
        ("compact", "86400000", NO_RETENTION),
        ("delete", "-1", NO_RETENTION),
        ("compact,delete", "-1", NO_RETENTION),
    ],
)
def test_retention_depends_on_the_clean_up_policy(
    create: Create, brokers: Brokers, policy: str, retention_ms: str, retention_s: float
) -> None:
    brokers.configs = {"a": {"cleanup.policy": policy, "retention.ms": retention_ms}}
    assert create().retention_s({"a"}) == {"a": retention_s}


def config(days: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(days * 86_400_000)}


def test_each_topic_has_its_own_retention_and_an_unknown_one_is_missing(
    create: Create, brokers: Brokers, warnings: list[str]
) -> None:
    """A service without the setting, and a topic whose configuration the user may not read."""
    brokers.configs = {
        "a": config(7),
        "b": config(1),
        "c": {},
        "d": error("TopicAuthorizationException", "Not authorized"),
    }
    topics = create()
    for _ in range(RETENTION_POLLS):
        assert topics.retention_s({"a", "b", "c", "d"}) == {"a": 7 * DAY_S, "b": DAY_S}
    assert len(brokers.config_requests) == 1
    assert warnings == ["the retention of topic 'd' cannot be read, so that no warning precedes a loss: Not authorized"]
    brokers.configs["a"] = config(3)
    assert topics.retention_s({"a", "b", "c", "d"}) == {"a": 3 * DAY_S, "b": DAY_S}
    assert len(warnings) == 1


def test_retention_that_is_unknown_is_read_with_the_next_poll(create: Create, brokers: Brokers) -> None:
    brokers.configs = {"a": error("TimeoutException")}
    topics = create()
    assert topics.retention_s({"a"}) == {}
    brokers.configs = {"a": config(7), "b": config(1)}
    assert topics.retention_s({"a"}) == {"a": 7 * DAY_S}
    assert topics.retention_s({"a", "b"}) == {"a": 7 * DAY_S, "b": DAY_S}
    assert brokers.config_requests == [["a"], ["a"], ["b"]]


def test_records_deleted_before_the_start_are_reported_if_their_loss_is_accepted(
    create: Create, brokers: Brokers, warnings: list[str]
) -> None:
    brokers.first = {"a": {"0": 400, "1": 90, "2": 5}}
    position = {("a", 0): 100, ("a", 1): 90, ("b", 0): 7}
    create().require_known_topics(position)
    assert warnings == []
    create(failOnDataLoss="false").require_known_topics(position)
    assert warnings == [
        "300 records of partition a-0 have been lost: the brokers deleted the records from offset 100 to 399 before the query read them. "
        "The query continues, because failOnDataLoss is false"
    ]


def test_partitions_are_counted_before_the_start(create: Create, brokers: Brokers) -> None:
    brokers.ends = {"a": {"0": 9, "1": 0}}
    assert create().count_partitions() == 2


def test_brokers_are_not_necessary_before_the_first_start(create: Create, brokers: Brokers) -> None:
    brokers.cluster = error("TimeoutException")
    create().require_known_topics({("a", 0): 3})
    create(failOnDataLoss="false").require_known_topics({})


PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
ROWS = {("a", 0): 25, ("a", 1): 10, ("b", 0): 0}


@pytest.mark.parametrize(
    ("division", "limit"),
    [
        (Division(), 3),
        (Division(min_partitions=8), 8),
        (Division(min_partitions=2), 3),
        (Division(max_records=10), 5),
        (Division(max_records=24), 4),
        (Division(max_records=100), 3),
        (Division(max_records=10, min_partitions=6), 6),
        (Division(max_records=10, min_partitions=4), 5),
    ],
)
def test_limit_follows_from_the_partitions_of_all_topics_and_their_division(division: Division, limit: int):
    assert limit_of(PARTITIONS, ROWS, division) == limit


def test_source_without_partitions_can_feed_no_task():
    assert limit_of([], {}, Division()) == 0
