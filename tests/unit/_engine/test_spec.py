"""The sizes of memory are read in mebibytes, or refused."""

from __future__ import annotations

import pytest

from airflow_adaptive._engine.spec import parse_memory


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1048576b", 1),
        ("2048k", 2),
        ("1023kb", 0),
        ("512m", 512),
        (" 2 G ", 2048),
        ("1t", 1024**2),
        ("1PB", 1024**3),
    ],
)
def test_memory_is_read_in_mebibytes(text: str, mib: int) -> None:
    assert parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "512", "0m", "m", "1.5g", "-1g", "2gg"])
def test_memory_without_a_unit_or_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^executor_memory .* is not a memory size: use, for example, '512m' or '2g'"):
        parse_memory(text, "executor_memory")
