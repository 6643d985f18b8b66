"""The topic of the demo exists while the demo runs, and not longer."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_adaptive.local.demo import kafka
from airflow_adaptive.local.demo.cluster import DemoEnvironmentError, StandaloneDemo

SERVERS = "broker:9092"


class Admin:
    """Records the requests to brokers."""

    def __init__(self, failure: KafkaException | None = None) -> None:
        self.topics: list[str] = []
        self._failure = failure

    def create_topics(self, topics: list[Any], **_: float) -> dict[str, Future[None]]:
        self.topics += [topic.topic for topic in topics]
        return {topic.topic: self._answer() for topic in topics}

    def delete_topics(self, topics: list[str], **_: float) -> dict[str, Future[None]]:
        for topic in topics:
            self.topics.remove(topic)
        return {topic: self._answer() for topic in topics}

    def _answer(self) -> Future[None]:
        future: Future[None] = Future()
        if self._failure is None:
            future.set_result(None)
        else:
            future.set_exception(self._failure)
        return future


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    admin = Admin()
    monkeypatch.setattr(kafka, "AdminClient", lambda _: admin)
    monkeypatch.setattr(StandaloneDemo, "__enter__", lambda demo: demo)
    monkeypatch.setattr(StandaloneDemo, "__exit__", lambda *_: None)
    return admin


def test_topic_exists_during_the_demo_only(admin: Admin, tmp_path: Path) -> None:
    with kafka.KafkaDemo(tmp_path, SERVERS) as demo:
        (topic,) = admin.topics
        assert demo.generator_target(tmp_path) == ("--bootstrap-servers", SERVERS, "--topic", topic)
        assert demo.parameters(tmp_path) == {"directory": str(tmp_path), "bootstrap_servers": SERVERS, "topic": topic}
    assert admin.topics == []


def test_topic_is_deleted_if_the_cluster_does_not_start(
    admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: StandaloneDemo) -> None:
        raise TimeoutError

    monkeypatch.setattr(StandaloneDemo, "__enter__", fail)
    with pytest.raises(TimeoutError), kafka.KafkaDemo(tmp_path, SERVERS):
        pass
    assert admin.topics == []


def test_brokers_that_do_not_answer_end_the_demo_with_their_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))
    monkeypatch.setattr(kafka, "AdminClient", lambda _: Admin(failure))
    with (
        pytest.raises(DemoEnvironmentError, match=r"on broker:9092: no broker. Check the address"),
        kafka.KafkaDemo(tmp_path, SERVERS),
    ):
        pass


def test_airflow_has_a_connection_to_the_brokers(admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandaloneDemo, "airflow_environment", {"AIRFLOW_CONN_SPARK_DEFAULT": "spark"})
    environment = kafka.KafkaDemo(tmp_path, SERVERS).airflow_environment
    assert json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"]) == {
        "conn_type": "kafka",
        "extra": {"bootstrap.servers": SERVERS},
    }
    assert environment["AIRFLOW_CONN_SPARK_DEFAULT"] == "spark"
