"""The client of the brokers of a connection, with and without the libraries of the extra `kafka`."""

from __future__ import annotations

import sys

import pytest

from airflow_adaptive.launch.cluster.brokers import MissingKafkaError, kafka_brokers, require_kafka
from airflow_adaptive.launch.process_resources import ProcessResources

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
