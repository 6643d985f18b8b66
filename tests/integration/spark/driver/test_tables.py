"""Jobs that write to Delta Lake and to Iceberg, on real Spark. `make test-spark-versions` runs the tests on the versions that have these formats."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pyarrow
import pyarrow.parquet
import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverStatus
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.command import committed_files
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.matrix.matrix_job import OPTIONS, WORKER, WORKERS
from tests.lab.faults.matrix.table_job import MEMORY_MB, TableJob, supported_sinks, table_conf
from tests.support.driver.bounded_job import end_of_job
from tests.support.driver.driver_on_cluster import DriverOnCluster, plan
from tests.support.jars import MINOR
from tests.support.page_dags import page_dags
from tests.support.tables.contents import READERS, RECREATIONS, REPLACEMENTS, iceberg_table, read_iceberg
from tests.support.tables.jars import FORMATS, ICEBERG

DAGS = page_dags()
KAFKA = "departures_to_kafka"

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


@NEEDS_ICEBERG
@pytest.mark.timeout(1800)
def test_twenty_restarts_of_one_query_reuse_no_name_of_a_file(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    """Ten in new drivers (tier 3), and ten in the same one (tier 1), with another number of tasks (apache/iceberg#8609)."""
    for _ in range(WORKERS):
        spark_cluster.add_worker(**WORKER)
    job = TableJob(spark_cluster, tmp_path / "job", tmp_path / "jobs", "restarts", sink="iceberg")
    try:
        job.begin()
        for number in range(10):
            epoch = job.epoch()
            job.feed(1)
            job.redeploy(conf={"spark.deployed.by": str(number)})
            job.wait_for("another driver", lambda epoch=epoch: job.epoch() > epoch)  # type: ignore[misc]
            job.feed(1)
            job.have(read=2 - number % 2)
            job.wait_rows()
        outcome = job.finish(job.loop).check()
    finally:
        job.close()
    assert outcome.epochs == 11
    table = iceberg_table(job.folder)
    files = table.inspect.files().to_pydict()
    assert len(set(files["file_path"])) == len(files["file_path"])
    sizes = {file: Path(file.removeprefix("file:")).stat().st_size for file in files["file_path"]}
    assert list(sizes.values()) == files["file_size_in_bytes"], "a file was overwritten after its commit"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sink", supported_sinks())
def test_job_continues_with_a_table_that_was_deleted_and_created_again(
    spark_cluster: LocalCluster, tmp_path: Path, sink: str
) -> None:
    """The living driver has the metadata of the old table in caches, which expire only if nothing reads the table for 30 s: here never."""
    for _ in range(WORKERS):
        spark_cluster.add_worker(**WORKER)
    job = TableJob(spark_cluster, tmp_path / "job", tmp_path / "jobs", "replaced", sink=sink)
    conf = {**job.changes["conf"], "spark.sql.catalog.lake.cache.expiration-interval-ms": "-1"}
    job.changes = {**job.changes, "conf": conf}
    try:
        job.begin()
        before, checkpoint = job.expected_rows(), job.directory / "checkpoints" / job.job
        job.wait_for(
            "the end of the batch", lambda: len(files(checkpoint, "commits")) == len(files(checkpoint, "offsets"))
        )
        RECREATIONS[job.kind](job.folder)
        for _ in range(3):
            job.feed(1)
            job.wait_for("the new rows", lambda: set(job.rows()) == job.expected_rows() - before)
        rows, epochs = job.rows(), job.epoch()
        job.request_state("suspended")
        job.wait_exit(job.loop, 0)
    finally:
        job.close()
    assert len(rows) == len(set(rows))
    assert epochs <= 2


def files(checkpoint: Path, name: str) -> list[Path]:
    """Return the files of the batches that have begun (`offsets`) or ended (`commits`)."""
    return list((checkpoint / name).glob("[0-9]*"))


READ = dedent(
    """
    import sys
    from pathlib import Path
    from airflow_adaptive.job import AdaptiveJob

    KIND, ROOT = "{kind}", Path(sys.argv[1])
    TABLE = f"delta.`{{ROOT}}/tables/db/read`" if KIND == "delta" else "lake.db.read"


    def read(spark, parallelism):
        if not (ROOT / "created").exists():
            spark.sql(f"CREATE TABLE {{TABLE}} (id BIGINT) USING {{KIND}}")
            spark.sql(f"INSERT INTO {{TABLE}} VALUES (0)")
            (ROOT / "created").touch()
        rows = spark.readStream.format(KIND).load(f"{{ROOT}}/tables/db/read" if KIND == "delta" else TABLE)
        return rows.writeStream.foreachBatch(lambda batch, number: batch.count()).trigger(processingTime="1 second")


    AdaptiveJob(read).run()
    """
)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if MINOR in FORMATS[kind]])
def test_job_whose_source_was_deleted_and_created_again_ends_with_the_remedy(
    spark_cluster: LocalCluster, tmp_path: Path, kind: str
) -> None:
    spark_cluster.add_worker(cores=3, memory_mb=3 * MEMORY_MB)
    conf = {
        **table_conf(kind, tmp_path),
        "spark.sql.catalog.lake.cache.expiration-interval-ms": "-1",
    }

    def replace_source() -> None:
        wait_until((tmp_path / "jobs/read/checkpoints/read/commits/0").exists, 300, "the first batch")
        REPLACEMENTS[kind](tmp_path / "tables/db/read")

    with ThreadPoolExecutor() as pool:
        replaced = pool.submit(replace_source)
        ended = end_of_job(
            spark_cluster, tmp_path, "read", READ.format(kind=kind), conf=conf, memory_mb=MEMORY_MB, options=OPTIONS
        )
        replaced.result()
    assert ended.outcome is Outcome.FAILED
    assert ended.cause is not None
    assert "rename the query or the job" in ended.cause.message


def kind_of(name: str) -> str:
    """Return the format of the table of a DAG, "" without one."""
    return next((kind for kind in FORMATS if kind in name), "")


@pytest.mark.parametrize(
    "name", [name for name in DAGS if name != KAFKA and MINOR in FORMATS.get(kind_of(name), MINOR)]
)
def test_dag_of_the_page_repeats_a_batch_without_a_repeated_row(
    spark_cluster: LocalCluster, tmp_path: Path, name: str
) -> None:
    """Each run reads one more file. Before the third run, the commit of the second batch is deleted, as if the driver had been killed before it."""
    spark_cluster.add_worker(cores=3, memory_mb=3 * MEMORY_MB)
    flights, kind, dag = tmp_path / "flights", kind_of(name), DAGS[name]
    flights.mkdir()
    conf = table_conf(kind, tmp_path) if kind else {}
    assert dag.parameters.get("conf", {}).keys() <= conf.keys()
    script = dag.script({"/data/": f"{tmp_path}/", "processingTime='1 minute'": "availableNow=True"})
    for number in (0, 1, 1):
        rows = ({"id": 3 * number + at, "carrier": carrier} for at, carrier in enumerate(("AA", "UA", "UA")))
        (flights / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        ended = end_of_job(spark_cluster, tmp_path, name, script, conf=conf, memory_mb=MEMORY_MB)
        assert ended.outcome is Outcome.FINISHED, ended.cause
        assert written(tmp_path, name) == [("AA", number + 1), ("UA", 2 * number + 2)]
        if number:
            (tmp_path / f"jobs/{name}/checkpoints/{name}/commits/1").unlink(missing_ok=True)


def written(root: Path, name: str) -> list[tuple[str, int]]:
    """Return the number of departures of each carrier, read without Spark."""
    kind = kind_of(name)
    target = "carriers" if "merged" in name else "batches" if "folders" in name else "departures"
    folder = root / ("tables/flights" if kind == "iceberg" else kind) / target
    table = READERS[kind](folder) if kind else read_files(folder)
    assert table is not None
    if "flights" in table.column_names:
        return sorted((row["carrier"], row["flights"]) for row in table.to_pylist())
    return sorted(Counter(table.column("carrier").to_pylist()).items())


def read_files(folder: Path) -> pyarrow.Table:
    """Return the rows of a folder: of the files in Spark's log, if there is one."""
    files = committed_files(folder) if (folder / "_spark_metadata").exists() else folder.rglob("*.parquet")
    return pyarrow.concat_tables([pyarrow.parquet.ParquetFile(file).read() for file in files])
