"""The packages of a job are resolved by Ivy in the driver's JVM. The JVM and the repositories are fakes; tests/integration/kafka has the real ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from airflow_adaptive.job.entry.packages import PackagesError, UnpublishedPackageError, resolve_packages

KAFKA = "org.apache.spark:kafka_2.13"
CENTRAL = "https://repo1.maven.org/maven2/"
INTERNAL = "http://maven.internal/"


class FakeJvm:
    """The classes of a JVM that resolve packages.

    Attributes:
        properties: system properties.
        versions: published versions of packages (`group:artifact`), oldest first.
        unreachable: repositories that do not answer.
        problem: error of Ivy for all packages, or empty.
        resolved: arguments of each resolution.
        class_path: jars on the class path of the driver.
    """

    def __init__(self, properties: dict[str, str], versions: dict[str, list[str]]) -> None:
        self.properties, self.versions = properties, versions
        self.unreachable: set[str] = set()
        self.problem = ""
        self.resolved: list[tuple[Any, ...]] = []
        self.class_path: list[tuple[str, str]] = []
        system = SimpleNamespace(getProperty=properties.get, setProperty=properties.__setitem__)
        thread = SimpleNamespace(getContextClassLoader=lambda: "loader")
        self.java = SimpleNamespace(
            lang=SimpleNamespace(System=system, Thread=SimpleNamespace(currentThread=lambda: thread)),
            net=SimpleNamespace(URL=lambda address: SimpleNamespace(openConnection=lambda: self.connection(address))),
        )
        utils = SimpleNamespace(
            resolveMavenDependencies=self.resolve, addJarToClasspath=lambda *it: self.class_path.append(it)
        )
        setattr(self, "org.apache.spark.util.DependencyUtils", utils)
        converters = SimpleNamespace(asJava=list)
        javaapi = SimpleNamespace(CollectionConverters=converters)
        self.scala = SimpleNamespace(
            Option=SimpleNamespace(apply=lambda value: ("option", value)),
            jdk=SimpleNamespace(javaapi=javaapi),
        )

    def resolve(self, is_transitive: bool, *settings: Any) -> list[str]:
        self.resolved.append((is_transitive, *settings))
        if self.problem:
            raise java_error(self.problem)
        return [self.jar(*package.split(":")) for package in settings[1].split(",")]

    def jar(self, group: str, artifact: str, version: str) -> str:
        published = self.versions.get(f"{group}:{artifact}", [])
        version = published[-1] if published and version == "latest.release" else version
        if version not in published:
            raise java_error(f"[unresolved dependency: {group}#{artifact};{version}: not found]")
        return f"/ivy/{group}_{artifact}-{version}.jar"

    def connection(self, repository: str) -> SimpleNamespace:
        def response() -> int:
            if repository in self.unreachable:
                raise java_error("no route", "UnknownHostException")
            return 200

        ignored: Callable[[int], None] = lambda milliseconds: None  # noqa: E731
        return SimpleNamespace(setConnectTimeout=ignored, setReadTimeout=ignored, getResponseCode=response)


def java_error(message: str, name: str = "RuntimeException") -> Py4JJavaError:
    """Return an exception of the JVM."""
    exception = SimpleNamespace(
        _target_id="o1", getMessage=lambda: message, getClass=lambda: SimpleNamespace(getSimpleName=lambda: name)
    )
    return Py4JJavaError("", exception)


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeJvm:
    """The JVM of a driver that spark-submit has started for a job with a package."""
    jvm = FakeJvm(
        {"spark.airflow.adaptive.packages": f"{KAFKA}:4.2.0", "user.home": str(tmp_path)}, {KAFKA: ["4.1.0", "4.2.0"]}
    )
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: None)
    monkeypatch.setattr(SparkContext, "_jvm", jvm)
    monkeypatch.setattr(sys, "path", ["script", "library"])
    return jvm


def error_of(error: type[PackagesError]) -> str:
    with pytest.raises(PackagesError) as caught:
        resolve_packages()
    assert type(caught.value) is error
    return str(caught.value)


def test_jars_of_the_packages_are_added_as_spark_submit_adds_them(jvm: FakeJvm) -> None:
    jvm.properties |= {"spark.jars": "/opt/own.jar"}
    resolve_packages()
    jar = "/ivy/org.apache.spark_kafka_2.13-4.2.0.jar"
    assert jvm.class_path == [(jar, "loader")]
    assert jvm.properties["spark.jars"] == f"/opt/own.jar,{jar}"
    assert jvm.properties["spark.submit.pyFiles"] == jar
    assert sys.path == ["script", jar, "library"]


def test_settings_of_the_job_reach_ivy(jvm: FakeJvm) -> None:
    settings = {"excludes": "a:b", "repositories": INTERNAL, "ivySettings": "/opt/ivy.xml", "ivy": "/var/ivy"}
    jvm.properties |= {f"spark.jars.{name}": value for name, value in settings.items()}
    resolve_packages()
    assert jvm.resolved == [(True, "a:b", f"{KAFKA}:4.2.0", INTERNAL, "/var/ivy", ("option", "/opt/ivy.xml"))]


def test_ivy_has_its_default_folder_if_the_home_directory_is_writable(jvm: FakeJvm) -> None:
    resolve_packages()
    assert jvm.resolved == [(True, None, f"{KAFKA}:4.2.0", None, None, ("option", None))]


def test_user_without_a_home_directory_gets_a_temporary_folder(jvm: FakeJvm, tmp_path: Path) -> None:
    jvm.properties["user.home"] = str(tmp_path / "missing")
    resolve_packages()
    folder = Path(jvm.resolved[0][4])
    assert (folder.is_dir(), folder.name.startswith("ivy-")) == (True, True)
    folder.rmdir()


def test_job_without_packages_resolves_nothing(jvm: FakeJvm) -> None:
    del jvm.properties["spark.airflow.adaptive.packages"]
    resolve_packages()
    assert (jvm.resolved, "spark.jars" in jvm.properties) == ([], False)


def test_script_that_spark_submit_has_not_started_resolves_nothing(
    jvm: FakeJvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    resolve_packages()
    assert jvm.resolved == []


def test_version_that_is_not_published_is_final_and_names_the_newest(jvm: FakeJvm) -> None:
    jvm.properties["spark.airflow.adaptive.packages"] = f"{KAFKA}:9.0.0"
    assert error_of(UnpublishedPackageError) == (
        "the packages cannot be resolved: [unresolved dependency: org.apache.spark#kafka_2.13;9.0.0: not found]; "
        "the newest published version of org.apache.spark:kafka_2.13 is 4.2.0"
    )
    assert [is_transitive for is_transitive, *_ in jvm.resolved] == [True, False]


def test_package_that_no_repository_contains_is_final(jvm: FakeJvm) -> None:
    jvm.properties |= {
        "spark.airflow.adaptive.packages": "a:b:1",
        "spark.jars.repositories": f"{INTERNAL},file:///repository",
    }
    assert error_of(UnpublishedPackageError).endswith(
        f"; no version is published in {INTERNAL}, file:///repository, {CENTRAL}: correct `packages`"
    )


@pytest.mark.parametrize("repository", [CENTRAL, INTERNAL])
def test_package_that_is_missing_while_a_repository_is_down_may_be_found_later(jvm: FakeJvm, repository: str) -> None:
    jvm.properties |= {"spark.airflow.adaptive.packages": "a:b:1", "spark.jars.repositories": INTERNAL}
    jvm.unreachable = {repository}
    assert error_of(PackagesError).endswith(f"; the driver cannot reach {repository} (UnknownHostException)")


def test_package_that_is_not_found_with_ivy_settings_may_be_found_later(jvm: FakeJvm) -> None:
    jvm.properties |= {"spark.airflow.adaptive.packages": "a:b:1", "spark.jars.ivySettings": "/opt/ivy.xml"}
    assert "; check /opt/ivy.xml, the names of the packages, and the repositories" in error_of(PackagesError)


def test_other_problem_of_ivy_may_be_over_later(jvm: FakeJvm) -> None:
    jvm.problem = "no space left"
    assert error_of(PackagesError) == "the packages cannot be resolved: no space left"
