"""The search for Spark and Java, and the errors when they are missing or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local.distribution import find_java, find_spark, read_distribution
from airflow_adaptive.local.waiting import LocalClusterError


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A pyspark package of version 4.3.0."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    (tmp_path / "python" / "lib").mkdir(parents=True)
    (tmp_path / "python" / "lib" / "pyspark.zip").touch()
    return tmp_path


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    """A home without a Java yet."""
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(java_home: Path, version: str) -> None:
    java = java_home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)


def test_installed_spark_and_java_are_found() -> None:
    assert (find_spark().home / "bin" / "spark-class").is_file()
    assert (find_java() / "bin" / "java").is_file()


def test_version_is_that_of_the_jars(spark_home: Path) -> None:
    assert read_distribution(spark_home).version == "4.3.0"


def test_python_files_of_another_version_do_no_harm(spark_home: Path) -> None:
    (spark_home / "version.py").write_text('__version__ = "4.2.0"\n')
    assert read_distribution(spark_home).version == "4.3.0"


def test_missing_jars_are_named_with_the_fix(spark_home: Path) -> None:
    (spark_home / "jars" / "spark-core_2.13-4.3.0.jar").unlink()
    with pytest.raises(LocalClusterError, match="no Spark jars.*pip install .*pyspark"):
        read_distribution(spark_home)


@pytest.mark.parametrize("version", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19'])
def test_java_home_goes_first(java_home: Path, version: str) -> None:
    install(java_home, version)
    assert find_java({"JAVA_HOME": str(java_home), "PATH": "/nowhere"}) == java_home


def test_java_on_the_path_is_second(java_home: Path) -> None:
    install(java_home, 'openjdk version "17.0.15"')
    assert find_java({"PATH": str(java_home / "bin")}) == java_home


@pytest.mark.parametrize("version", ['openjdk version "11.0.2"', 'java version "1.8.0_412"'])
def test_old_java_is_refused(java_home: Path, version: str) -> None:
    install(java_home, version)
    with pytest.raises(LocalClusterError, match=r"is Java (11|8): install Java 17 or later"):
        find_java({"JAVA_HOME": str(java_home)})


def test_missing_java_is_named_with_the_fix(java_home: Path) -> None:
    with pytest.raises(LocalClusterError, match="no `java` on PATH.*install Java 17"):
        find_java({"PATH": str(java_home / "bin")})


def test_wrong_java_home_is_named_with_the_fix(java_home: Path) -> None:
    with pytest.raises(LocalClusterError, match=r"JAVA_HOME=.* has no bin/java: install Java 17"):
        find_java({"JAVA_HOME": str(java_home), "PATH": "/usr/bin"})


def test_java_that_is_none_is_refused(java_home: Path) -> None:
    install(java_home, "coffee")
    with pytest.raises(LocalClusterError, match="prints no version"):
        find_java({"JAVA_HOME": str(java_home)})


def test_java_that_does_not_run_is_refused(java_home: Path) -> None:
    install(java_home, "")
    (java_home / "bin" / "java").chmod(0o644)
    with pytest.raises(LocalClusterError, match="does not run"):
        find_java({"JAVA_HOME": str(java_home)})
