"""Creates the client of the brokers that a connection of type `kafka` names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.ports import Clock

if TYPE_CHECKING:
    from airflow_adaptive.hooks.kafka import KafkaBrokers

INSTALL: Final = "install 'airflow-adaptive[kafka]' in all Airflow components"
"""Remedy if the libraries of the extra are missing."""


class MissingKafkaError(ValueError):
    """The libraries of the extra `kafka` are missing."""


def require_kafka(conn_id: str) -> None:
    """Raise `MissingKafkaError` if the extra `kafka` is not installed."""
    try:
        import airflow_adaptive.hooks.kafka  # noqa: F401, PLC0415  optional libraries
    except ImportError as error:
        raise MissingKafkaError(f"kafka_conn_id={conn_id!r}: {INSTALL} ({error})") from error


def kafka_brokers(conn_id: str, access: StoreAccess, clock: Clock) -> KafkaBrokers:
    """Return the brokers of a connection, which are not connected yet.

    Args:
        conn_id: id of the connection, which is read outside of the event loop.
        access: reads the connection.
        clock: measures durations.

    Raises:
        MissingKafkaError: the extra `kafka` is not installed.
    """
    require_kafka(conn_id)
    from airflow_adaptive.hooks.kafka import KafkaAdminHook, KafkaBrokers  # noqa: PLC0415  optional libraries

    return KafkaBrokers(lambda: KafkaAdminHook(conn_id).client(), partial(access.read_connection, conn_id), clock)
