"""Resolves the Maven packages of a job with Spark's Ivy, before the script runs.

spark-submit resolves `spark.jars.packages` before it starts Python, so a driver whose packages cannot be resolved could not find out which
version is published. The launcher therefore resolves the packages of a job in the JVM of the driver, by the function that spark-submit
calls (`DependencyUtils`), and adds the jars as spark-submit does: to the class path of the driver, to `spark.jars` for the
executors, and to `spark.submit.pyFiles` because a jar may contain Python modules.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive.job.spark_internals import class_name

GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
"""Environment variable of a Python that spark-submit has started."""

CENTRAL: Final = "https://repo1.maven.org/maven2/"
"""The repository that Ivy reads in addition to the repositories of the job."""

CONNECT_TIMEOUT_MS: Final = 10_000

UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): not found")
"""A package in an error of Ivy that no repository contains: group, artifact, version."""


class PackagesError(RuntimeError):
    """The packages cannot be resolved now. A restart may help."""


class UnpublishedPackageError(PackagesError):
    """The repositories answer, and do not contain a package. No restart helps."""


def resolve_packages() -> None:
    """Resolve the packages of the job, if it has any, and add their jars to the driver and to its executors.

    Raises:
        UnpublishedPackageError: a repository does not contain a package. The message contains the error of Ivy and the newest version.
        PackagesError: the packages cannot be resolved for another reason.
    """
    if GATEWAY_VARIABLE not in os.environ:  # The script was not started by spark-submit.
        return
    from pyspark import SparkContext  # noqa: PLC0415  (a driver without pyspark fails when its script imports it)

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    packages = jvm.java.lang.System.getProperty(PACKAGES_PROPERTY)
    if packages:
        _add_jars(jvm, Ivy(jvm).resolve(packages))


class Ivy:
    """Ivy in the JVM of the driver, with the settings of the Spark properties `spark.jars.*`."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._exclusions = self._property("excludes")
        self._repositories = self._property("repositories")
        self._settings = self._property("ivySettings")
        self._folder = self._property("ivy") or _folder(str(jvm.java.lang.System.getProperty("user.home")))

    def resolve(self, packages: str) -> list[str]:
        """Return the paths of the jars of packages and of their dependencies. Raises `PackagesError`."""
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (part of pyspark)

        try:
            return self._jars(packages, is_transitive=True)
        except Py4JJavaError as error:
            raise self._explained(str(error.java_exception.getMessage())) from None

    def _jars(self, packages: str, *, is_transitive: bool) -> list[str]:
        jars = getattr(self._jvm, class_name("DependencyUtils")).resolveMavenDependencies(
            is_transitive,
            self._exclusions,
            packages,
            self._repositories,
            self._folder,
            self._jvm.scala.Option.apply(self._settings),
        )
        return [str(jar) for jar in self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(jars)]

    def _explained(self, problem: str) -> PackagesError:
        """Return the error of Ivy with the newest published versions of the packages that it does not find."""
        newest = {
            (group, artifact): self._newest(group, artifact) for group, artifact, _ in UNRESOLVED.findall(problem)
        }
        versions = [
            f"the newest published version of {group}:{artifact} is {version}"
            for (group, artifact), version in newest.items()
            if version
        ]
        message = "; ".join([f"the packages cannot be resolved: {problem}", *versions])
        if not newest:
            return PackagesError(message)
        if len(versions) == len(newest):
            return UnpublishedPackageError(message)
        return self._without_version(message)

    def _without_version(self, message: str) -> PackagesError:
        """Return the error for a package of which no version is found: the repositories do not contain it, or do not answer."""
        if self._settings:
            return PackagesError(f"{message}; check {self._settings}, the names of the packages, and the repositories")
        declared = [repository for repository in (self._repositories or "").split(",") if repository]
        failures = [failure for repository in (*declared, CENTRAL) if (failure := self._failure(repository))]
        if failures:
            return PackagesError(f"{message}; the driver cannot reach {', '.join(failures)}")
        searched = ", ".join([*declared, CENTRAL])
        return UnpublishedPackageError(f"{message}; no version is published in {searched}: correct `packages`")

    def _newest(self, group: str, artifact: str) -> str | None:
        """Return the newest version in the repositories, by their `maven-metadata.xml`; None if no repository contains a version."""
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (part of pyspark)

        try:
            jar, *_ = self._jars(f"{group}:{artifact}:latest.release", is_transitive=False)
        except (Py4JJavaError, ValueError):
            return None
        return PurePath(jar).name.removeprefix(f"{group}_{artifact}-").removesuffix(".jar")

    def _failure(self, repository: str) -> str | None:
        """Return the address of a repository and why it does not answer, None if it answers. Spark's Java has its own proxy settings."""
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (part of pyspark)

        if not repository.startswith(("http://", "https://")):
            return None
        try:
            connection = self._jvm.java.net.URL(repository).openConnection()
            connection.setConnectTimeout(CONNECT_TIMEOUT_MS)
            connection.setReadTimeout(CONNECT_TIMEOUT_MS)
            connection.getResponseCode()
        except Py4JJavaError as error:
            return f"{repository} ({error.java_exception.getClass().getSimpleName()})"
        return None

    def _property(self, name: str) -> str | None:
        return self._jvm.java.lang.System.getProperty(f"spark.jars.{name}") or None


def _folder(home: str) -> str | None:
    """Return a folder for Ivy; None for Ivy's default in the home directory. A user of a container image may have no home directory."""
    return None if os.access(home, os.W_OK) else tempfile.mkdtemp(prefix="ivy-")


def _add_jars(jvm: Any, jars: Sequence[str]) -> None:
    """Add jars as spark-submit does: a script can import the Python modules in them also before it creates its session."""
    sys.path[1:1] = jars
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        getattr(jvm, class_name("DependencyUtils")).addJarToClasspath(jar, loader)
    system = jvm.java.lang.System
    for name in ("spark.jars", "spark.submit.pyFiles"):
        system.setProperty(name, ",".join([*filter(None, [system.getProperty(name)]), *jars]))
