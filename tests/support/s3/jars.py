"""The jars with which Spark accesses S3: Hadoop's connector, and the modules of the AWS SDK that the connector uses.

`python -m tests.support.s3.jars` resolves the jars that are missing. If that fails, it prints one line and exits with 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_adaptive.local.distribution import find_spark
from tests.support.jars import Packages, resolve_all

HADOOP: Final = "3.5.0"
"""The version of Hadoop's jars in Spark 4.3."""

SDK: Final = "2.35.4"
"""The version of the AWS SDK in the parent POM of this Hadoop."""

CONNECTOR: Final = Packages(
    "S3",
    (
        f"org.apache.hadoop:hadoop-aws:{HADOOP}",
        *(f"software.amazon.awssdk:{module}:{SDK}" for module in ("s3", "s3-transfer-manager", "sts")),
    ),
    excluded=("software.amazon.awssdk:bundle",),
)
"""The SDK's bundle of all services has 686 MB, these modules have 19 MB."""


def connector_jars() -> Sequence[Path]:
    """Return the jars that Spark does not contain.

    Raises:
        MissingJarsError: the jars are not in the cache.
    """
    spark = {_artifact(jar.name) for jar in (find_spark().home / "jars").glob("*.jar")}
    return [jar for jar in CONNECTOR.jars if _artifact(jar.name.partition("_")[2]) not in spark]


def _artifact(name: str) -> str:
    """Return the name of a jar without its version."""
    return name.rpartition("-")[0]


if __name__ == "__main__":
    resolve_all(CONNECTOR)
