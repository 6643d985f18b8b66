"""The jars of the tests on Kafka: the broker, and Spark's connector.

`python -m tests.support.kafka.jars` resolves the jars that are missing. If that fails, it prints one line and exits with 1.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from airflow_adaptive.local.distribution import find_spark
from tests.support.jars import MINOR, Packages, resolve_all

BROKER: Final = Packages(
    "Kafka", ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
)

NEWEST_CONNECTOR: Final = "4.2.0"
"""The newest published version, which also works with Spark 4.3."""

CONNECTORS: Final = {
    minor: Packages("Kafka", (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",))
    for minor, version in (("4.0", "4.0.0"), ("4.1", "4.1.1"), ("4.2", NEWEST_CONNECTOR), ("4.3", NEWEST_CONNECTOR))
}
"""Spark's connector by the version of Spark."""

CONNECTOR: Final = CONNECTORS[MINOR]

CONNECTOR_JARS: Final = ("org.apache.spark_", "org.apache.kafka_", "org.apache.commons_commons-pool2")
"""Beginnings of the names of the jars that Spark does not contain. The others would only make the start of an application slower."""


def connector_jars() -> list[Path]:
    """Return the jars of Spark's connector without those that Spark contains.

    Raises:
        MissingJarsError: the jars of the connector are not in the cache.
    """
    return [jar for jar in CONNECTOR.jars if jar.name.startswith(CONNECTOR_JARS)]


def broker_classpath() -> str:
    """Return the class path of a broker. Spark's Ivy leaves out the library of Scala, because Spark contains it.

    Raises:
        MissingJarsError: the jars of the broker are not in the cache.
    """
    spark = find_spark().home / "jars"
    return os.pathsep.join(map(str, [*BROKER.jars, *spark.glob("scala-library-*.jar")]))


if __name__ == "__main__":
    resolve_all(BROKER, CONNECTOR)
