"""Jobs that write to Delta Lake and to Iceberg, on real Spark. `make test-spark-versions` runs the tests on the versions that have these formats."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from airflow_adaptive.job.protocol.documents import Action, DriverStatus
from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.scheduler.state import Outcome
from tests.faults.matrix.table_job import MEMORY_MB, table_conf
from tests.support.driver.bounded_job import end_of_job
from tests.support.driver.driver_on_cluster import DriverOnCluster, plan
from tests.support.tables.contents import read_iceberg
from tests.support.tables.jars import FORMATS, ICEBERG, MINOR

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

NEEDS_ICEBERG = pytest.mark.skipif(MINOR not in ICEBERG, reason=f"Iceberg is not published for Spark {MINOR}")

FOLLOW = dedent(
    """
    import sys, time
    from pathlib import Path
    from airflow_adaptive.job import AdaptiveJob

    KIND, LIMIT = "{kind}", "{limit}"
    ROOT = Path(sys.argv[1])
    TABLE = f"delta.`{{ROOT}}/tables/read`" if KIND == "delta" else "lake.db.read"


    def follow(spark, parallelism):
        spark.sql(f"CREATE TABLE IF NOT EXISTS {{TABLE}} (id BIGINT) USING {{KIND}}")
        spark.sql(f"INSERT INTO {{TABLE}} VALUES (0)")

        def write(batch, number):
            if number == 0:
                for commit in range(3):
                    batch.sparkSession.sql(f"INSERT INTO {{TABLE}} VALUES ({{commit}})")
            while number and not (ROOT / "go").exists():
                time.sleep(0.2)

        where = f"{{ROOT}}/tables/read" if KIND == "delta" else TABLE
        rows = spark.readStream.format(KIND).option(LIMIT, 1).load(where)
        return rows.writeStream.foreachBatch(write).trigger(processingTime="1 second")


    AdaptiveJob(follow).run()
    """
)

LIMITS = {"delta": "maxFilesPerTrigger", "iceberg": "streaming-max-files-per-micro-batch"}

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


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if MINOR in FORMATS[kind]])
def test_driver_reports_the_unread_commits_of_a_table_and_the_age_of_the_oldest(
    driver: DriverOnCluster, kind: str
) -> None:
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(FOLLOW.format(kind=kind, limit=LIMITS[kind]), executors=1, conf=table_conf(kind, driver.root))
    status = driver.wait_status(
        "its unread commits", lambda now: bool((found := source(now)) and found.unread_versions)
    )
    found = source(status)
    assert found is not None
    assert found.unread_versions == 3
    assert found.lag_s is not None
    assert found.lag_s > 0
    assert status.queries[0].lag_s == found.lag_s
    (driver.root / "go").touch()
    status = driver.wait_status(
        "no unread commit", lambda now: (found := source(now)) is not None and found.unread_versions == 0
    )
    found = source(status)
    assert found is not None
    assert (found.lag_s, found.is_lag_minimum) == (0.0, False)


def source(status: DriverStatus) -> SourceReport | None:
    return next((source for query in status.queries for source in query.sources), None)


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
