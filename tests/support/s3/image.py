"""The image of drivers and executors that contains the connector to S3, as a user would build it from Spark's image."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_adaptive.local.distribution import find_spark
from tests.support.kubernetes.images import Image, spark_image
from tests.support.s3.jars import connector_jars

SPARK_S3: Final = "airflow-adaptive.test/spark-s3:1"

JARS: Final = "opt/spark/jars"


def s3_image() -> Image:
    """Return the image.

    Raises:
        MissingJarsError: the jars of the connector are not in the cache.
    """
    base = spark_image()
    own = {f"{JARS}/{jar.name}": str(jar.resolve()) for jar in (find_spark().home / "jars").glob("*.jar")}
    connector = {f"{JARS}/{jar.name}": (jar.read_bytes(), 0o644) for jar in connector_jars()}
    return replace(
        base,
        name=SPARK_S3,
        links={**{path: target for path, target in base.links.items() if path != JARS}, **own},
        files={**base.files, **connector},
        folders={**base.folders, JARS: 0o755},
    )
