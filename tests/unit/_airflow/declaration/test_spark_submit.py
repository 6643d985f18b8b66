"""Parameters of `SparkSubmitOperator`: dependencies, application, properties file, lineage, and what to do instead of the others."""

from __future__ import annotations

import logging
import sys
import tarfile
import zipfile
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.openlineage.utils import spark
from airflow.sdk import DAG

from airflow_adaptive._airflow.declaration.spark_submit import (
    INSTEAD,
    PARENT,
    TRANSPORT,
    Dependencies,
    application_path,
    check_script,
    is_on,
    is_uri,
    local_path,
    read_properties,
    with_lineage,
)
from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator


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


@pytest.mark.parametrize("application", ["/opt/job.py", "file:///opt/job.py"])
def test_path_of_the_application_is_a_file_where_airflow_runs(application: str) -> None:
    assert application_path(application) == Path("/opt/job.py")


def test_file_of_the_cluster_is_refused() -> None:
    with pytest.raises(
        ValueError, match="'local:///opt/job.py' is a file of the cluster: use a file where Airflow runs"
    ):
        application_path("local:///opt/job.py")


@pytest.mark.parametrize("application", ["/opt/job.jar", "s3a://b/job.JAR", "/opt/Job.scala"])
def test_jvm_application_is_refused(application: str) -> None:
    with pytest.raises(
        ValueError, match="is a JVM application, and airflow-adaptive runs PySpark scripts only: use SparkS"
    ):
        check_script(application)


@pytest.mark.parametrize(
    "name", ["a,b.py", "my job.py", "job#1.py", "100%.py", "job'.py", "ü.py", "a\nb.py", "a\u2028b.py"]
)
@pytest.mark.parametrize("folder", ["/opt", "s3://bucket"])
def test_name_that_spark_would_not_find_is_refused(folder: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"rename .*: the name of a staged file may contain letters"):
        check_script(f"{folder}/{name}")


@pytest.mark.parametrize("name", ["copy.py", "queue.py", "pyspark.py"])
def test_script_with_the_name_of_a_module_of_every_driver_is_refused(name: str) -> None:
    """`copy.py` ended with an `ImportError` of `airflow_adaptive.job`, because Python imported the script instead of its own module."""
    with pytest.raises(ValueError, match=rf"'/opt/{name}' has the name of the module .*: rename the file"):
        check_script(f"/opt/{name}")
    assert [*Dependencies(py_files=[f"/opt/{name}"]).violations({})] == [
        f"'/opt/{name}' has the name of the module {name[:-3]!r}, and the driver would import this file instead: rename the file"
    ]


OURS = signature(AdaptiveSparkOperator.__init__).parameters
THEIRS = set(signature(SparkSubmitOperator.__init__).parameters) - {"self", "kwargs"}


def make(**parameters: Any) -> AdaptiveSparkOperator:
    required: dict[str, Any] = {"task_id": "t", "job": "j", "application": "/job.py", "job_directory": "file:///jobs"}
    return AdaptiveSparkOperator(**required | {"parallelism": 2} | parameters)


def test_each_parameter_exists_or_has_an_advice() -> None:
    assert THEIRS - set(OURS) == set(INSTEAD) & THEIRS
    assert not set(INSTEAD) & set(OURS)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_advice_is_an_error_of_the_dag_file(name: str) -> None:
    with pytest.raises(TypeError, match=f"^AdaptiveSparkOperator has no parameter '{name}': (leave it out|use )"):
        make(**{name: None})


def test_one_error_contains_all_parameters() -> None:
    with pytest.raises(TypeError, match="'num_executors': use parallelism.*; 'verbose': leave it out"):
        make(num_executors=2, verbose=True)


def test_templates_include_those_of_spark_submit_operator() -> None:
    assert set(SparkSubmitOperator.template_fields) - set(INSTEAD) <= set(AdaptiveSparkOperator.template_fields)


def test_error_of_a_rewritten_dag_names_missing_parameters_and_those_without_an_equivalent() -> None:
    """The user has replaced the name of the operator only."""
    rewritten: dict[str, Any] = {"task_id": "submit", "application": "/job.py", "num_executors": 2}
    with pytest.raises(TypeError) as raised:
        AdaptiveSparkOperator(**rewritten)
    error = str(raised.value)
    assert (
        "needs 'job': the id of the job, for example job='departures'; needs 'job_directory': the URI of a folder"
        in error
    )
    assert "has no parameter 'num_executors': use parallelism" in error
    assert "application" not in error


def test_default_args_supply_required_parameters() -> None:
    with DAG(
        "flights",
        schedule=None,
        default_args={"job_directory": "file:///jobs", "application": "/job.py", "parallelism": 2},
    ):
        arguments: dict[str, Any] = {"task_id": "t", "job": "j"}
        assert AdaptiveSparkOperator(**arguments).job_directory == "file:///jobs"


def test_partial_task_with_a_parameter_without_an_equivalent_names_what_to_use() -> None:
    with DAG("flights", schedule=None), pytest.raises(TypeError, match="'num_executors': use parallelism"):
        AdaptiveSparkOperator.partial(task_id="t", application="/job.py", num_executors=2)


FILE = """\
# comment
! comment
spark.executor.heartbeatInterval   20s
spark.sql.session.timeZone=UTC
spark.a : b c \n\n   spark.long = one,\\
    two
spark.escaped = C\\:\\\\temp\\tx\\u00fc\\u20AC
spark.empty
log4j.level = WARN
"""


def test_properties_are_read_as_by_spark(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text(FILE)
    assert read_properties(str(file)) == {
        "spark.executor.heartbeatInterval": "20s",
        "spark.sql.session.timeZone": "UTC",
        "spark.a": "b c",
        "spark.long": "one,two",
        "spark.escaped": "C:\\temp\txü€",
        "spark.empty": "",
    }


def test_without_a_file_there_are_no_properties() -> None:
    assert read_properties(None) == {}


def test_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="properties_file '/nowhere.conf' cannot be read where Airflow runs"):
        read_properties("/nowhere.conf")


def test_line_separators_of_unicode_are_part_of_a_value(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_bytes("spark.a=1\u20282\x0b3\x85\rspark.b\u00a0c=\u00a01\r\nspark.c 1".encode())
    assert read_properties(str(file)) == {"spark.a": "1\u20282\x0b3\x85", "spark.b\u00a0c": "\u00a01", "spark.c": "1"}


def test_object_that_is_no_path_is_refused() -> None:
    with pytest.raises(ValueError, match="must be text"):
        read_properties({"spark.a": "1"})  # type: ignore[arg-type]


DECLARED = {"spark.my.setting": "1"}
PARENT_RUN = {"spark.openlineage.parentRunId": "run", "spark.openlineage.parentJobName": "dag.task"}
TRANSPORT_HTTP = {
    "spark.openlineage.transport.type": "http",
    "spark.openlineage.transport.url": "http://lineage:5000",
    "spark.openlineage.transport.auth.type": "api_key",
    "spark.openlineage.transport.auth.apiKey": "hush-hush",
    "spark.openlineage.transport.headers.X-Tenant": "team",
}


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_get_parent_job_information_as_spark_properties", lambda _: PARENT_RUN)
    monkeypatch.setattr(spark, "_get_transport_information_as_spark_properties", lambda: TRANSPORT_HTTP)


def properties(declared: dict[str, str] | None = None, *, parent: bool = False, transport: bool = False) -> Any:
    return with_lineage(declared or DECLARED, {}, parent=parent, transport=transport)


def test_job_without_a_request_for_lineage_keeps_its_properties() -> None:
    assert properties() == DECLARED


def test_run_of_the_task_is_the_parent() -> None:
    assert properties(parent=True) == DECLARED | PARENT_RUN


def test_parent_that_the_job_declares_stays() -> None:
    declared = {"spark.openlineage.parentRunId": "mine"}
    assert properties(declared, parent=True) == declared


def test_transport_is_added_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = properties(transport=True)
    names = ("type", "url", "auth.type")
    assert found == DECLARED | {
        name: TRANSPORT_HTTP[name] for name in (f"spark.openlineage.transport.{it}" for it in names)
    }
    assert "spark.openlineage.transport.auth.apiKey, spark.openlineage.transport.headers.X-Tenant" in caplog.text
    assert "'secret-conf'" in caplog.text
    assert "hush-hush" not in caplog.text


def test_transport_does_not_replace_the_parent() -> None:
    both = properties(parent=True, transport=True)
    assert {name: both[name] for name in DECLARED | PARENT_RUN} == DECLARED | PARENT_RUN
    assert both["spark.openlineage.transport.type"] == "http"


def test_header_that_the_job_declares_itself_stays() -> None:
    declared = {
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.headers.X-Tenant": "mine",
    }
    assert properties(declared, parent=True) == declared | PARENT_RUN


def test_missing_provider_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.utils", None)
    with pytest.raises(ValueError, match=r"install airflow-adaptive\[openlineage\] on the workers"):
        properties(parent=True)


@pytest.mark.parametrize("option", [PARENT, TRANSPORT])
@pytest.mark.parametrize(
    ("configured", "declared", "expected"), [(True, None, True), (True, False, False), (False, True, True)]
)
def test_task_overrides_the_administrator(
    monkeypatch: pytest.MonkeyPatch, option: str, configured: bool, declared: bool | None, expected: bool
) -> None:
    monkeypatch.setenv(f"AIRFLOW__OPENLINEAGE__{option.upper()}", str(configured))
    assert is_on(declared, option) is expected


@pytest.mark.parametrize("option", [PARENT, TRANSPORT])
def test_lineage_is_off_by_default(option: str) -> None:
    assert not is_on(None, option)
