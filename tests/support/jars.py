"""Jars of the tests on real servers. Spark's own Ivy resolves them from the central repository into a cache outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark import __version__

from airflow_adaptive.local.distribution import find_java, find_spark
from airflow_adaptive.local.waiting import LocalClusterError

IVY_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
"""Only the central repository: Spark's default also reads ~/.m2, and an incomplete artifact there breaks the resolution."""

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-adaptive"
"""Folder of what all checkouts use."""

MINOR: Final = ".".join(__version__.split(".")[:2])
"""Version of the Spark that the tests run."""

RESOLVED: Final = "resolved"
"""File that exists when all jars of a folder are complete."""

TIMEOUT_S: Final = 600.0


class MissingJarsError(Exception):
    """The jars are missing. The message is one line that names what is missing."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages of the central repository, with their dependencies.

    Attributes:
        server: server whose tests need the packages, such as "Kafka".
        names: `group:artifact:version` of each package.
        excluded: `group:artifact` of dependencies that are left out; `*` stands for all artifacts of a group.
    """

    server: str
    names: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of the packages, which is outside the checkout, so that every checkout uses the same jars."""
        key = " ".join([*self.names, *(f"-{name}" for name in self.excluded)])
        return CACHE / self.server.lower() / hashlib.sha256(key.encode()).hexdigest()[:16]

    @property
    def jars(self) -> list[Path]:
        """The jars, which `resolve` has put into the cache.

        Raises:
            MissingJarsError: the jars are not in the cache.
        """
        if not (self.folder / RESOLVED).exists():
            server = self.server.lower()
            raise MissingJarsError(
                f"The tests on {self.server} need the jars of {self.names[0]}: run python -m tests.support.{server}.jars."
            )
        return sorted((self.folder / "jars").glob("*.jar"))

    def resolve(self) -> None:
        """Put the jars into the cache. A second process waits for the first one and then finds the jars.

        Raises:
            MissingJarsError: the jars cannot be resolved.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self.folder / RESOLVED).exists():
                self._run_ivy()
                (self.folder / RESOLVED).touch()

    def _run_ivy(self) -> None:
        """Submit an empty script with these packages, because Spark resolves packages before it runs the script."""
        settings, script = self.folder / "ivysettings.xml", self.folder / "empty.py"
        settings.write_text(IVY_SETTINGS)
        script.write_text("")
        try:
            spark, java = find_spark().home, find_java()
        except LocalClusterError as error:
            raise MissingJarsError(f"The tests on {self.server} need Spark and Java: {error}") from error
        excluded = ["--exclude-packages", ",".join(self.excluded)] if self.excluded else []
        command = [
            str(spark / "bin" / "spark-submit"), "--packages", ",".join(self.names), *excluded,
            "--conf", f"spark.jars.ivy={self.folder}", "--conf", f"spark.jars.ivySettings={settings}", str(script),
        ]  # fmt: skip
        environment = {**os.environ, "SPARK_HOME": str(spark), "JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable}
        ended = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        (self.folder / "log").write_text(ended.stdout + ended.stderr)
        if ended.returncode != 0:
            raise MissingJarsError(
                f"The jars of {self.names[0]} could not be resolved (no network?): see {self.folder / 'log'}"
            )


OPENLINEAGE: Final = Packages("OpenLineage", ("io.openlineage:openlineage-spark_2.13:1.53.0",))
"""OpenLineage's integration in Spark."""


def resolve_all(*wanted: Packages) -> None:
    """Resolve packages for a command line: if that fails, print one line and exit with 1."""
    try:
        for packages in wanted:
            packages.resolve()
    except MissingJarsError as error:
        sys.exit(str(error))
