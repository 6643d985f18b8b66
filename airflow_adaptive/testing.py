"""Tests of a job in CI, without a cluster: run its function on local Spark, and check the declarations of a DAG.

from airflow_adaptive.testing import run_job, validate


def test_cancellations_are_counted(tmp_path):
(tmp_path / "input").mkdir()
(tmp_path / "input" / "flights.json").write_text(...)
(row,) = run_job(cancellations, parallelism=2, directory=str(tmp_path))
assert row.cancellations == 1


def test_dag_is_valid():
validate(dag)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow_adaptive._core.scheduler.job_graph import DEFAULT_VERTEX

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["run_job", "validate"]


def run_job(
    build: Callable[..., Any],
    *,
    parallelism: int | Mapping[str, int] = 1,
    query: str | None = None,
    spark: SparkSession | None = None,
    timeout: timedelta = timedelta(minutes=5),
    **arguments: Any,
) -> list[Row]:
    """Run the function of a job on local Spark until its sources have no more rows, and return the rows that its query writes.

    The queries run as the driver runs them, on checkpoints that are deleted afterwards, but write to memory: a path or table of a sink stays as it is. A
    sink that is a function (`foreachBatch`, `foreach`) is called, and returns no rows.

    Args:
        build: the function, as `AdaptiveJob` and `@task.adaptive_spark` take it; a decorated function of a DAG file is fine.
        parallelism: subtasks of the job, or of each vertex. The rows must not depend on them: run the same test with 1 and with 3.
        query: name of the query whose rows are returned, for a function that returns several queries.
        spark: the session. None uses the active one, or else creates a session with a thread for each subtask, and stops it afterwards.
        timeout: longest time for which a query may run.
        arguments: further arguments of the function, such as the folder of the input.

    Raises:
        AdaptiveJobError: the function returns something that the driver cannot run, or starts a query. The message names the remedy.
        TimeoutError: a query still runs after the timeout.
        pyspark.errors.PySparkException: a query fails.
    """
    from pyspark.sql import DataFrameWriter, SparkSession  # noqa: PLC0415  Airflow needs no pyspark.

    from airflow_adaptive.job.queries.writers import PlannedParallelism, function_name, require_writers, starts_rejected  # noqa: PLC0415

    function = getattr(build, "function", build)
    called = function_name(function)
    planned = {DEFAULT_VERTEX: parallelism} if isinstance(parallelism, int) else dict(parallelism)
    slots = sum(planned.values())
    given = spark or SparkSession.getActiveSession()
    local = SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false")
    session = given or local.getOrCreate()
    try:
        session.conf.set("spark.sql.shuffle.partitions", slots)
        with starts_rejected(called):
            returned = function(session, PlannedParallelism(planned), **arguments)
        writers = require_writers(returned, called, DEFAULT_VERTEX)
        if isinstance(writers, DataFrameWriter):
            return list(writers._df.collect())
        if query is None and len(writers) > 1:
            raise ValueError(f"{called}() returns the queries {', '.join(writers)}: name one of them with query=...")
        rows = {name: _rows(session, name, writer, timeout) for name, writer in writers.items()}
        return rows[query or next(iter(rows))]
    finally:
        if given is None:
            session.stop()


def _rows(spark: SparkSession, name: str, writer: DataStreamWriter, timeout: timedelta) -> list[Row]:
    """Run one query until it is idle, and return the rows that it writes."""
    from airflow_adaptive.job.spark_internals import writer_field  # noqa: PLC0415

    is_function = str(writer_field(writer, "source")) in ("foreach", "foreachBatch")
    table = f"airflow_adaptive_{abs(hash(name))}"
    if not is_function:
        mode = str(writer_field(writer, "outputMode")).lower()
        writer = writer._df.writeStream.format("memory").queryName(table).outputMode(mode)
    with TemporaryDirectory(prefix="adaptive-test-") as checkpoint:
        running = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
        try:
            if not running.awaitTermination(max(1, round(timeout.total_seconds()))):
                raise TimeoutError(f"query {name!r} still runs after {timeout}")
        finally:
            running.stop()
    return [] if is_function else list(spark.table(table).collect())


def validate(dag: DAG, **params: Any) -> None:
    """Check the declaration of each adaptive job of a DAG as its task would, with rendered templates and without a request to a cluster.

    Args:
        dag: the DAG.
        params: parameters of the run; those of the DAG by default.

    Raises:
        DeclarationError: a declaration is invalid. The message lists all violations, each with its task.
    """
    from airflow_adaptive._airflow.declaration.validation import DeclarationError  # noqa: PLC0415  The driver needs no Airflow.

    now = datetime.now(UTC)
    context = {
        "dag": dag,
        "params": {**dag.params, **params},
        "run_id": f"manual__{now.isoformat()}",
        "logical_date": now,
        "ds": f"{now:%Y-%m-%d}",
        "ds_nodash": f"{now:%Y%m%d}",
        "ts": now.isoformat(),
    }
    violations = []
    for job in (job.prepare_for_execution() for task in dag.tasks for job in _jobs(task)):
        job.render_template_fields({**context, "task": job}, dag.get_template_env())
        try:
            job.check()
        except DeclarationError as error:
            violations += [f"task {job.task_id!r}: {violation}" for violation in error.violations]
    if violations:
        raise DeclarationError(violations)


def _jobs(task: Any) -> Iterator[Any]:
    """Yield the operators of the adaptive jobs that a task runs. Of a mapped task, only items that the DAG file lists are known."""
    from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator  # noqa: PLC0415

    if isinstance(task, AdaptiveSparkOperator):
        yield task
    elif issubclass(getattr(task, "operator_class", object), AdaptiveSparkOperator):
        items = task.expand_input.value
        yield from map(task.unmap, items if isinstance(items, list) else ())
