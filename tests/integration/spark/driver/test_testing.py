"""The function of a job on local Spark, as its author tests it in CI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

PROGRAM = """
import sys
from datetime import timedelta
from airflow_adaptive.testing import run_job
from pyspark.sql import functions as F

def lines(spark, parallelism, folder):
    return spark.readStream.schema("carrier string, delay int").json(folder).repartition(parallelism["job"])

def totals(spark, parallelism, folder):
    totals = lines(spark, parallelism, folder).groupBy("carrier").agg(F.sum("delay").alias("total"))
    return totals.writeStream.outputMode("complete").format("parquet").option("path", "/nowhere")

def two(spark, parallelism, folder):
    rows = lines(spark, parallelism, folder)
    seen = rows.writeStream.queryName("seen").foreachBatch(lambda batch, epoch: open(f"{folder}/../seen", "a").write(f"{batch.count()}\\n"))
    return [rows.where("delay > 10").writeStream.queryName("late").format("noop"), seen]

folder = sys.argv[1]
one = sorted((row.carrier, row.total) for row in run_job(totals, folder=folder))
assert one == sorted((row.carrier, row.total) for row in run_job(totals, parallelism=3, folder=folder)) == [("AA", 15), ("B6", 7)], one
assert [row.delay for row in run_job(two, query="late", folder=folder)] == [12]
assert open(f"{folder}/../seen").read() == "3\\n"
for function, error in ((two, "name one of them with query"), (lambda spark, parallelism: 1, "returned int")):
    try:
        run_job(function, **({"folder": folder} if function is two else {}))
    except (TypeError, ValueError) as raised:
        assert error in str(raised), raised
    else:
        raise AssertionError(error)
batch = run_job(lambda spark, parallelism: spark.range(3).write.mode("overwrite"))
assert len(batch) == 3
"""


@pytest.mark.timeout(300)
def test_author_gets_the_rows_of_each_query_whatever_the_parallelism(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    rows = [{"carrier": "AA", "delay": 12}, {"carrier": "AA", "delay": 3}, {"carrier": "B6", "delay": 7}]
    (folder / "flights.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_example_of_the_documentation_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "test-in-ci.md").read_text()
    (tmp_path / "test_example.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "dags")}
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout[-3000:]
