"""Jars, packages, files and archives: from the parameters of the operator to the properties of Spark."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies, is_uri, local_path
from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY


def violations(conf: dict[str, str] | None = None, **parameters: Any) -> list[str]:
    return [*Dependencies(**parameters).violations(conf or {})]


@pytest.mark.parametrize("jars", ["/a.jar, s3a://b/c.jar", ["/a.jar", "s3a://b/c.jar"], ("/a.jar,s3a://b/c.jar",)])
def test_a_list_may_be_text_with_commas(jars: object) -> None:
    dependencies = Dependencies(jars=jars)  # type: ignore[arg-type]
    assert dependencies.properties({}, {Path("/a.jar"): "file:///jobs/a.jar"}) == {
        "spark.jars": "file:///jobs/a.jar,s3a://b/c.jar"
    }


def test_each_parameter_sets_the_property_of_spark_submit() -> None:
    dependencies = Dependencies(
        exclude_packages=["a:b"],
        repositories="https://repo.example.com/maven",
        files=["/opt/routes.json"],
        archives=["/opt/env.tar.gz#environment", "hdfs://n/models.zip#models"],
        driver_class_path="/opt/lib/*",
        name="Departures",
    )
    staged = {Path("/opt/routes.json"): "s3a://j/routes.json", Path("/opt/env.tar.gz"): "s3a://j/env.tar.gz"}
    assert dependencies.properties({"spark.ui.port": "4050"}, staged) == {
        "spark.ui.port": "4050",
        "spark.jars.excludes": "a:b",
        "spark.jars.repositories": "https://repo.example.com/maven",
        "spark.files": "s3a://j/routes.json",
        "spark.archives": "s3a://j/env.tar.gz#environment,hdfs://n/models.zip#models",
        "spark.driver.extraClassPath": "/opt/lib/*",
        "spark.app.name": "Departures",
    }


@pytest.mark.parametrize(
    ("parameters", "conf"), [({"packages": ["a:b:1", "c:d:2"]}, {}), ({}, {"spark.jars.packages": "a:b:1,c:d:2"})]
)
def test_packages_are_left_to_the_launcher(parameters: dict[str, list[str]], conf: dict[str, str]) -> None:
    assert Dependencies(**parameters).properties(conf, {}) == {PACKAGES_PROPERTY: "a:b:1,c:d:2"}  # type: ignore[arg-type]


@pytest.mark.parametrize("item", ["s3a://bucket/a.jar", "local:///opt/a.jar", "hdfs:/a.jar", "https://h/a.jar"])
def test_spark_reads_a_uri_itself(item: str) -> None:
    dependencies = Dependencies(jars=item, py_files=item)
    assert is_uri(item)
    assert (dependencies.local_files, dependencies.remote_py_files) == ([], (item,))


def test_pattern_names_the_files_where_airflow_runs(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "c.txt"):
        (tmp_path / name).touch()
    dependencies = Dependencies(jars=f"file://{tmp_path}/*.jar", py_files=f"{tmp_path}/*")
    assert dependencies.items("jars") == [f"{tmp_path}/a.jar", f"{tmp_path}/b.jar"]
    assert dependencies.local_py_files == [tmp_path / "a.jar", tmp_path / "b.jar", tmp_path / "c.txt"]


def test_pattern_without_a_match_is_left_to_the_check_of_the_files(tmp_path: Path) -> None:
    assert Dependencies(jars=f"{tmp_path}/*.jar").local_files == [tmp_path / "*.jar"]
    assert violations(jars=f"{tmp_path}/*.jar") == []


def test_pattern_on_the_cluster_is_refused() -> None:
    (violation,) = violations(jars=["s3a://bucket/*.jar"])
    assert violation.startswith("jars: 's3a://bucket/*.jar' is a pattern")


@pytest.mark.parametrize(
    "item",
    [
        "/opt/a.jar",
        "file:///opt/a.jar",
        "file:/opt/a.jar",
        "/opt/a.jar#b",
        "file:////opt/a.jar",
        "file:///opt///a.jar",
        "file://localhost/opt/a.jar",
    ],
)
def test_path_is_a_file_where_airflow_runs(item: str) -> None:
    assert not is_uri(item)
    assert local_path(item) == Path("/opt/a.jar")
    assert Dependencies(jars=item, files=item).local_files == [Path("/opt/a.jar")]
    assert Dependencies(py_files=item).local_py_files == [Path("/opt/a.jar")]


@pytest.mark.parametrize(
    ("parameters", "violation"),
    [
        ({"jars": 5}, "jars must be a list, or text with commas between the items"),
        ({"packages": "a:b"}, "packages: 'a:b' is not a package: write group:artifact:version"),
        (
            {"exclude_packages": "a:b:1"},
            "exclude_packages: 'a:b:1' is not a dependency: write group:artifact, without a version",
        ),
        (
            {"files": "/opt/two words.csv"},
            "rename '/opt/two words.csv': the name of a staged file may contain letters, digits and the characters . _ - + = @ only",
        ),
        (
            {"archives": "s3a://b/model.bin#m"},
            "archives: 's3a://b/model.bin#m' is not an archive that Spark unpacks (.zip, .jar, .tar.gz, .tgz, .tar): use the parameter 'files'",
        ),
    ],
)
def test_violations(parameters: dict[str, Any], violation: str) -> None:
    assert violations(**parameters) == [violation]


def test_packages_and_exclusions_without_violations() -> None:
    assert violations(packages="a:b:1", exclude_packages=["a:c", "d:e"]) == []


@pytest.mark.parametrize(
    ("parameters", "name"), [({"jars": "/a.jar"}, "spark.jars"), ({"packages": "a:b:1"}, "spark.jars.packages")]
)
def test_property_and_parameter_must_not_both_be_set(parameters: dict[str, Any], name: str) -> None:
    (parameter,) = parameters
    expected = f"conf[{name!r}] and the parameter {parameter!r} set the same property: leave one of them out"
    assert violations({name: "x"}, **parameters) == [expected]


@pytest.mark.parametrize("name", ["env.zip", "env.tar.gz", "env.tgz", "lib.jar"])
def test_archive_must_be_one(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    archive.write_text("not an archive")
    expected = f"archives: {str(archive)!r} has the name of an archive, and its content is not an archive"
    assert violations(archives=f"{archive}#env") == [expected]
    if name.endswith(("zip", "jar")):
        zipfile.ZipFile(archive, "w").close()
    else:
        tarfile.open(archive, "w:gz").close()
    assert violations(archives=f"{archive}#env") == []
