"""The jars of Delta Lake and Apache Iceberg for each version of Spark.

`PYTHONPATH=$(.ci/ensure_spark.sh 4.1.4) python -m tests.support.tables.jars` resolves those of one version. If that fails, it prints one line and
exits with 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.jars import MINOR, Packages, resolve_all

SPARK_LIBRARIES: Final = (
    "com.fasterxml.jackson.core:*", "com.fasterxml.jackson.datatype:*", "com.github.luben:*", "commons-logging:*", "io.airlift:*",
    "org.apache.hadoop:*", "org.apache.logging.log4j:*", "org.apache.parquet:*", "org.slf4j:*", "org.xerial.snappy:*",
)  # fmt: skip
"""Dependencies of Delta Lake that Spark contains."""

DELTA: Final = {
    minor: Packages("Tables", (f"io.delta:delta-spark_{minor}_2.13:4.4.0",), SPARK_LIBRARIES)
    for minor in ("4.0", "4.1", "4.2")
}
"""Delta Lake by the version of Spark."""

ICEBERG: Final = {
    minor: Packages("Tables", (f"org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:1.11.0",))
    for minor in ("4.0", "4.1")
}
"""Iceberg by the version of Spark."""

FORMATS: Final = {"delta": DELTA, "iceberg": ICEBERG}


def table_jars(name: str, minor: str = MINOR) -> list[Path]:
    """Return the jars of a format.

    Args:
        name: `delta` or `iceberg`.
        minor: version of Spark that the jars are built for.

    Raises:
        MissingJarsError: the jars are not in the cache.
    """
    return FORMATS[name][minor].jars


if __name__ == "__main__":
    resolve_all(*(packages[MINOR] for packages in FORMATS.values() if MINOR in packages))
