"""docs/reference/timeline.md agrees with the scheduler: the tables contain every code, cause and reason, and the example is the record of a simulated job."""

import json
import re
from datetime import timedelta
from typing import Any

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.history.rescales import MAX_STATES, Durations
from airflow_adaptive._core.scheduler.machine import MAX_REPORTED
from airflow_adaptive._core.scheduler.timeline import ReasonCode, TerminatedReason, TriggerCause
from tests.lab.scenario import Scenario
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "timeline.md").read_text()


def untagged(value: Any) -> Any:
    """Without the classes' names."""
    if isinstance(value, dict):
        return {key: untagged(item) for key, item in value.items() if key != "type"}
    return [untagged(item) for item in value] if isinstance(value, list) else value


def table(heading: str) -> str:
    """Return the table whose first column has this heading."""
    return PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]


def test_page_names_every_reason_code():
    assert re.findall(r"^\| `([A-Z_]+)` \| [A-Z`]", table("Reason code"), re.MULTILINE) == list(ReasonCode)


def test_page_names_every_cause():
    assert re.findall(r"^\| `([A-Z_]+)` \| [a-z]", table("Trigger cause"), re.MULTILINE) == list(TriggerCause)


def test_page_names_the_terminal_state_of_every_terminated_reason():
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([A-Z]+)` \|", PAGE, re.MULTILINE)
    assert rows == [(reason.value, reason.terminal_state.value) for reason in TerminatedReason]


def test_example_is_the_record_of_the_described_rescale():
    job = Scenario(lower=1, upper=8).given_executing(2).after(100).when_slots(held=2, free=2).after(60)
    job.now += timedelta(seconds=3)
    job.when_plan_activated()
    job.now += timedelta(seconds=4)
    job.when_slots(held=4)
    example = json.loads(PAGE.partition("```json")[2].partition("```")[0])
    assert untagged(encode(job.steps[-1].rescale)) == example


def test_limits_are_those_of_the_scheduler():
    assert f"at most {MAX_REPORTED} different reasons" in PAGE
    assert f"at most\n  the newest {MAX_STATES} states" in PAGE
    assert {"p50", "p90", "p95", "p99", "p999"} < set(Durations.__dataclass_fields__)
