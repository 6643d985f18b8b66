"""Fixtures of the tests on Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.kafka.cluster import KafkaCluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One broker for all tests of the session. No test breaks it."""
    yield from _running(1)


@pytest.fixture
def kafka_brokers() -> Iterator[KafkaCluster]:
    """Three brokers, which the test may break."""
    yield from _running(3)


@pytest.fixture
def topic() -> str:
    """Name of a topic that does not exist."""
    return f"topic-{uuid.uuid4().hex[:8]}"


def _running(brokers: int) -> Iterator[KafkaCluster]:
    """Run a cluster. Imported late: few tests need Py4J."""
    from tests.support.jars import MissingJarsError  # noqa: PLC0415
    from tests.support.kafka.cluster import running_kafka  # noqa: PLC0415

    try:
        with running_kafka(brokers) as cluster:
            yield cluster
    except MissingJarsError as error:
        pytest.fail(str(error), pytrace=False)
