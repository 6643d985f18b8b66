"""Comparisons of errors: the message decides, and the name of a Java class does not."""

import pytest

from tests.lab.conformance.result import compare_error

MESSAGE = "the failure is not recoverable: SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    "expected",
    [
        "The failure is not recoverable",
        "the failure is not recoverable.",
        "JobException: The failure is not recoverable",
        "org.apache.flink.runtime.JobException The failure is not recoverable",
        "CompletionException: org.apache.flink.runtime.JobException: The failure is not recoverable",
        "JobException",
        "IllegalStateException: ",
    ],
)
def test_error_is_compared_by_its_message(expected: str):
    (comparison,) = compare_error(expected, MESSAGE)
    assert not comparison.deviates


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("JobException: Recovery is suppressed", MESSAGE),
        ("SyntaxErrors", MESSAGE),
        ("JobException", ""),
        ("", ""),
    ],
)
def test_error_with_another_message_deviates(expected: str, actual: str):
    (deviation,) = compare_error(expected, actual)
    assert deviation.deviates
    assert (deviation.what, deviation.expected, deviation.actual) == ("error", expected, actual)
