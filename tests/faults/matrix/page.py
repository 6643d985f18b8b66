"""The matrix on the page of faults, drawn from the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.faults.matrix.cells import REASONS, RUNS, UNDER_AIRFLOW, Cell, cells
from tests.faults.outcome import Outcome
from tests.faults.results import MATRIX, PAGE, Result

BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"

NOT_YET = "not yet"


def write_grid(results: Iterable[Result]) -> None:
    """Bring the matrix of the page up to date."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{grid(results)}{END}{after}")


def grid(results: Iterable[Result]) -> str:
    """A row for each fault, a column for each moment; in each cell the recovery, or why there is none."""
    outcomes = {(result.fault, result.where): result.outcome for result in results if MATRIX in result.case}
    rows: dict[str, list[Cell]] = {}
    for cell in cells():
        rows.setdefault(cell.fault, []).append(cell)
    moments = [cell.moment for cell in next(iter(rows.values()))]
    head = f"| | {' | '.join(moments)} |\n|---{'|---' * len(moments)}|\n"
    reasons = "".join(f"- **{mark}**: {reason}\n" for mark, reason in REASONS.items())
    return head + "".join(_row(fault, row, outcomes) for fault, row in rows.items()) + f"\n{reasons}"


def _row(fault: str, row: list[Cell], outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    return f"| {fault} | {' | '.join(_told(cell, outcomes) for cell in row)} |\n"


def _told(cell: Cell, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    if cell.mark not in (RUNS, UNDER_AIRFLOW):
        return cell.mark
    outcome = outcomes.get((cell.fault, cell.moment))
    return NOT_YET if outcome is None else f"{outcome.recovery_s:.0f} s"
