"""Which failures a restart may mend."""

import pytest

from airflow_adaptive.scheduler.policies.failure_handling import Failure, is_recoverable


@pytest.mark.parametrize(
    ("error_class", "causes", "recoverable"),
    [
        ("TASK_FAILED", (), True),
        ("StreamingQueryException", ("Py4JJavaError", "java.io.IOException"), True),
        ("SyntaxError", (), False),
        ("ModuleNotFoundError", (), False),
        ("UNRESOLVED_COLUMN", ("pyspark.errors.exceptions.captured.AnalysisException",), False),
        ("StreamingQueryException", ("org.apache.spark.sql.AnalysisException",), False),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", (), False),
        ("STREAMING_STATEFUL_OPERATOR_MISMATCH", (), False),
        ("StreamingQueryException", ("RuntimeError", "SyntaxError"), False),
    ],
)
def test_recoverability_follows_the_failure_and_all_its_causes(
    error_class: str, causes: tuple[str, ...], recoverable: bool
):
    failure = Failure(error_class=error_class, message="", causes=causes)
    assert is_recoverable(failure) is recoverable


def test_user_may_name_others():
    failure = Failure(error_class="PaymentRefused", message="card expired")
    assert is_recoverable(failure)
    assert not is_recoverable(failure, ["Payment*"])
    assert failure.summary == "PaymentRefused: card expired"
