"""A copy of a query tells what it knows of its sources and its state, with real Spark in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_adaptive._core.codec import decode
from airflow_adaptive._core.protocol.documents import PreparedQuery, QueryReport
from airflow_adaptive._web.api.job_details import query_previews

pytestmark = pytest.mark.long

SCRIPT = """
import json, sys, time
from dataclasses import asdict
from pyspark.sql import SparkSession
from pyspark.sql.functions import concat, lit
from airflow_adaptive._core.protocol.documents import DriverPlan
from airflow_adaptive.job.queries.job_queries import JobQueries
from airflow_adaptive.job.queries.warm_up import warm_up
from airflow_adaptive.job.state.repartition import CheckpointRepartitioner

root = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
rows = lambda: spark.readStream.schema("id long").json(root + "/in")
checkpoint = "file://" + root + "/job/checkpoints/hours"
distinct = lambda: rows().dropDuplicates(["id"])
output = distinct().writeStream.format("json").option("path", root + "/out").option("checkpointLocation", checkpoint)
output.trigger(availableNow=True).start().awaitTermination()
print("found", json.dumps(asdict(warm_up(spark, distinct().writeStream, checkpoint, has_executors=True, timeout_s=600))))
text = rows().selectExpr("CAST(id AS string) AS id").dropDuplicates(["id"]).writeStream
for writer in text, rows().writeStream:
    try:
        warm_up(spark, writer, checkpoint, has_executors=True, timeout_s=600)
    except Exception as error:
        print("refused", json.dumps(f"{type(error).__name__}: {error}"))

def counts(key, *output):
    return JobQueries(
        spark,
        lambda session, parallelism: rows().groupBy(key).count().select(*output).writeStream.outputMode("update").format("noop"),
        job="counts",
        checkpoint=lambda name: "file://" + root + "/job/checkpoints/counts",
        repartition=CheckpointRepartitioner(spark),
    )

def plan(partitions):
    return DriverPlan(query_version=1, parallelism={"counts": 1}, executors=1, state_partitions={"counts": partitions})

def prepared(queries):
    (found,) = queries.warm_up(plan(2), has_executors=True)
    return asdict(found)

print("found", json.dumps(prepared(counts("id", "id", "count"))))
running = counts("id", "id", "count")
writers = running.build(plan(3))
running.prepare(writers, plan(3))
running.start(writers, plan(3))
while running.reports()[0].batch_id < 0 and running.failure() is None:
    time.sleep(0.1)
print("found", json.dumps(asdict(running.reports()[0])))
print("found", json.dumps(prepared(counts("id", "count", "id"))))
try:
    prepared(counts(concat("id", lit("hunter2")), "count"))
except Exception as error:
    print("refused", json.dumps(f"{type(error).__name__}: {error}"))
running.halt()
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
    kinds = ["found", "refused", "refused", "found", "found", "found", "refused"]
    assert [kind for kind, _ in lines] == kinds, ran.stderr[-2000:]
    same, key, other, new, running, kept, refused = (json.loads(text) for _, text in lines)
    assert (same["sources"], same["state_after"]) == (["FileStreamSource"], same["state_before"])
    assert [it["operator"] for it in same["state_after"]] == ["dedupe"]
    assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in key
    text = (
        "OtherStateError: query 'hours': the state belongs to another query, of dedupe, and this query has no operator"
    )
    assert text in other

    # A deployment of a query that runs: another output keeps the state, another group does not.
    count = {"operator": "stateStoreSave", "key": "id bigint", "value": "count bigint", "partitions": 2}
    assert (new["state_before"], new["state_after"], new["unchecked"]) == ([], [count], "")
    (found,) = query_previews([decode(PreparedQuery, kept)], [decode(QueryReport, running)])
    assert kept["state_before"] == kept["state_after"] == [{**count, "partitions": 3}]
    assert found.plan_changes == [
        " StreamingRelation",
        "+output count bigint",
        " output id bigint",
        "-output count bigint",
    ]
    assert found.state_reason == "Spark has accepted the state in its checkpoint"
    assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in refused
