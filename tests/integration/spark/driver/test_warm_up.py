"""A copy of a query tells what it knows of its sources and its state, with real Spark in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SCRIPT = """
import json, sys
from dataclasses import asdict
from pyspark.sql import SparkSession
from airflow_adaptive.job.queries.warm_up import warm_up

root = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
rows = lambda: spark.readStream.schema("id long").json(root + "/in")
checkpoint = "file://" + root + "/job/checkpoints/hours"
distinct = lambda: rows().dropDuplicates(["id"])
output = distinct().writeStream.format("json").option("path", root + "/out").option("checkpointLocation", checkpoint)
output.trigger(availableNow=True).start().awaitTermination()
counts = rows().groupBy("id").count().writeStream.outputMode("complete")
for writer, place in (distinct().writeStream, checkpoint), (counts, checkpoint + "2"):
    print("found", json.dumps(asdict(warm_up(spark, writer, place, has_executors=True, timeout_s=600))))
text = rows().selectExpr("CAST(id AS string) AS id").dropDuplicates(["id"]).writeStream
for writer in text, rows().writeStream:
    try:
        warm_up(spark, writer, checkpoint, has_executors=True, timeout_s=600)
    except Exception as error:
        print("refused", json.dumps(f"{type(error).__name__}: {error}"))
"""


def test_copy_of_a_query_reports_its_operators_and_refuses_the_state_of_others(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell"}
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    lines = [line.split(" ", 1) for line in ran.stdout.splitlines() if line.startswith(("found ", "refused "))]
    assert [kind for kind, _ in lines] == ["found", "found", "refused", "refused"], ran.stderr[-2000:]
    same, new = (json.loads(text) for _, text in lines[:2])
    assert (same["sources"], same["operators"], same["state"]) == (["FileStreamSource"], ["dedupe"], ["dedupe"])
    assert (new["operators"], new["state"], new["unchecked"]) == (["stateStoreSave"], [], "")
    assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in lines[2][1]
    assert (
        "OtherStateError: query 'hours': the state belongs to another query, of dedupe, and this query has no operator"
        in lines[3][1]
    )
