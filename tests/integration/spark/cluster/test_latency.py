"""The latency of a query is the age of its rows, as Spark measures it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOUR_MS = 3_600_000

# Rows whose ages are 1 to 100 hours, and a row without a time. Ages of hours let a slow machine change nothing.
SCRIPT = """
import json
import sys
from pyspark.sql import SparkSession
from airflow_adaptive.job.queries.progress import observe_latency, read_latency

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
numbers = spark.readStream.schema("hours int").json(sys.argv[1])
times = numbers.selectExpr("hours", "timestampadd(HOUR, -hours, current_timestamp()) AS at")
rows = observe_latency(times, "at")
query = rows.writeStream.format("memory").queryName("rows").trigger(availableNow=True).start()
query.awaitTermination()
found = read_latency(query.lastProgress)
print(json.dumps([rows.columns, found.rows, found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms]))
spark.stop()
"""


@pytest.mark.long
def test_latency_is_the_age_of_the_rows_and_adds_no_column(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"hours": hours}) for hours in (*range(1, 101), None)]
    (tmp_path / "in" / "rows.json").write_text("\n".join(lines))
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "in")],
        capture_output=True,
        cwd=tmp_path,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    columns, rows, *ages_ms = json.loads(run.stdout.splitlines()[-1])
    assert (columns, rows) == (["hours", "at"], 100)
    assert [round(age_ms / HOUR_MS) for age_ms in ages_ms] == [50, 95, 99, 100]
