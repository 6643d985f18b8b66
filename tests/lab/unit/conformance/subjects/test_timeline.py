"""The check of the rescale history, which refuses unknown steps and expectations."""

from typing import Any

import pytest

from tests.support.scheduler.conformance import outcome_of

RAISED = ["running", "raise requirements beyond capacity"]


def outcome(steps: list[str], expected: dict[str, Any], **more: Any) -> str:
    return outcome_of("rescale_timeline", {"id": "x", "steps": steps, "expected": expected, **more})


@pytest.mark.parametrize(
    ("steps", "expected", "result"),
    [
        (["running"], {"history_size": 1}, "passed"),
        (["running"], {"history_size": 2}, "deviating"),
        (["running"], {"latest": {"terminated_reason": "SUCCEEDED"}}, "passed"),
        (["running"], {"latest": {"terminated_reason": "JOB_FAILED"}}, "deviating"),
        (["running"], {"latest": {"terminated_reason": None}}, "deviating"),
        (["running"], {"latest": {"beauty": 1}}, "not_applicable"),
        (["running"], {"oldest": {"terminated_reason": "SUCCEEDED"}}, "not_applicable"),
        (["running"], {"previous": {"terminated_reason": "SUCCEEDED"}}, "deviating"),
        (["running"], {"history": [{"terminated_reason": "SUCCEEDED"}]}, "passed"),
        (["running"], {"history": [{"terminated_reason": "SUCCEEDED"}] * 2}, "deviating"),
        (["running", "dance"], {"history_size": 1}, "not_applicable"),
        (["running", "raise the upper bound to 500"], {"history_size": 2}, "not_applicable"),
        (RAISED, {"history_size": 2, "latest": {"terminated_reason": None}}, "passed"),
        ([*RAISED, "kill all TMs"], {"latest": {"terminated_reason": "EXCEPTION_OCCURRED"}}, "differing"),
        ([*RAISED, "wait"], {"latest": {"terminated_reason": "EXCEPTION_OCCURRED"}}, "deviating"),
        ([*RAISED, "cancel"], {"latest": {"terminated_reason": None}}, "deviating"),
    ],
    ids=str,
)
def test_result_depends_on_the_content_of_the_history(steps: list[str], expected: dict[str, Any], result: str):
    assert outcome(steps, expected) == result


def test_vector_with_an_unknown_key_is_not_applicable():
    assert outcome(["running"], {"history_size": 1}, weather="fine") == "not_applicable"


@pytest.mark.parametrize(
    ("config", "result"),
    [
        ({"web.adaptive-scheduler.rescale-history.size": 1}, "passed"),
        ({"web.adaptive-scheduler.rescale-history.size": "2"}, "deviating"),
        ({"web.adaptive-scheduler.rescale-history.size": 0}, "not_applicable"),
        ({"weather": "fine"}, "not_applicable"),
    ],
    ids=str,
)
def test_history_has_the_configured_size(config: dict[str, Any], result: str):
    assert outcome(RAISED, {"history_size": 1}, config=config) == result


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
def test_step_can_have_different_words(step: str, cause: str, after: int):
    latest = {"trigger_cause": cause, "terminated_reason": "SUCCEEDED", "post_rescale_parallelism": after}
    assert outcome(["running", step, "running"], {"history_size": 2, "latest": latest}) == "passed"


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
def test_end_can_have_different_words(step: str, reason: str):
    which = "previous" if reason == "RESOURCE_REQUIREMENTS_UPDATED" else "latest"
    assert outcome([*RAISED, step], {which: {"terminated_reason": reason}}) == "passed"
