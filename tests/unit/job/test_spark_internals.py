"""The names of Spark's classes, and what a version of Spark can do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import Capability
from airflow_adaptive._core.python_version import UnsupportedVersionError, require_python
from airflow_adaptive.job.spark_internals import (
    checkpoint_log,
    class_name,
    offset_metadata,
    report_spark,
    require_supported,
    unused_archive,
)


@pytest.mark.parametrize("version", ["3.5.6", "3.5.3-amzn-0", "2.4", "4.0.0"])
def test_only_an_older_spark_is_refused_with_found_and_supported_version(version: str):
    if version == "4.0.0":
        require_supported(version)
        return
    with pytest.raises(UnsupportedVersionError) as raised:
        require_supported(version)
    assert f"the driver runs Spark {version}, and airflow-adaptive supports Spark 4.0 and later: upgrade" in str(
        raised.value
    )


@pytest.mark.parametrize("version", ["4.0.0-preview1", "4.10.1", "5.0.0", "custom"])
def test_newer_and_unknown_versions_are_supported(version: str):
    require_supported(version)


@pytest.mark.parametrize(
    ("version", "lacks"),
    [("4.0.2-amzn-0", True), ("4.1.4", True), ("4.2.0", False), ("4.10.0", False), ("custom", False)],
)
def test_spark_since_4_2_repartitions_state(version: str, lacks: bool):
    reason = report_spark(version).lack(Capability.REPARTITION)
    assert reason == (f"Spark {version} cannot change the number of state partitions; Spark 4.2 can" if lacks else "")


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("4.0.5", "org.apache.spark.sql.execution.streaming.OffsetSeqLog"),
        ("4.1.4", "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog"),
        ("4.3.0", "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog"),
    ],
)
def test_streaming_classes_are_in_sub_packages_since_4_1(version: str, name: str):
    assert class_name("OffsetSeqLog", version) == name


@pytest.mark.parametrize(("version", "name"), [("4.0.5", "metadata"), ("4.1.4", "metadata"), ("4.2.0", "metadataOpt")])
def test_metadata_of_a_logged_batch_has_another_name_before_4_2(version: str, name: str):
    logged = SimpleNamespace(**{name: lambda: "the metadata"})
    assert offset_metadata(SimpleNamespace(version=version), logged) == "the metadata"  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "arguments"), [("4.1.4", ()), ("4.2.0", (True,))])
def test_log_is_read_only_where_spark_has_such_readers(version: str, arguments: tuple[bool, ...]):
    created: list[tuple[Any, ...]] = []
    jvm = SimpleNamespace(**{class_name("CommitLog", version): lambda *given: created.append(given)})
    spark: Any = SimpleNamespace(version=version, _jvm=jvm, _jsparkSession="session")
    checkpoint_log(spark, "CommitLog", "file:///checkpoint/commits")
    assert created == [("session", "file:///checkpoint/commits", *arguments)]


@pytest.mark.parametrize("version", [(3, 9, 18), (2, 7, 18)])
def test_an_old_python_is_refused_with_found_and_supported_version(version: tuple[int, ...]):
    with pytest.raises(
        UnsupportedVersionError, match="the driver runs Python .*, and airflow-adaptive supports Python 3.10 and later"
    ):
        require_python(version)


def test_python_3_10_is_supported():
    require_python((3, 10, 0))


@pytest.mark.parametrize(
    ("kind", "jvm", "unused"),
    [
        ("default", "mixed mode", "/opt/spark.jsa"),
        ("extra", "mixed mode", "/opt/spark.jsa"),
        ("extra", "mixed mode, sharing", None),
        ("executor", "mixed mode", None),
    ],
)
def test_archive_of_classes_is_unused_where_the_jvm_shares_none(kind: str, jvm: str, unused: str | None) -> None:
    conf = {f"spark.driver.{kind}JavaOptions": "-Da=b -XX:SharedArchiveFile=/opt/spark.jsa -Xss4m"}
    system = SimpleNamespace(getProperty={"java.vm.info": jvm}.__getitem__)
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(getConf=lambda: conf), _jvm=SimpleNamespace(**{"java.lang.System": system})
    )
    assert unused_archive(spark) == unused
