"""Which failures a restart may mend."""

import fnmatch
import json
from pathlib import Path
from pickle import PicklingError
from zipfile import ZipFile

import pyspark.errors
import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.failures import report_build_failure
from airflow_adaptive._core.scheduler.policies.failure_handling import (
    NON_RECOVERABLE,
    RECOVERABLE,
    Failure,
    is_recoverable,
)

STREAM = "org.apache.spark.sql.streaming.StreamingQueryException"
CAPTURED = "pyspark.errors.exceptions.captured."


def failure(error_class: str, *causes: str) -> Failure:
    return Failure(error_class=error_class, message="", causes=causes)


@pytest.mark.parametrize(
    "name",
    [
        *("TASK_FAILED", "DRIVER_LOST", "java.io.IOException", "java.lang.OutOfMemoryError", "OSError", "RuntimeError"),
        *("PYTHON_EXCEPTION", "DIVIDE_BY_ZERO", "PERMISSION_DENIED", "java.nio.file.AccessDeniedException"),
        *("CONCURRENT_STREAM_LOG_UPDATE", "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"),
        *("STATE_STORE_OPERATION_OUT_OF_ORDER", "STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE"),
        *("CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED", "JAVA_GATEWAY_EXITED", "java.nio.file.NoSuchFileException"),
    ],
)
def test_failure_of_the_environment_is_recoverable(name: str):
    assert is_recoverable(failure(name))
    assert is_recoverable(failure("STREAM_FAILED", STREAM, name))


JOB_FAILURES = [
    *(
        "SyntaxError",
        "IndentationError",
        "TabError",
        "ImportError",
        "NameError",
        "UnboundLocalError",
        "ModuleNotFoundError",
        "SCRIPT_WITHOUT_JOB",
    ),
    *(
        "pyspark.errors.exceptions.base.PySparkImportError",
        "airflow_adaptive.job.queries.job_queries.AdaptiveJobError",
        "airflow_adaptive.job.queries.real_time_mode.RealTimeModeError",
    ),
    *(CAPTURED + "AnalysisException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException"),
    "org.apache.spark.sql.catalyst.parser.ParseException",
    *(CAPTURED + "ParseException", "org.apache.spark.sql.catalyst.analysis.NoSuchTableException"),
    *("org.apache.spark.SparkUnsupportedOperationException", "DATA_SOURCE_NOT_FOUND"),
    *("STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED", "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL"),
    *("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"),
    *("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"),
    *("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
    *("STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE", "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
    *("STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE", "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE"),
    *("CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE", "STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE"),
    *("STATE_STORE_INVALID_CONFIG_AFTER_RESTART", "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"),
    *("STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY", "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS"),
    *("STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED", "STATE_STORE_INVALID_PROVIDER"),
    *("airflow_adaptive.job.entry.packages.UnpublishedPackageError", "DRIVER_NOT_STARTED"),
    *("airflow_adaptive._core.python_version.UnsupportedVersionError", "java.lang.UnsupportedClassVersionError"),
    *("java.lang.IncompatibleClassChangeError", "java.lang.NoSuchMethodError", "java.lang.NoSuchFieldError"),
    "java.lang.AbstractMethodError",
    *("SESSION_OR_CONTEXT_NOT_EXISTS", "airflow_adaptive.job.state.damage.DamagedCheckpointError"),
    "airflow_adaptive.job.queries.sources.topic_ids.TopicRecreatedError",
    "airflow_adaptive.job.queries.sources.table_commits.TableReplacedError",
    *("KAFKA_DATA_LOSS.START_OFFSET_RESET", "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"),
    *("KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"),
    *(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        "DELTA_SOURCE_IGNORE_DELETE",
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    ),
    *("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE", "DELTA_VERSIONS_NOT_CONTIGUOUS"),
    "org.apache.iceberg.exceptions.NoSuchTableException",
    *("MERGE_CARDINALITY_VIOLATION", "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"),
]
"""Classes and error conditions of failures of a job: at least one for each pattern."""


@pytest.mark.parametrize("name", JOB_FAILURES)
def test_failure_of_the_job_is_not_recoverable_anywhere_in_the_cause_chain(name: str):
    assert not is_recoverable(failure(name))
    assert not is_recoverable(failure("STREAM_FAILED", STREAM, name))


def test_each_pattern_has_a_failure():
    simple = [part for name in JOB_FAILURES for part in (name, name.rpartition(".")[2], name.partition(".")[0])]
    assert [pattern for pattern in NON_RECOVERABLE if not fnmatch.filter(simple, pattern)] == []


def test_error_conditions_are_those_of_spark():
    jar = next(Path(pyspark.__file__).with_name("jars").glob("spark-common-utils_*.jar"))
    with ZipFile(jar) as archive:
        known = json.loads(archive.read("error/error-conditions.json"))
    known |= json.loads(Path(pyspark.errors.__file__).with_name("error-conditions.json").read_text())
    conditions = {name.partition(".")[0] for name in JOB_FAILURES if name.partition(".")[0].isupper()}
    in_the_connector = {name for name in conditions if name == "KAFKA_DATA_LOSS" or "DELTA_" in name}
    assert conditions - known.keys() == {"SCRIPT_WITHOUT_JOB", FailureCode.DRIVER_NOT_STARTED} | in_the_connector
    assert set(RECOVERABLE) <= known.keys()


def test_restart_analyzes_a_changed_table_again():
    causes = (CAPTURED + "AnalysisException", "org.apache.spark.sql.AnalysisException")
    assert is_recoverable(failure("INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS.COLUMNS_MISMATCH", *causes))


@pytest.mark.parametrize("pattern", ["Refused", "payments.Refused", "*.Refused", "Ref*", "payments.*"])
def test_users_pattern_fits_a_class_by_its_simple_or_its_whole_name(pattern: str):
    refused = failure("STREAM_FAILED", STREAM, "payments.Refused")
    assert is_recoverable(refused)
    assert not is_recoverable(refused, [pattern])


@pytest.mark.parametrize("pattern", ["DIVIDE_BY_ZERO", "DIVIDE_BY_ZERO.*", "DIVIDE_*"])
def test_users_pattern_fits_a_condition_with_or_without_its_second_part(pattern: str):
    assert not is_recoverable(failure("DIVIDE_BY_ZERO.REMAINDER"), [pattern])


def test_recoverable_patterns_of_the_user_precede_all_other_patterns():
    missing = failure("PATH_NOT_FOUND", CAPTURED + "AnalysisException")
    assert not is_recoverable(missing)
    assert is_recoverable(missing, recoverable=["PATH_NOT_FOUND"])
    assert is_recoverable(missing, ["PATH_*"], ["PATH_NOT_FOUND"])
    assert is_recoverable(
        failure(FailureCode.BUILD_FUNCTION_ERROR, "KeyError"), recoverable=["KeyError"], has_run=False
    )


def test_non_recoverable_patterns_of_the_user_precede_the_built_in_patterns():
    changed = failure("INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS")
    assert not is_recoverable(changed, ["INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS"])


CODE_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, LookupError, NotImplementedError),
    *(OverflowError, PicklingError, RecursionError, TypeError, ValueError, ZeroDivisionError),
)
ERRORS_OF_SPARK = [
    error
    for name, error in vars(pyspark.errors).items()
    if name.startswith("PySpark") and issubclass(error, CODE_ERRORS)
] + [pyspark.errors.IllegalArgumentException]


@pytest.mark.parametrize("error", [*CODE_ERRORS, *ERRORS_OF_SPARK])
def test_code_error_of_the_build_function_is_not_recoverable_before_the_first_plan(error: type[Exception]):
    report = report_build_failure(error("x"))
    mistake = failure(report.error_class, *report.causes)
    assert not is_recoverable(mistake, has_run=False)
    assert is_recoverable(mistake, has_run=True)


def test_refused_driver_is_not_recoverable_before_the_first_accepted_one():
    assert not is_recoverable(failure(FailureCode.SUBMISSION_REFUSED), was_accepted=False)
    assert is_recoverable(failure(FailureCode.SUBMISSION_REFUSED), has_run=False)
    assert not is_recoverable(failure(FailureCode.DRIVER_REFUSED), has_run=False)
    assert is_recoverable(failure(FailureCode.DRIVER_REFUSED), has_run=True)
    assert is_recoverable(failure(FailureCode.NOT_SUBMITTED), was_accepted=False, has_run=False)


@pytest.mark.parametrize(
    "denied",
    [
        failure("java.nio.file.AccessDeniedException"),
        failure("STREAM_FAILED", STREAM, "org.apache.hadoop.security.AccessControlException"),
        failure("org.apache.kafka.common.errors.TopicAuthorizationException"),
        Failure(
            error_class="DIRECTORY",
            message="job directory s3://a: java.nio.file.AccessDeniedException: status.json: 403",
        ),
        failure("PermissionError"),
    ],
)
def test_account_without_rights_is_not_recoverable_before_the_first_plan_was_active(denied: Failure):
    assert not is_recoverable(denied, has_run=False)
    assert is_recoverable(denied, has_run=True)


@pytest.mark.parametrize(
    "causes",
    [
        (FailureCode.BUILD_FUNCTION_ERROR, "ConnectionError", "KeyError"),
        (FailureCode.BUILD_FUNCTION_ERROR, "RuntimeError"),
        (STREAM, "TypeError"),
        ("TypeError",),
        (),
    ],
)
def test_environment_error_of_the_build_function_and_query_error_are_recoverable(causes: tuple[str, ...]):
    assert is_recoverable(failure("X", *causes), has_run=False)


# ---- failures -------------------------------------------------------------------------------------------------------
