"""Names the error conditions of Spark's Kafka connector, because the messages of its exceptions do not contain them, and adds the remedy.

Source: `error/kafka-error-conditions.json` and `org.apache.spark.sql.kafka010.KafkaIllegalStateException` of the connector 4.2.0. In Real-Time Mode,
the connector does not check its offsets, so that the exception of Kafka's consumer reports lost records
(`org.apache.kafka.clients.consumer.OffsetOutOfRangeException`).
"""

from __future__ import annotations

import re
from typing import Final

CONDITION: Final = "KAFKA_DATA_LOSS"

REASONS: Final = {
    "Starting offset for ": "START_OFFSET_RESET",
    "Could not read records ": "COULD_NOT_READ_OFFSET_RANGE",
    "Added partition ": "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
    "Partition ": "PARTITION_OFFSET_CHANGED",
    "Partitions ": "PARTITIONS_DELETED",
    "Cannot find initial offsets ": "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
}
"""Beginning of the reason in a message, and the second part of the error condition."""

MESSAGE: Final = re.compile(
    rf"Some data may have been lost because .*?Reason:\s+({'|'.join(REASONS)})([^\n]*)", re.DOTALL
)

OUT_OF_RANGE: Final = re.compile(
    r"((?:Fetch position [^\n]*? is|Offsets) out of range (?:for partition|with no configured)[^\n]*)"
)

REMEDY: Final = (
    " To continue without these records, set the option failOnDataLoss of the source to false until the next batch is committed. To begin again, "
    "delete the checkpoint of the query"
)

REAL_TIME_REMEDY: Final = (
    " To begin again, delete the checkpoint of the query; Real-Time Mode does not read the option failOnDataLoss"
)


def name_conditions(text: str) -> str:
    """Return the text with `[condition] reason` and the remedy in place of each message about lost data."""
    text = MESSAGE.sub(lambda found: f"[{CONDITION}.{REASONS[found[1]]}] {found[1]}{_sentence(found[2])}{REMEDY}", text)
    return OUT_OF_RANGE.sub(
        lambda found: f"[{CONDITION}.COULD_NOT_READ_OFFSET_RANGE] {_sentence(found[1])}{REAL_TIME_REMEDY}", text
    )


def _sentence(text: str) -> str:
    return f"{text.rstrip(' .')}."
