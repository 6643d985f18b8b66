"""The results of the fault tests: one JSON document for each run in tests/lab/results/faults.jsonl, and tables of all runs in tests/lab/results/faults.md."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from tests.lab.faults.harness.outcome import Outcome
from tests.support.page_sections import replace_section, section
from tests.support.published_tables import head
from tests.support.repository import ROOT

RESULTS = ROOT / "tests" / "lab" / "results" / "faults.jsonl"
PAGE = ROOT / "tests" / "lab" / "results" / "faults.md"

HEAD = """\
| Fault | Where | Runs | Rows in | Rows out | Duplicated | Batches repeated | Drivers with batches at once | Recovery | Commit |
|---|---|---|---|---|---|---|---|---|---|
"""

VIOLATED = "**violated**"
"""In place of the recovery of a case that violated a guarantee."""

MAX_VIOLATIONS, MAX_CHARACTERS = 5, 120
"""In a row, and of each violation. The output of the test contains all."""

MATRIX = "/test_matrix.py::"
"""In the ids of cases that the page shows as a matrix, not in a table."""

KUBERNETES = "/kubernetes/"
"""In the ids of cases on Kubernetes, which the page shows in a table of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case that came to its end.

    Attributes:
        case: pytest's id of it.
        fault: what broke.
        where: at which point.
        outcome: what came out.
        commit: of the code that ran.
    """

    case: str
    fault: str
    where: str
    outcome: Outcome
    commit: str

    def with_violations(self, violations: tuple[str, ...]) -> Result:
        """This result, as that of a job that violated guarantees in the end."""
        return replace(self, outcome=replace(self.outcome, violations=violations))


@cache
def commit() -> str:
    """The commit of the code that this process runs."""
    return head()


def remembered() -> list[Result]:
    """All results so far."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [Result(**{**fields, "outcome": _outcome(**fields["outcome"])}) for fields in map(json.loads, lines)]


def _outcome(violations: Iterable[str] = (), **fields: Any) -> Outcome:
    return Outcome(violations=tuple(violations), **fields)


def remember(results: Iterable[Result]) -> None:
    """Append results."""
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.writelines(json.dumps(asdict(result)) + "\n" for result in results)


def write_page(results: Collection[Result]) -> None:
    """Bring the tables of the page up to date; rows of which nothing is remembered here stay."""
    kubernetes = [result for result in results if KUBERNETES in result.case]
    others = [result for result in results if KUBERNETES not in result.case]
    for name, found in {"kubernetes faults": kubernetes, "table": others}.items():
        if found:
            replace_section(PAGE, name, table(found, section(PAGE, name)).rstrip())


def table(results: Iterable[Result], previous: str = "") -> str:
    """One row for each fault and place; rows of an earlier table without a new result are kept."""
    runs: dict[tuple[str, str], list[Result]] = {}
    for result in (result for result in results if MATRIX not in result.case):
        runs.setdefault((result.fault, result.where), []).append(result)
    head_lines, old = HEAD.splitlines(), [row for row in previous.splitlines() if row.startswith("| ")]
    rows = {_key(row): row for row in old if row not in head_lines}
    rows |= {key: _row(*key, found) for key, found in runs.items()}
    return "".join(f"{line}\n" for line in [*head_lines, *(rows[key] for key in sorted(rows))])


def counted(results: Sequence[Result]) -> Sequence[Result]:
    """The results of a row: a violation counts until the case runs at another commit."""
    return [result for result in results if not result.outcome.violations or result.commit == results[-1].commit]


def summary(results: Collection[Result]) -> str:
    """The violations of the results; their shortest and their longest recovery if there is no violation."""
    found = [text[:MAX_CHARACTERS] for result in results for text in result.outcome.violations]
    return f"{VIOLATED}: {'; '.join(found[:MAX_VIOLATIONS]).replace('|', ' ')}" if found else times(results)


def times(results: Collection[Result]) -> str:
    """The shortest and the longest recovery."""
    seconds = sorted(round(result.outcome.recovery_s) for result in results)
    return f"{seconds[0]} s" if seconds[0] == seconds[-1] else f"{seconds[0]} to {seconds[-1]} s"


def commits(results: Iterable[Result]) -> str:
    """The commits at which the results were measured."""
    return ", ".join(dict.fromkeys(f"`{result.commit}`" for result in results))


def _key(row: str) -> tuple[str, str]:
    fault, where, *_ = (field.strip() for field in row.strip("|").split(" | "))
    return fault, where


def _row(fault: str, where: str, found: Sequence[Result]) -> str:
    results = counted(found)
    outcome = Outcome.of_all([result.outcome for result in results])
    rows = (
        f"{outcome.expected} | {outcome.found} | {outcome.duplicated} | {outcome.repeated} | {outcome.drivers_at_once}"
    )
    return f"| {fault} | {where} | {len(results)} | {rows} | {summary(results)} | {commits(results)} |"
