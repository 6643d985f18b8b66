"""Jobs that write to Delta Lake and to Iceberg, on real Spark. `make test-spark-versions` runs the tests on the versions that have these formats."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.scheduler.state import Outcome
from tests.faults.matrix.table_job import MEMORY_MB, table_conf
from tests.support.driver.bounded_job import end_of_job
from tests.support.tables.contents import read_iceberg
from tests.support.tables.jars import ICEBERG, MINOR

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

NEEDS_ICEBERG = pytest.mark.skipif(MINOR not in ICEBERG, reason=f"Iceberg is not published for Spark {MINOR}")

COPY = dedent(
    """
    import sys
    from airflow_adaptive.job import AdaptiveJob


    def copied(spark, parallelism):
        spark.sql("CREATE TABLE IF NOT EXISTS lake.db.copied (id BIGINT) USING iceberg")
        rows = spark.readStream.schema("id BIGINT").json(f"{sys.argv[1]}/input").repartition(parallelism["job"])
        return rows.writeStream.format("iceberg").option("path", "lake.db.copied").trigger(availableNow=True)


    AdaptiveJob(copied).run()
    """
)


@NEEDS_ICEBERG
def test_driver_that_repeats_a_batch_overwrites_no_file_that_its_predecessor_has_committed(
    spark_cluster: LocalCluster, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=4, memory_mb=4 * MEMORY_MB)
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "1.json").write_text("".join(f'{{"id": {number}}}\n' for number in range(10)))
    for parallelism in (1, 3):
        ended = end_of_job(
            spark_cluster,
            tmp_path,
            "copied",
            COPY,
            parallelism=parallelism,
            conf=table_conf("iceberg", tmp_path),
            memory_mb=MEMORY_MB,
        )
        assert ended.outcome is Outcome.FINISHED, ended.cause
        found = read_iceberg(tmp_path / "tables/db/copied")
        assert found is not None
        assert sorted(found.to_pydict()["id"]) == list(range(10))
        (
            tmp_path / "jobs/copied/checkpoints/copied/commits/0"
        ).unlink()  # as if the driver was killed before this commit
