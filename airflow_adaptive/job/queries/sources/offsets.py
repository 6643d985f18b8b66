"""Offsets of a source that counts rows by partition, such as Kafka. Spark writes such offsets as `{"topic": {"0": 12}}`."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

Fact = TypeVar("Fact")

Partition = tuple[str, int]
"""Topic and number of a partition."""

Offsets = Mapping[Partition, int]
"""Number of the next row of each partition."""


def parse_offset(text: str | None) -> Any:
    """Return the offset in a text of Spark's progress, or None. Before Spark 4.2, PySpark contains the text of a Python object instead of JSON."""
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return parse(text or "")
    return None


def read_offsets(text: str | None) -> Offsets | None:
    """Return the offsets in a text, or None if the source does not count rows by partition."""
    try:
        topics = parse_offset(text)
        return {(topic, int(number)): int(row) for topic, rows in topics.items() for number, row in rows.items()}
    except (AttributeError, TypeError, ValueError):
        return None


def by_topic(facts: Mapping[Partition, Fact]) -> dict[str, dict[str, Fact]]:
    """Return offsets, or other facts of partitions, as JSON contains them: by topic, and by the number of the partition as text."""
    topics: dict[str, dict[str, Fact]] = {}
    for (topic, number), fact in facts.items():
        topics.setdefault(topic, {})[str(number)] = fact
    return topics


def unread_rows(read: Offsets, ends: Offsets) -> dict[Partition, int]:
    """Return the unread rows of each partition of the end offsets. A query reads a new partition from its first row."""
    return {partition: max(row - read.get(partition, 0), 0) for partition, row in ends.items()}
