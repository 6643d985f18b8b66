"""The results of the fault tests: remembered from run to run, and shown as one table in the docs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tests.faults.harness.outcome import Outcome
from tests.support.page_sections import replace_section, section
from tests.support.repository import ROOT

RESULTS = ROOT / ".faults" / "results.jsonl"
PAGE = ROOT / "docs" / "faults.md"

HEAD = """\
| Fault | Where | Runs | Rows in | Rows out | Duplicated | Drivers with queries at once | Recovery |
|---|---|---|---|---|---|---|---|
"""

MATRIX = "/test_matrix.py::"
"""In the ids of cases that the page shows as a matrix, not in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case that went well.

    Attributes:
        case: pytest's id of it.
        fault: what broke.
        where: at which point.
        outcome: what came out.
    """

    case: str
    fault: str
    where: str
    outcome: Outcome


def remembered() -> list[Result]:
    """All results so far."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [Result(**{**fields, "outcome": Outcome(**fields["outcome"])}) for fields in map(json.loads, lines)]


def remember(result: Result) -> None:
    """Append a result."""
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def write_page(results: Iterable[Result]) -> None:
    """Bring the table of the page up to date; rows of which nothing is remembered here stay."""
    replace_section(PAGE, "table", table(results, section(PAGE, "table")).rstrip())


def table(results: Iterable[Result], previous: str = "") -> str:
    """One row for each fault and place; rows of an earlier table without a new result are kept."""
    runs: dict[tuple[str, str], list[Outcome]] = {}
    for result in (result for result in results if MATRIX not in result.case):
        runs.setdefault((result.fault, result.where), []).append(result.outcome)
    head, old = HEAD.splitlines(), [row for row in previous.splitlines() if row.startswith("| ")]
    rows = {_key(row): row for row in old if row not in head}
    rows |= {key: _row(*key, outcomes) for key, outcomes in runs.items()}
    return "".join(f"{line}\n" for line in [*head, *(rows[key] for key in sorted(rows))])


def _key(row: str) -> tuple[str, str]:
    fault, where, *_ = (field.strip() for field in row.strip("|").split(" | "))
    return fault, where


def _row(fault: str, where: str, outcomes: list[Outcome]) -> str:
    expected, found, duplicated = (
        sum(getattr(it, name) for it in outcomes) for name in ("expected", "found", "duplicated")
    )
    at_once = max(outcome.drivers_at_once for outcome in outcomes)
    times = sorted(round(outcome.recovery_s) for outcome in outcomes)
    recovery = f"{times[0]} s" if times[0] == times[-1] else f"{times[0]} to {times[-1]} s"
    return f"| {fault} | {where} | {len(outcomes)} | {expected} | {found} | {duplicated} | {at_once} | {recovery} |"
