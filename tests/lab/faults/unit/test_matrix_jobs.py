"""The result of a cell is published after the job's final check, with the violations that the check finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.faults.harness import results
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import Result, remembered
from tests.lab.faults.harness.sink_log import SinkError
from tests.lab.faults.matrix import jobs as matrix_jobs
from tests.lab.faults.matrix.jobs import Jobs

OUTCOME = Outcome(expected=40, found=40, duplicated=0, repeated=0, drivers_at_once=1, epochs=1, recovery_s=6.6)
VIOLATED = replace(OUTCOME, violations=("1 rows are missing: [3]",))
RESULT = Result(case="case", fault="master", where="tier 1", outcome=OUTCOME, commit="1a2b3c4")


class FakeJob:
    loop = None

    def __init__(self, end: Outcome | Exception) -> None:
        self._end = end

    def finish(self, loop: None) -> Outcome:
        assert remembered() == [], "no result is remembered before the check"
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Jobs whose newest job has suffered a cell."""
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results" / "results.jsonl")
    monkeypatch.setattr(matrix_jobs, "write_grid", lambda found: None)
    cluster: Any = None
    jobs = Jobs(cluster, tmp_path)
    jobs.results.append(RESULT)
    return jobs


def test_results_are_remembered_after_the_final_check(jobs: Jobs) -> None:
    current: Any = FakeJob(OUTCOME)
    jobs.current = current
    jobs.finish()
    assert remembered() == [RESULT]
    assert (jobs.current, jobs.results) == (None, [])


def test_violation_that_the_final_check_finds_is_one_of_all_cells_of_the_job(jobs: Jobs) -> None:
    current: Any = FakeJob(VIOLATED)
    jobs.current = current
    with pytest.raises(SinkError, match="1 rows are missing"):
        jobs.finish()
    assert remembered() == [RESULT.with_violations(VIOLATED.violations)]
    assert (jobs.current, jobs.results) == (None, [])


def test_results_of_a_job_that_does_not_end_are_dropped(jobs: Jobs) -> None:
    current: Any = FakeJob(TimeoutError("no end of all drivers"))
    jobs.current = current
    with pytest.raises(TimeoutError):
        jobs.finish()
    assert remembered() == []
    assert (jobs.current, jobs.results) == (None, [])


def test_violation_of_a_cell_is_published_immediately_and_is_no_result_to_keep(jobs: Jobs) -> None:
    violated = RESULT.with_violations(VIOLATED.violations)
    with pytest.raises(SinkError, match="1 rows are missing"):
        jobs.keep(violated)
    assert remembered() == [violated]
    assert jobs.results == [RESULT]
    jobs.keep(RESULT)
    assert jobs.results == [RESULT, RESULT]
