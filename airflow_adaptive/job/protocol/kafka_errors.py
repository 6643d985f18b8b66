"""Names the error conditions of Spark's Kafka connector, because the messages of its exceptions do not contain them.

Source: `error/kafka-error-conditions.json` and `org.apache.spark.sql.kafka010.KafkaIllegalStateException` of the connector 4.2.0.
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

MESSAGE: Final = re.compile(rf"Some data may have been lost because .*?Reason:\s+({'|'.join(REASONS)})", re.DOTALL)


def name_conditions(text: str) -> str:
    """Return the text with `[condition] reason`, as in Spark's own messages, in place of each message of the connector about lost data."""
    return MESSAGE.sub(lambda found: f"[{CONDITION}.{REASONS[found[1]]}] {found[1]}", text)
