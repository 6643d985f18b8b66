"""The results of the long run of the fleet simulator."""

from __future__ import annotations

from airflow_adaptive.testing.fleet.simulation import Outcome
from tests.support.fleet.long_run import PARTS, Results, row


def outcome(seed, **violation):
    return Outcome(seed=seed, jobs=5, virtual_s=1800.0, facts=100, digest="d", **violation)


def test_an_interrupted_run_continues_with_the_missing_seeds(tmp_path):
    path = tmp_path / "commit" / "results.jsonl"
    Results(path).add(outcome(2))
    continued = Results(path)
    assert continued.missing(range(1, 5)) == [1, 3, 4]
    continued.add(outcome(1))
    assert Results(path).outcomes == [outcome(2), outcome(1)]


def test_the_table_has_the_virtual_hours_and_each_violation():
    outcomes = [outcome(2), outcome(7, invariant="activity", violation="the loop of job-1 has not read")]
    assert row(PARTS[0], outcomes) == "| 3 to 10 | 2 of 1-10000 | 1 | 200 | 7 (activity) |"
    assert row(PARTS[0], outcomes[:1]).endswith("| none |")
