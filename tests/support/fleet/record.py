"""The record of the simulated seeds in tests/lab/results/faults.md, to which runs on several machines and at several commits add.

A row names the seeds that were simulated at one commit. The next run begins after the greatest seed that the record contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from tests.lab.fleet.simulation import Outcome

HEADER: Final = "| Jobs | Seeds | Commit | Virtual hours | Facts | Violations |\n|---|---|---|---:|---:|---|"

ROW: Final = re.compile(
    r"^\| (?P<jobs>[^|]+) \| (?P<first>\d+)-(?P<last>\d+) \| `(?P<commit>[^`]+)` \| (?P<hours>[\d.,]+) \| (?P<facts>[\d,]+)"
    r" \| (?P<violations>[^|]+) \|$",
    re.MULTILINE,
)

NO_VIOLATION: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Seeds that were simulated at one commit.

    Attributes:
        jobs: number of jobs of each fleet, as text.
        first: first seed.
        last: last seed; all seeds in between were simulated, too.
        commit: of the code.
        hours: virtual hours.
        facts: lines of all histories.
        violations: seeds that violated an invariant, with the invariant.
    """

    jobs: str
    first: int
    last: int
    commit: str
    hours: float
    facts: int
    violations: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the row of the table."""
        violations = ", ".join(self.violations) or NO_VIOLATION
        return f"| {self.jobs} | {self.first}-{self.last} | `{self.commit}` | {self.hours:,.1f} | {self.facts:,} | {violations} |"


def row(jobs: str, commit: str, outcomes: Sequence[Outcome]) -> Row:
    """Return the row of seeds that follow each other."""
    violated = sorted((it.seed, it.invariant) for it in outcomes if it.invariant)
    return Row(
        jobs=jobs,
        first=min(it.seed for it in outcomes),
        last=max(it.seed for it in outcomes),
        commit=commit,
        hours=sum(it.virtual_s for it in outcomes) / 3600,
        facts=sum(it.facts for it in outcomes),
        violations=tuple(f"{seed} ({invariant})" for seed, invariant in violated),
    )


def rows(table: str) -> list[Row]:
    """Return the rows of a published table."""
    return [
        Row(
            jobs=found["jobs"],
            first=int(found["first"]),
            last=int(found["last"]),
            commit=found["commit"],
            hours=float(found["hours"].replace(",", "")),
            facts=int(found["facts"].replace(",", "")),
            violations=() if found["violations"] == NO_VIOLATION else tuple(found["violations"].split(", ")),
        )
        for found in ROW.finditer(table)
    ]


def next_seed(record: Iterable[Row], jobs: str) -> int:
    """Return the seed after the greatest one that the record contains for a number of jobs."""
    return max((it.last for it in record if it.jobs == jobs), default=0) + 1


def joined(record: Iterable[Row]) -> list[Row]:
    """Return the record with one row for seeds that follow each other at the same commit."""
    result: list[Row] = []
    for one in sorted(record, key=lambda it: (it.jobs.isdigit(), it.jobs, it.first)):
        if result and _follows(result[-1], one):
            result[-1] = _both(result[-1], one)
        else:
            result.append(one)
    return result


def table(record: Iterable[Row]) -> str:
    """Return the table, with the sums for each number of jobs."""
    every = joined(record)
    sums = [_sum(jobs, list(group)) for jobs, group in groupby(every, key=lambda it: it.jobs)]
    return "\n".join([HEADER, *map(str, every), "", *sums])


def _follows(before: Row, after: Row) -> bool:
    return (before.jobs, before.commit, before.last + 1) == (after.jobs, after.commit, after.first)


def _both(before: Row, after: Row) -> Row:
    return replace(
        before,
        last=after.last,
        hours=before.hours + after.hours,
        facts=before.facts + after.facts,
        violations=before.violations + after.violations,
    )


def _sum(jobs: str, group: Sequence[Row]) -> str:
    seeds, violations = sum(it.last - it.first + 1 for it in group), sum(len(it.violations) for it in group)
    hours = sum(it.hours for it in group)
    return f"- Fleets of {jobs} jobs: {seeds:,} seeds, {hours:,.0f} virtual hours, {violations or 'no'} violations."
