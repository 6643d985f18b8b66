"""The judge of the rescale history itself: it passes nothing that it has not understood."""

from typing import Any

import pytest

from airflow_adaptive.testing.conformance.runner import Tally, run

RAISED = ["running", "raise requirements beyond capacity"]


def judged(steps: list[str], expected: dict[str, Any], **more: Any) -> str:
    tally: Tally = run({"rescale_timeline": [{"id": "x", "steps": steps, "expected": expected, **more}]})[
        "rescale_timeline"
    ]
    found = {
        "passed": tally.passed,
        "differing": tally.differing,
        "not applicable": tally.not_applicable,
        "deviating": tally.deviating,
    }
    return next(name for name, told in found.items() if told)


@pytest.mark.parametrize(
    ("steps", "expected", "verdict"),
    [
        (["running"], {"history_size": 1}, "passed"),
        (["running"], {"history_size": 2}, "deviating"),
        (["running"], {"latest": {"terminated_reason": "SUCCEEDED"}}, "passed"),
        (["running"], {"latest": {"terminated_reason": "JOB_FAILED"}}, "deviating"),
        (["running"], {"latest": {"terminated_reason": None}}, "deviating"),
        (["running"], {"latest": {"beauty": 1}}, "not applicable"),
        (["running"], {"oldest": {"terminated_reason": "SUCCEEDED"}}, "not applicable"),
        (["running"], {"previous": {"terminated_reason": "SUCCEEDED"}}, "deviating"),
        (["running"], {"history": [{"terminated_reason": "SUCCEEDED"}]}, "passed"),
        (["running"], {"history": [{"terminated_reason": "SUCCEEDED"}] * 2}, "deviating"),
        (["running", "dance"], {"history_size": 1}, "not applicable"),
        (["running", "raise the upper bound to 500"], {"history_size": 2}, "not applicable"),
        (RAISED, {"history_size": 2, "latest": {"terminated_reason": None}}, "passed"),
        ([*RAISED, "kill all TMs"], {"latest": {"terminated_reason": "EXCEPTION_OCCURRED"}}, "differing"),
        ([*RAISED, "wait"], {"latest": {"terminated_reason": "EXCEPTION_OCCURRED"}}, "deviating"),
        ([*RAISED, "cancel"], {"latest": {"terminated_reason": None}}, "deviating"),
    ],
    ids=str,
)
def test_history_is_judged_by_what_it_reports(steps: list[str], expected: dict[str, Any], verdict: str):
    assert judged(steps, expected) == verdict


def test_vector_with_more_content_is_not_judged():
    assert judged(["running"], {"history_size": 1}, weather="fine") == "not applicable"


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        ({"web.adaptive-scheduler.rescale-history.size": 1}, "passed"),
        ({"web.adaptive-scheduler.rescale-history.size": "2"}, "deviating"),
        ({"web.adaptive-scheduler.rescale-history.size": 0}, "not applicable"),
        ({"weather": "fine"}, "not applicable"),
    ],
    ids=str,
)
def test_history_is_as_long_as_it_is_configured(config: dict[str, Any], verdict: str):
    assert judged(RAISED, {"history_size": 1}, config=config) == verdict


@pytest.mark.parametrize(
    ("step", "cause", "after"),
    [
        ("start a TaskManager", "NEW_RESOURCE_AVAILABLE", 6),
        ("add one worker", "NEW_RESOURCE_AVAILABLE", 6),
        ("terminate TaskManager 0", "RECOVERABLE_FAILOVER", 2),
        ("lose a worker", "RECOVERABLE_FAILOVER", 2),
        ("lower the upper bound to 3", "UPDATE_REQUIREMENT", 3),
        ("update requirements to [1, 3]", "UPDATE_REQUIREMENT", 3),
        ("reduce requirements to 1..1", "UPDATE_REQUIREMENT", 1),
        ("a task fails", "RECOVERABLE_FAILOVER", 4),
    ],
)
def test_step_is_understood_in_other_words(step: str, cause: str, after: int):
    latest = {"trigger_cause": cause, "terminated_reason": "SUCCEEDED", "post_rescale_parallelism": after}
    assert judged(["running", step, "running"], {"history_size": 2, "latest": latest}) == "passed"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("the job finishes", "JOB_FINISHED"),
        ("unblock", "JOB_FINISHED"),
        ("stop with savepoint", "JOB_FINISHED"),
        ("cancel the job", "JOB_CANCELED"),
        ("non-recoverable failure", "JOB_FAILED"),
        ("cooldown ends", "NO_RESOURCES_OR_PARALLELISMS_CHANGE"),
        ("raise requirements again", "RESOURCE_REQUIREMENTS_UPDATED"),
    ],
)
def test_end_is_understood_in_other_words(step: str, reason: str):
    which = "previous" if reason == "RESOURCE_REQUIREMENTS_UPDATED" else "latest"
    assert judged([*RAISED, step], {which: {"terminated_reason": reason}}) == "passed"
