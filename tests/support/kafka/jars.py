"""The jars of the tests on Kafka: the broker, and Spark's connector. Spark's own Ivy resolves them from the central repository.

`python -m tests.support.kafka.jars` resolves the jars that are missing. If that fails, it prints one line and exits with 1.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_adaptive.local.distribution import find_java, find_spark
from airflow_adaptive.local.errors import LocalClusterError

BROKER: Final = ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")

CONNECTOR: Final = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",)
"""The newest published version, which also works with Spark 4.3."""

COMMAND: Final = "python -m tests.support.kafka.jars"

IVY_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
"""Only the central repository: Spark's default also reads ~/.m2, and an incomplete artifact there breaks the resolution."""

RESOLVED: Final = "resolved"
"""File that exists when all jars of a folder are complete."""

TIMEOUT_S: Final = 600.0


class MissingJarsError(Exception):
    """The jars are missing. The message is one line that names what is missing."""


def jars_of(packages: Sequence[str]) -> list[Path]:
    """Return the jars of some packages and of their dependencies, which `resolve` has put into the cache.

    Raises:
        MissingJarsError: the jars are not in the cache.
    """
    folder = _folder(packages)
    if not (folder / RESOLVED).exists():
        raise MissingJarsError(f"The tests on Kafka need the jars of {packages[0]}: run {COMMAND}, or make test-kafka.")
    return sorted((folder / "jars").glob("*.jar"))


def broker_classpath() -> str:
    """Return the class path of a broker. Spark's Ivy leaves out the library of Scala, because Spark contains it.

    Raises:
        MissingJarsError: the jars of the broker are not in the cache.
    """
    spark = find_spark().home / "jars"
    return os.pathsep.join(map(str, [*jars_of(BROKER), *spark.glob("scala-library-*.jar")]))


def resolve(packages: Sequence[str]) -> None:
    """Put the jars of some packages into the cache. A second process waits for the first one and then finds the jars.

    Raises:
        MissingJarsError: the jars cannot be resolved.
    """
    folder = _folder(packages)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / RESOLVED).exists():
            _run_ivy(packages, folder)
            (folder / RESOLVED).touch()


def _run_ivy(packages: Sequence[str], folder: Path) -> None:
    """Submit an empty script with these packages, because Spark resolves packages before it runs the script."""
    settings, script = folder / "ivysettings.xml", folder / "empty.py"
    settings.write_text(IVY_SETTINGS)
    script.write_text("")
    try:
        spark, java = find_spark().home, find_java()
    except LocalClusterError as error:
        raise MissingJarsError(f"The tests on Kafka need Spark and Java: {error}") from error
    command = [
        str(spark / "bin" / "spark-submit"), "--packages", ",".join(packages),
        "--conf", f"spark.jars.ivy={folder}", "--conf", f"spark.jars.ivySettings={settings}", str(script),
    ]  # fmt: skip
    environment = {**os.environ, "SPARK_HOME": str(spark), "JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    (folder / "log").write_text(ended.stdout + ended.stderr)
    if ended.returncode != 0:
        raise MissingJarsError(f"The jars of {packages[0]} could not be resolved (no network?): see {folder / 'log'}")


def _folder(packages: Sequence[str]) -> Path:
    """Return the folder of some packages, which is outside the checkout, so that every checkout uses the same jars."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "airflow-adaptive" / "kafka" / hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]


if __name__ == "__main__":
    try:
        for wanted in (BROKER, CONNECTOR):
            resolve(wanted)
    except MissingJarsError as error:
        sys.exit(str(error))
