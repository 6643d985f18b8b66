"""The state with which a loop continues a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._engine.journal.adoption import created, started_again
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import small_job

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
