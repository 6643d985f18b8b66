"""The time of a journal whose documents are ahead of the clock, and the state with which a new run begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.deployment import Declaration, declaration
from airflow_adaptive._core.scheduler.policies.first_batch import DeploymentRecord
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._engine.journal.step_document import LoopMemory, clock_offset, created, recalled, started_again
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import small_job

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "offset"),
    [("2026-11-25T12:00:30+00:00", 30), ("2026-11-25T11:00:00+00:00", 0), ("", 0), ("2026-11-25T13:00:00", 0)],
    ids=["clock is behind", "clock is ahead", "no time", "time without a zone"],
)
def test_clock_is_behind_a_document_with_a_later_time(at: str, offset: int) -> None:
    document: Any = SimpleNamespace(at=at)
    assert clock_offset(document, NOW) == timedelta(seconds=offset)


DECLARED = {"job": ParallelismRange(1, 4)}
OVERRIDE = {"job": ParallelismRange(2, 2)}


@pytest.mark.parametrize("outcome", Outcome)
def test_requirements_that_a_user_has_set_survive_a_suspension_and_no_other_end(outcome: Outcome) -> None:
    spec = small_job("job", (1, 4), {})
    ended = replace(
        created(spec, epoch=3),
        requirements=OVERRIDE,
        current=Finished(since=START, outcome=outcome, cause=None, stop_deadline=START),
    )
    again = started_again(spec, ended)
    assert again.requirements == (OVERRIDE if outcome is Outcome.SUSPENDED else DECLARED)
    assert again.epoch == 3


def test_memory_keeps_what_the_newest_driver_and_the_newest_deployment_are_started_with() -> None:
    first = replace(small_job("job", (1, 4), {}), declaration=declared(parallelism=[1, 4], image="a"))
    later = [replace(first, args=(it,), declaration=declared(parallelism=[1, 8], image=it)) for it in "bc"]
    memory = LoopMemory().deployed(first, created(first))
    assert memory.declarations == {first.deployment: first.declaration}
    state = replace(created(first), proved=DeploymentRecord(deployment=first.deployment))
    for spec in later:
        memory = recalled(memory.deployed(spec, state).document(), 1, NOW)
    running = declared(parallelism=[1, 8], image="a")
    assert memory.declarations == {first.deployment: running, later[1].deployment: later[1].declaration}
    newest = replace(later[1], conf={"a": "b"}, attempt="2")
    assert {it: memory.spec_of(it, newest).args for it in memory.specs} == {
        first.deployment: (),
        later[1].deployment: ("c",),
    }
    assert memory.spec_of(later[0].deployment, newest) is newest
    assert memory.spec_of(first.deployment, newest).attempt == "2"


def declared(**parameters: Any) -> Declaration:
    return declaration(parameters, code="1")
