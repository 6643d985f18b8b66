"""Final causes that only the text of a failure tells, and the remedies of final failures."""

import pytest

from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.known_causes import NEWEST_SPARK, name_artifact, with_remedy
from airflow_adaptive._core.scheduler.state import Failing, Finished
from tests.lab.scenario import Scenario
from tests.support.tables.jars import FORMATS

BASE_PATH = "Wrong basePath file:/in/2026-11-02 for the root path: file:///in/2026-11-01"
SOURCES = "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested by the query."
SCHEMA = (
    "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state value schema. "
    "Please check number and type of fields. Existing value_schema=a.b and new value_schema=c. If you want to force running the query "
    "without schema validation, please set spark.sql.streaming.stateStore.stateSchemaCheck to false. However, please note that running "
    "the query with incompatible schema could cause non-deterministic behavior. SQLSTATE: 42K06"
)


@pytest.mark.parametrize(
    ("error_class", "message", "advice"),
    [
        ("java.lang.IllegalArgumentException", BASE_PATH, "the checkpoint is unchanged"),
        ("java.lang.AssertionError", SOURCES, "rename the query or the job"),
        ("IllegalArgumentException", "'path' is not specified.", "set the option 'path'"),
        (
            "IllegalArgumentException",
            "Schema must be specified when creating a streaming source DataFrame. If some files",
            "call schema(...)",
        ),
        (
            "py4j.Py4JException",
            "Constructor org.apache.spark.sql.Log([class org.apache.spark.sql.SparkSession, class java.lang.Boolean]) does not exist",
            "has no such method",
        ),
        (
            "java.lang.IllegalStateException",
            "The maximum supported log version is v1, but encountered v2. The log file was produced by a newer version of Spark and cannot be read",
            "with the Spark that wrote the checkpoint",
        ),
        ("TypeError", "trigger() got an unexpected keyword argument 'realTime'", "needs Spark 4.2 or later"),
        ("java.lang.UnsupportedClassVersionError", "class file version 65.0, recognizes up to 61.0", "needs Java 17"),
        ("SESSION_OR_CONTEXT_NOT_EXISTS", "SparkContext or SparkSession should be created first.", "build function"),
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", SCHEMA, "restore the earlier query"),
        (
            "java.lang.IllegalStateException",
            "Cannot process overwrite snapshot: 37, to ignore overwrites, set streaming-skip-overwrite-snapshots=true",
            "another writer has changed rows",
        ),
        (
            "java.lang.IllegalStateException",
            "Cannot load current offset at snapshot 53, the snapshot was expired or removed",
            "rename the query or the job",
        ),
        (
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            "The streaming query was reading from an unexpected Delta table (id = 'a')",
            "rename the query or the job",
        ),
        ("TableReplacedError", "the table /t was deleted and created again", "rename the query or the job"),
        ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "set the option 'skipChangeCommits' to 'true'", "skipChangeCommits"),
        ("org.apache.iceberg.exceptions.NoSuchTableException", "Cannot find table db.t in catalog lake", "db.t"),
        (
            "PySparkRuntimeError",
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11",
            "install on all workers the same minor version of Python",
        ),
        (
            "java.io.InvalidClassException",
            "org.apache.spark.sql.kafka010.KafkaBatchReaderFactory$; local class incompatible: stream classdesc serialVersionUID = 1",
            "the same version of Spark and of each jar",
        ),
        ("java.lang.NoClassDefFoundError", "org/apache/kafka/common/serialization/ByteArraySerializer", "Serializer"),
        (
            "java.lang.IllegalArgumentException",
            "Cannot write incompatible dataset to table with schema: table { 1: id: optional long } Problems: * id: string cannot be promoted to long",
            "cast the columns in the query",
        ),
        ("java.lang.IllegalArgumentException", "Field delay not found in source schema", "add the column to the table"),
        (
            "MERGE_CARDINALITY_VIOLATION",
            "The ON search condition of the MERGE statement matched",
            "keep one row for each key",
        ),
        (
            "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND",
            "'a.SparkCatalog': cannot find the plugin class.",
            "plugin class",
        ),
    ],
)
def test_known_cause_ends_a_running_job_at_once_with_what_to_do(error_class: str, message: str, advice: str):
    job = Scenario(resource_stabilization_timeout=0).given_executing(2).when_committed()
    job.when_query_failed(Failure(error_class=error_class, message=message))
    assert isinstance(job.state.current, Failing)
    assert advice in job.state.current.cause.message
    assert message[:22] in job.reason


def test_account_without_rights_ends_a_job_that_has_never_run_with_what_to_do():
    denied = Failure(error_class="java.nio.file.AccessDeniedException", message="s3a://rows/checkpoints: 403 Forbidden")
    job = Scenario(resource_stabilization_timeout=0).given_deploying(2)
    job.when_driver_ended(denied)
    assert isinstance(job.state.current, Finished)
    assert job.state.current.cause is not None
    assert job.state.current.cause.message.startswith(
        "s3a://rows/checkpoints: 403 Forbidden: the account of the driver may not do this"
    )
    running = Scenario(resource_stabilization_timeout=0).given_executing(2).when_committed()
    running.when_query_failed(denied).then("Restarting")


def test_failure_that_repeats_before_the_first_batch_ends_the_job_with_what_to_do():
    denied = Failure(error_class="java.nio.file.AccessDeniedException", message="s3a://rows/in: 403 Forbidden")
    job = Scenario(resource_stabilization_timeout=0, max_failures_before_first_batch=1).given_executing(2)
    job.when_query_failed(denied)
    assert isinstance(job.state.current, Failing)
    assert "the account of the driver may not do this" in job.state.current.cause.message
    assert "this happened once" in job.state.current.cause.message


def test_user_may_declare_a_known_cause_recoverable():
    job = Scenario(resource_stabilization_timeout=0, recoverable_failures="AssertionError").given_executing(2)
    job.when_query_failed(Failure(error_class="java.lang.AssertionError", message=SOURCES)).then("Restarting")


def test_advice_to_force_a_query_on_foreign_state_does_not_reach_the_user():
    message = with_remedy(Failure(error_class="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", message=SCHEMA)).message
    assert "force" not in message
    assert "stateSchemaCheck" not in message
    assert "Existing value_schema=a.b and new value_schema=c." in message
    assert "SQLSTATE: 42K06" in message


@pytest.mark.parametrize(
    ("condition", "message", "advice"),
    [
        (
            "TABLE_OR_VIEW_NOT_FOUND",
            "The table or view flights.no_such cannot be found.",
            "create the table, or correct its name; a name of three parts",
        ),
        (
            "REQUIRES_SINGLE_PART_NAMESPACE",
            "spark_catalog requires a single-part namespace, but got `lake`.`flights`.",
            "spark.sql.catalog.<name> in",
        ),
        ("CATALOG_NOT_FOUND", "The catalog `lak` not found.", "spark.sql.catalog.<name> in"),
    ],
)
def test_table_that_spark_does_not_find_is_reported_with_the_place_of_its_catalog(
    condition: str, message: str, advice: str
):
    failure = Failure(error_class=condition, message=message, causes=("AnalysisException",))
    assert with_remedy(failure).message.startswith(f"{message.rstrip('.')}: ")
    assert advice in with_remedy(failure).message
    job = Scenario(resource_stabilization_timeout=0).given_executing(2)
    job.when_query_failed(failure)
    assert isinstance(job.state.current, Failing)


@pytest.mark.parametrize(
    ("error_class", "message", "advice"),
    [
        (
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
            "Invalid streaming output mode: complete. This output mode is not supported in Data Source parquet.",
            "files are only appended: call withWatermark(...)",
        ),
        (
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
            "Invalid streaming output mode: append. This output mode is not supported for streaming aggregations without watermark on streaming DataFrames/DataSets.",
            "call withWatermark(...) before the aggregation",
        ),
        (
            "org.apache.spark.sql.catalyst.ExtendedAnalysisException",
            "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table.",
            "read rows in a function of foreachBatch",
        ),
        ("AttributeError", "'DataStreamWriter' object has no attribute 'awaitTermination'", "return the writer"),
        (
            "java.lang.IllegalArgumentException",
            "Cannot start query with name a as a query with that name is already active in this SparkSession",
            "give each query a .queryName(...)",
        ),
        (
            "WRITE_STREAM_NOT_ALLOWED",
            "`writeStream` can be called only on streaming Dataset/DataFrame.",
            "read the source with spark.readStream",
        ),
    ],
)
def test_mistake_of_a_beginner_is_reported_with_the_remedy(error_class: str, message: str, advice: str):
    found = with_remedy(Failure(error_class=error_class, message=message)).message
    assert found.startswith(message.rstrip("."))
    assert advice in found


def test_other_failures_stay_as_they_are():
    failure = Failure(error_class="SyntaxError", message="invalid syntax (job.py:3)")
    assert with_remedy(failure) == failure


@pytest.mark.parametrize(
    ("error_class", "message", "advice"),
    [
        ("DATA_SOURCE_NOT_FOUND", "Failed to find the data source: iceberg.", "iceberg-spark-runtime-4.1_2.13"),
        ("DATA_SOURCE_NOT_FOUND", "Failed to find the data source: delta.", "delta-spark_4.1_2.13"),
        (
            "KAFKA_DATA_SOURCE_NOT_ENABLED",
            "Failed to find data source: kafka. Please deploy the application as per the deployment section of Structured Streaming + Kafka Integration Guide.",
            "use the package org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.4",
        ),
        (
            "java.lang.NoClassDefFoundError",
            "org/apache/spark/sql/kafka010/KafkaSource",
            "spark-sql-kafka-0-10_2.13:4.1.4, or the newest",
        ),
        (
            "java.lang.ClassNotFoundException",
            "Cannot find catalog plugin class for catalog 'spark_catalog': org.apache.spark.sql.delta.catalog.DeltaCatalog.",
            "delta-spark_4.1_2.13",
        ),
        (
            "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND",
            "Cannot load catalog 'lake' with the plugin class 'org.apache.iceberg.spark.SparkCatalog'",
            "iceberg-spark-runtime-4.1_2.13",
        ),
        (
            "UnpublishedPackageError",
            "the packages cannot be resolved: [unresolved dependency: org.apache.iceberg#iceberg-spark-runtime-4.2_2.13;1.11.0: not found]",
            "use the package org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        ),
        (
            "java.lang.NoSuchMethodError",
            "'void org.apache.spark.sql.Column.<init>()'",
            "jars and packages that were built for it",
        ),
    ],
)
def test_missing_or_unsuitable_jar_is_named_for_the_spark_of_the_driver(error_class: str, message: str, advice: str):
    named = name_artifact(Failure(error_class=error_class, message=message), "4.1.4").message
    assert named.startswith(message.rstrip("."))
    assert "the driver runs Spark 4.1.4: use" in named
    assert advice in named


def test_artifact_of_an_older_spark_is_named_if_there_is_none_for_the_driver():
    failure = Failure(error_class="DATA_SOURCE_NOT_FOUND", message="Failed to find the data source: iceberg.")
    assert name_artifact(failure, "4.10.0").message == (
        "Failed to find the data source: iceberg; the driver runs Spark 4.10.0: use Spark 4.1 with the package "
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0, or org.apache.iceberg:iceberg-spark-runtime-4.10_2.13 if it has been published since"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_newest_spark_with_an_artifact_is_the_newest_that_the_tests_resolve(name: str):
    minor, packages = list(FORMATS[name].items())[-1]
    failure = Failure(error_class="DATA_SOURCE_NOT_FOUND", message=f"Failed to find the data source: {name}.")
    assert NEWEST_SPARK[name] == minor
    assert name_artifact(failure, f"{minor}.0").message.endswith(f"use the package {packages.names[0]}")


@pytest.mark.parametrize("error_class", ["DIVIDE_BY_ZERO", "java.lang.ClassNotFoundException"])
def test_failure_that_no_jar_of_a_connector_has_caused_names_no_artifact(error_class: str):
    failure = Failure(error_class=error_class, message="com.example.Missing")
    assert name_artifact(failure, "4.1.4") == failure
