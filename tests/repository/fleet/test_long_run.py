"""The long run of the fleet simulator, and the record of its seeds."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.fleet.simulation import Outcome
from tests.support.fleet.long_run import Part, Results, divide
from tests.support.fleet.record import joined, next_seed, row, rows, table


def outcome(seed, **violation):
    return Outcome(seed=seed, jobs=5, virtual_s=1800.0, facts=600, digest="d", **violation)


SMALL = row("3 to 10", "abc1234", [outcome(1), outcome(2)])


def test_an_interrupted_run_continues_with_the_missing_seeds(tmp_path):
    path = tmp_path / "commit" / "results.jsonl"
    Results(path).add(outcome(2))
    continued = Results(path)
    assert continued.missing(range(1, 5)) == [1, 3, 4]
    continued.add(outcome(1))
    assert Results(path).of(range(1, 5)) == [outcome(2), outcome(1)]
    assert Results(path).of(range(1, 2)) == [outcome(1)]


def test_each_thousand_seeds_contain_a_fleet_of_300_jobs():
    every = list(divide(320, 4, 1150))
    assert [seed for part in every if part.jobs is None for seed in part.seeds] == list(range(320, 1470))
    assert [part for part in every if part.jobs] == [Part(300, range(4, 5)), Part(300, range(5, 6))]


def test_a_run_continues_after_the_greatest_published_seed():
    record = [SMALL, replace(SMALL, first=3, last=319, commit="def5678"), replace(SMALL, jobs="300", last=4)]
    assert next_seed(rows(table(record)), "3 to 10") == 320
    assert next_seed(rows(table(record)), "300") == 5
    assert next_seed([], "300") == 1


def test_the_table_contains_the_whole_record():
    found = outcome(3, invariant="activity", violation="the loop of job-1 has not read")
    other = row("300", "def5678", [outcome(4), found, outcome(7, invariant="released", violation="a thread")])
    record = [SMALL, replace(other, facts=1_334_155, hours=1234.5)]
    assert rows(table(record)) == record
    assert "| 300 | 3-7 | `def5678` | 1,234.5 | 1,334,155 | 3 (activity), 7 (released) |" in table(record)


def test_the_table_sums_the_seeds_for_each_number_of_jobs():
    record = [replace(SMALL, first=3, last=1002, commit="def5678"), SMALL, replace(SMALL, jobs="300")]
    assert table(record).splitlines()[-2:] == [
        "- Fleets of 3 to 10 jobs: 1,002 seeds, 2 virtual hours, no violations.",
        "- Fleets of 300 jobs: 2 seeds, 1 virtual hours, no violations.",
    ]


def test_seeds_that_follow_each_other_at_one_commit_share_a_row():
    after, found = replace(SMALL, first=3, last=4), replace(SMALL, first=5, last=6, violations=("5 (activity)",))
    assert joined([found, SMALL, after]) == [
        replace(SMALL, last=6, hours=3.0, facts=3600, violations=("5 (activity)",)),
    ]
    apart = [SMALL, replace(SMALL, first=3, last=4, commit="def5678"), replace(SMALL, first=8, last=9)]
    assert joined(apart) == apart
