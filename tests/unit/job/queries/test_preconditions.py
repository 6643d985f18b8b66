"""What Real-Time Mode requires: one error names all violations with their remedies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive.job.queries.real_time_mode import (
    RealTimeModeError,
    Session,
    WriterSettings,
    require_real_time,
)

SESSION = Session(checks_sinks=True, min_batch_ms=5000, provider="org.apache.spark.RocksDBStateStoreProvider")
FACTS = WriterSettings(batch_ms=5000, sink="kafka", output_mode="Update", sources=("kafka",), is_stateful=True)


def violation(facts: WriterSettings, session: Session = SESSION) -> str:
    with pytest.raises(RealTimeModeError) as raised:
        require_real_time({"q": facts}, [], session)
    return str(raised.value)


@pytest.mark.parametrize("sink", ["kafka", "console", "foreach"])
@pytest.mark.parametrize("checkpoint_format", [None, 2])
def test_queries_that_can_run(sink: str, checkpoint_format: int | None) -> None:
    require_real_time({"q": replace(FACTS, sink=sink, checkpoint_format=checkpoint_format)}, [], SESSION)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sink": "parquet"}, "the sink parquet is not supported: use kafka, console, foreach"),
        ({"sink": "foreachBatch"}, "the sink foreachBatch is not supported"),
        ({"output_mode": "Append"}, 'the output mode Append is not supported: add .outputMode("update")'),
        ({"sources": ("kafka", "rate")}, "the source rate is not supported: use kafka"),
        (
            {"source_options": ("subscribe", "maxoffsetspertrigger")},
            "the option maxOffsetsPerTrigger of a source is not supported: remove the option",
        ),
        ({"batch_ms": 1000}, "batches of 1000 ms are too short: set realTime to 5000 ms or more"),
    ],
)
def test_settings_of_the_script(changes: dict[str, Any], expected: str) -> None:
    text = violation(replace(FACTS, **changes))
    assert text.startswith("Real-Time Mode cannot start: query 'q': ")
    assert expected in text


def test_all_violations_are_in_one_error() -> None:
    text = violation(replace(FACTS, sink="parquet", output_mode="Append"))
    assert "sink" in text
    assert "output mode" in text


def test_sinks_are_accepted_if_the_user_turned_the_check_of_spark_off() -> None:
    require_real_time({"q": replace(FACTS, sink="my_sink")}, [], replace(SESSION, checks_sinks=False))


def test_checkpoint_of_the_first_format_is_named_with_its_remedy() -> None:
    text = violation(replace(FACTS, checkpoint_format=1))
    assert "state-store format 1" in text
    assert "give the query another name" in text


def test_state_store_without_the_second_format() -> None:
    session = replace(SESSION, provider="org.apache.spark.HDFSBackedStateStoreProvider")
    assert "remove spark.sql.streaming.stateStore.providerClass" in violation(FACTS, session)
    require_real_time({"q": replace(FACTS, is_stateful=False)}, [], session)


def test_queries_in_another_mode_need_a_job_of_their_own() -> None:
    with pytest.raises(RealTimeModeError, match="would take slots of its gang: run them in a job of their own"):
        require_real_time({"q": FACTS}, ["other"], SESSION)
