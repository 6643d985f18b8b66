"""The matrix on the page of faults, drawn from the results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tests.lab.faults.harness.results import MATRIX, PAGE, VIOLATED, Result, commits, counted, summary
from tests.lab.faults.matrix.cells import REASONS, RUNS, UNDER_AIRFLOW, Cell, cells, cells_with_standby
from tests.support.page_sections import replace_section, section

NOT_YET = "not yet"


def write_grid(results: Iterable[Result]) -> None:
    """Bring the matrices of the page up to date; recoveries of which nothing is remembered here stay."""
    results = list(results)
    for name, fields in {"matrix": cells(), "standby matrix": cells_with_standby()}.items():
        replace_section(PAGE, name, grid(results, fields, section(PAGE, name)).rstrip())


def grid(results: Iterable[Result], fields: Iterable[Cell], previous: str = "") -> str:
    """A row for each fault, a column for each moment; in each cell the recovery, the runs and the commits, or why there is none.

    Recoveries in an earlier grid are kept where there is no newer one.
    """
    recoveries = _recoveries(previous)
    runs: dict[tuple[str, str], list[Result]] = {}
    for result in (result for result in results if MATRIX in result.case):
        runs.setdefault((result.fault, result.where), []).append(result)
    recoveries |= {key: _field(counted(found)) for key, found in runs.items()}
    rows: dict[str, list[Cell]] = {}
    for cell in fields:
        rows.setdefault(cell.fault, []).append(cell)
    moments = [cell.where for cell in next(iter(rows.values()))]
    used = {cell.content for row in rows.values() for cell in row}
    head = f"| | {' | '.join(moments)} |\n|---{'|---' * len(moments)}|\n"
    reasons = "".join(f"- **{content}**: {reason}\n" for content, reason in REASONS.items() if content in used)
    return head + "".join(_row(fault, row, recoveries) for fault, row in rows.items()) + f"\n{reasons}"


def _field(results: Collection[Result]) -> str:
    return f"{summary(results)}, {len(results)} x {commits(results)}"


def _recoveries(previous: str) -> dict[tuple[str, str], str]:
    """By fault and moment, as a grid has them."""
    rows = [
        [field.strip() for field in line.strip("|").split("|")] for line in previous.splitlines() if line[:1] == "|"
    ]
    return {
        (fault, moment): field
        for fault, *fields in rows
        for moment, field in zip(rows[0][1:], fields, strict=True)
        if " s, " in field or field.startswith(VIOLATED)
    }


def _row(fault: str, row: list[Cell], recoveries: Mapping[tuple[str, str], str]) -> str:
    return f"| {fault} | {' | '.join(_text_of(cell, recoveries) for cell in row)} |\n"


def _text_of(cell: Cell, recoveries: Mapping[tuple[str, str], str]) -> str:
    if cell.content not in (RUNS, UNDER_AIRFLOW):
        return cell.content
    return recoveries.get((cell.fault, cell.where), NOT_YET)
