"""Files of Spark properties, in the format of Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._airflow.declaration.spark_submit import read_properties

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
