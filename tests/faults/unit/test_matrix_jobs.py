"""The result of a cell is remembered after the job's final check, and only if the check succeeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import results
from tests.faults.harness.outcome import Outcome
from tests.faults.harness.results import Result, remembered
from tests.faults.harness.sink_log import SinkError
from tests.faults.matrix import jobs as matrix_jobs
from tests.faults.matrix.jobs import Jobs

OUTCOME = Outcome(expected=40, found=40, duplicated=0, repeated=0, drivers_at_once=1, epochs=1, recovery_s=6.6)
RESULT = Result(case="case", fault="master", where="tier 1", outcome=OUTCOME, commit="1a2b3c4")


class FakeJob:
    loop = None

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def finish(self, loop: None) -> None:
        assert remembered() == [], "no result is remembered before the check"
        if self._error is not None:
            raise self._error


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
    current: Any = FakeJob()
    jobs.current = current
    jobs.finish()
    assert remembered() == [RESULT]
    assert (jobs.current, jobs.results) == (None, [])


def test_results_of_a_job_that_fails_its_final_check_are_dropped(jobs: Jobs) -> None:
    current: Any = FakeJob(SinkError("1 rows are missing: [3]"))
    jobs.current = current
    with pytest.raises(SinkError):
        jobs.finish()
    assert remembered() == []
    assert (jobs.current, jobs.results) == (None, [])
