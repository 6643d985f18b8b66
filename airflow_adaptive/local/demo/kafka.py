"""The demo on a Spark standalone cluster on this machine, with a topic of Kafka as the source of the job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_adaptive.local.demo.cluster import DemoEnvironmentError, StandaloneDemo

TIMEOUT_S: Final = 30.0
"""Limit for the creation and for the deletion of the topic."""


class KafkaDemo(StandaloneDemo):
    """Creates a topic, and deletes it at the end.

    The topic has one partition, because the watermark of the job requires flights in the order of their departure.
    """

    dag = "flight_departures_kafka"

    def __init__(self, directory: Path, bootstrap_servers: str) -> None:
        super().__init__(directory)
        self._servers = bootstrap_servers
        self._topic = f"flights-{uuid4().hex[:8]}"
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def __enter__(self) -> Self:
        self._create_topic()
        try:
            return super().__enter__()
        except BaseException:
            self._delete_topic()
            raise

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._delete_topic()

    @property
    def description(self) -> str:
        """One line about the cluster that the user can open, and the topic."""
        return f"{super().description}, topic {self._topic} on {self._servers}"

    @property
    def airflow_environment(self) -> Mapping[str, str]:
        """Environment variables of Airflow with its connections to the cluster and to the brokers."""
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": self._servers}}
        return {**super().airflow_environment, "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection)}

    def parameters(self, flights: Path) -> Mapping[str, str]:
        """Return the parameters of the DAG run."""
        return {**super().parameters(flights), "bootstrap_servers": self._servers, "topic": self._topic}

    def generator_target(self, flights: Path) -> Sequence[str]:
        """Return the topic that the job reads."""
        return ("--bootstrap-servers", self._servers, "--topic", self._topic)

    def _create_topic(self) -> None:
        topic = NewTopic(self._topic, num_partitions=1, replication_factor=1)
        try:
            self._admin.create_topics([topic], request_timeout=TIMEOUT_S)[self._topic].result()
        except KafkaException as error:
            raise DemoEnvironmentError(
                f"the topic {self._topic} cannot be created on {self._servers}: {error.args[0].str()}. "
                "Check the address of the brokers."
            ) from error

    def _delete_topic(self) -> None:
        self._admin.delete_topics([self._topic], request_timeout=TIMEOUT_S)[self._topic].result()
