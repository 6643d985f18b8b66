"""Airflow's `spark` connections as clients of a Spark standalone cluster."""

from __future__ import annotations

from typing import ClassVar

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_adaptive.spark.address import AddressError, ClusterAddress, parse_address


class AdaptiveSparkHook(BaseHook):
    """Builds the client of the cluster that a connection of type `spark` names.

    The connection's fields: host `spark://h1:7077` or `spark://h1:7077,h2:7077` (masters that stand by for each other);
    port, of masters that name none; password, the bearer token if masters and workers ask for one
    (`org.apache.spark.ui.JWSFilter`); extra `ui-port` (8080), `rest-port` (6066), `ui-scheme` and `rest-scheme`
    ("http" or "https"), `timeout` (10 seconds), `verify` (true, false or a file of certificate authorities), `conf` (Spark properties of every
    driver; secret ones travel in the driver's environment, never on a command line). The same
    connection serves Airflow's own `SparkSubmitOperator`.
    """

    conn_name_attr: ClassVar[str] = "spark_conn_id"
    default_conn_name: ClassVar[str] = "spark_default"
    conn_type: ClassVar[str] = "spark"

    def __init__(self, spark_conn_id: str = default_conn_name) -> None:
        """Name the connection; it is read when it is needed."""
        super().__init__()
        self.spark_conn_id = spark_conn_id

    def address(self) -> ClusterAddress:
        """How to reach the cluster; blocks on Airflow's connections.

        Raises:
            AddressError: there is no such connection, or it does not describe a standalone cluster.
        """
        try:
            connection = self.get_connection(self.spark_conn_id)
        except AirflowNotFoundException as error:
            raise AddressError(
                f"connection {self.spark_conn_id!r} is not defined: add it, for example `airflow connections add "
                f"{self.spark_conn_id} --conn-type spark --conn-host spark://host --conn-port 7077`"
            ) from error
        if connection.conn_type != self.conn_type:
            raise AddressError(
                f"connection {self.spark_conn_id!r} is of type {connection.conn_type!r}: give one of type {self.conn_type!r}"
            )
        try:
            address = parse_address(connection.host, connection.port, connection.password, connection.extra_dejson)
            address.tls()
        except AddressError as error:
            raise AddressError(f"connection {self.spark_conn_id!r}: {error}") from error
        except OSError as error:  # the file of certificate authorities
            raise AddressError(f"connection {self.spark_conn_id!r}: extra verify: {error}") from error
        for secret in address.secrets:  # Airflow masks the password, and of the extra only the whole
            mask_secret(secret)
        return address
