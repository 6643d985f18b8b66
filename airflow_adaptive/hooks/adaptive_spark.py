"""The hook for Airflow's connections of type `spark`."""

from __future__ import annotations

from typing import ClassVar

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_adaptive.spark.address import ClusterAddress, parse_address
from airflow_adaptive.spark.connection_fields import AddressError


class AdaptiveSparkHook(BaseHook):
    """Reads the address of a Spark standalone cluster from a connection of type `spark`.

    Airflow's `SparkSubmitOperator` can use the same connection. The hook reads these fields:

    - host: `spark://h1:7077`, or `spark://h1:7077,h2:7077` for several masters with standby masters.
    - port: port of masters without a port in the host field.
    - password: bearer token, if masters and workers require one (`org.apache.spark.ui.JWSFilter`). Only the masters receive the token.
    - extra `token-hosts`: other hosts that receive the token, for example `worker-1,*.spark.example.com`, if workers require the token.
    - extra `ui-port` (8080), `rest-port` (6066), `ui-scheme` and `rest-scheme` ("http" or "https").
    - extra `timeout`: timeout of a request (10 seconds).
    - extra `verify`: true, false, or the path of a file with certificate authorities.
    - extra `conf`: Spark properties of every driver. The environment of the driver process passes secret properties; no command line contains
      them.
    - extra `secret-env`: secret environment variables of every driver.
    """

    conn_name_attr: ClassVar[str] = "spark_conn_id"
    default_conn_name: ClassVar[str] = "spark_default"
    conn_type: ClassVar[str] = "spark"

    def __init__(self, spark_conn_id: str = default_conn_name) -> None:
        """Assign. `address` reads the connection."""
        super().__init__()
        self.spark_conn_id = spark_conn_id

    def address(self) -> ClusterAddress:
        """Return the address of the cluster; blocks on Airflow's connections.

        Raises:
            AddressError: the connection does not exist or does not describe a standalone cluster.
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
                f"connection {self.spark_conn_id!r} has type {connection.conn_type!r}: use a connection of type {self.conn_type!r}"
            )
        try:
            address = parse_address(connection.host, connection.port, connection.password, connection.extra_dejson)
            address.tls()
        except AddressError as error:
            raise AddressError(f"connection {self.spark_conn_id!r}: {error}") from error
        except OSError as error:  # The file of certificate authorities cannot be read.
            raise AddressError(f"connection {self.spark_conn_id!r}: extra verify: {error}") from error
        for secret in address.secrets:  # Airflow masks the password, but not the single values of the extra field.
            mask_secret(secret)
        return address
