"""The client of the brokers of a connection, with and without the libraries of the extra `kafka`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from airflow_adaptive._airflow.process.process_resources import (
    MissingKafkaError,
    ProcessResources,
    kafka_brokers,
    require_kafka,
)
from airflow_adaptive._core.ports import SourceUnreachableError
from airflow_adaptive._core.protocol.sources import KafkaSource
from airflow_adaptive.hooks.kafka import KafkaBrokers

REMEDY = "kafka_conn_id='kafka_test': install 'airflow-adaptive[kafka]' in all Airflow components"


@pytest.fixture(params=["confluent_kafka", "airflow.providers.apache.kafka.hooks.base"])
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hide one library of the extra."""
    monkeypatch.delitem(sys.modules, "airflow_adaptive.hooks.kafka", raising=False)
    monkeypatch.setitem(sys.modules, request.param, None)
    return str(request.param)


def test_missing_library_is_one_error_with_the_remedy(missing: str) -> None:
    with pytest.raises(MissingKafkaError) as raised:
        require_kafka("kafka_test")
    assert str(raised.value).startswith(REMEDY)
    assert missing in str(raised.value)


def test_triggerer_without_the_library_names_the_same_remedy(missing: str) -> None:
    resources = ProcessResources()
    with pytest.raises(MissingKafkaError, match=r"install 'airflow-adaptive\[kafka\]'"):
        kafka_brokers("kafka_test", resources.store_access, resources.clock)


def test_installed_libraries_are_accepted() -> None:
    require_kafka("kafka_test")


@pytest.mark.asyncio
async def test_loops_with_the_same_connection_share_brokers_until_the_last_of_them_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[object] = []

    async def close(brokers: object) -> None:
        closed.append(brokers)

    monkeypatch.setattr(KafkaBrokers, "close", close)
    resources = ProcessResources()
    async with resources.brokers("kafka_test") as first:
        async with resources.brokers("kafka_test") as second, resources.brokers("kafka_other") as other:
            assert isinstance(first, KafkaBrokers)
            assert second is first
            assert other is not first
        assert closed == [other]
    assert closed == [other, first]


@pytest.mark.asyncio
async def test_loop_without_a_connection_of_brokers_reads_no_connection() -> None:
    async with ProcessResources().brokers("") as brokers:
        assert brokers is None


@pytest.mark.asyncio
async def test_shared_brokers_use_the_connection_through_the_store_and_the_clock_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection does not exist: the reader of the process reads it, and the error of the topic names it."""
    resources = ProcessResources()
    works: list[object] = []

    async def read_connection(_: str, work: Callable[[], Any]) -> Any:
        works.append(work)
        return work()

    monkeypatch.setattr(resources.store_access, "read_connection", read_connection)
    async with resources.brokers("kafka_missing") as brokers:
        assert brokers is not None
        with pytest.raises(SourceUnreachableError, match="connection 'kafka_missing' is not defined"):
            await brokers.end_offsets(KafkaSource(cluster="x"), frozenset("a"))
    assert len(works) == 1
