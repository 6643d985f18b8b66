"""Lost records in Real-Time Mode, where the consumer of Kafka reports them instead of Spark's connector."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.protocol.failures import ChainedError, report_chain
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_recoverable

STREAM = "org.apache.spark.sql.streaming.StreamingQueryException"


@pytest.mark.parametrize(
    "message",
    [
        "Fetch position FetchPosition{offset=6041, offsetEpoch=Optional[0], currentLeader=x} is out of range for partition r3-1",
        "Offsets out of range with no configured reset policy for partitions: {r3-1=6041}",
    ],
)
def test_lost_records_in_real_time_mode_are_the_same_condition_with_the_remedy_that_works(message: str):
    chain = [
        ChainedError(STREAM, "[STREAM_FAILED] ..."),
        ChainedError(
            "org.apache.spark.SparkException", f"Job aborted due to stage failure: OffsetOutOfRange: {message}"
        ),
        ChainedError("org.apache.kafka.clients.consumer.OffsetOutOfRangeException", message),
    ]
    report = report_chain(chain)
    assert report.error_class == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    assert report.message == (
        f"[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] {message}. To begin again, delete the checkpoint of the query; "
        "Real-Time Mode does not read the option failOnDataLoss"
    )
    failure = Failure(error_class=report.error_class, message=report.message, causes=report.causes)
    assert not is_recoverable(failure)
