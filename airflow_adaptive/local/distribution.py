"""Finds the Spark in the pyspark wheel and the Java that the embedded cluster runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from airflow_adaptive.local.waiting import LocalClusterError

MINIMUM_JAVA = 17
"""Spark 4 runs on Java 17 and later (https://spark.apache.org/docs/latest/#downloading)."""

JAVA_FIX = f"install Java {MINIMUM_JAVA} or later (for example `apt install openjdk-17-jre-headless`) and set JAVA_HOME"

JAVA_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDistribution:
    """A Spark distribution with scripts and jars.

    Attributes:
        home: value of SPARK_HOME.
        version: version of Spark, for example "4.3.0".
    """

    home: Path
    version: str


def find_spark() -> SparkDistribution:
    """Return the Spark in the installed pyspark.

    Raises:
        LocalClusterError: pyspark is missing, or has no jars.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise LocalClusterError("pyspark is not installed: run `pip install pyspark`")
    return read_distribution(Path(spec.submodule_search_locations[0]))


def read_distribution(home: Path) -> SparkDistribution:
    """Return the Spark in the pyspark package at `home`.

    pyspark-client may have overwritten Python files of the package. This does no harm: the drivers and executors of Spark import pyspark from the
    archive `python/lib/pyspark.zip`, which pyspark-client does not have.

    Raises:
        LocalClusterError: the package has no jars, or no archive.
    """
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    if not jars or not (home / "python" / "lib" / "pyspark.zip").is_file():
        raise LocalClusterError(
            f"{home} has no Spark jars (only pyspark-client is installed): run `pip install --force-reinstall --no-deps pyspark`"
        )
    return SparkDistribution(home=home, version=jars[0].stem.rpartition("_")[2].partition("-")[2])


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the home of a Java that Spark supports: JAVA_HOME if set, otherwise the `java` on PATH.

    Raises:
        LocalClusterError: Java is missing or too old.
    """
    java = _java_command(environ)
    version = _java_version(java)
    if version < MINIMUM_JAVA:
        raise LocalClusterError(f"{java} is Java {version}: {JAVA_FIX}")
    return java.resolve().parent.parent


def _java_command(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        command = Path(home, "bin", "java")
        if not command.is_file():
            raise LocalClusterError(f"JAVA_HOME={home} has no bin/java: {JAVA_FIX}")
        return command
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise LocalClusterError(f"no `java` on PATH and JAVA_HOME is not set: {JAVA_FIX}")
    return Path(found)


def _java_version(java: Path) -> int:
    """Read the feature version from the first line of `java -version`, for example `version "17.0.15"` or `"1.8.0_412"`."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalClusterError(f"{java} does not run ({error}): {JAVA_FIX}") from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise LocalClusterError(f"{java} -version prints no version: {JAVA_FIX}")
    return int(match[1])
