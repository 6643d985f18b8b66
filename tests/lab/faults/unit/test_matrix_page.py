"""The table is complete, and each of its marks means something."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import Result, table
from tests.lab.faults.matrix.cells import REASONS, RUNS, UNDER_AIRFLOW, cells, cells_with, fault_of, moment_of
from tests.lab.faults.matrix.faults import FAULTS
from tests.lab.faults.matrix.moments import MOMENTS
from tests.lab.faults.matrix.page import NOT_YET, grid

OUTCOME = Outcome(expected=40, found=40, duplicated=0, repeated=1, drivers_at_once=1, epochs=1, recovery_s=6.6)
LOST = "1 rows are missing: [3]"
CASE = "tests/lab/faults/matrix/test_matrix.py::test_fault_at_a_moment[master, tier 1]"


def test_every_moment_is_a_column_and_every_fault_a_row() -> None:
    assert list(dict.fromkeys(cell.moment for cell in cells())) == [moment.name for moment in MOMENTS]
    assert {fault.name for fault in FAULTS} <= {cell.fault for cell in cells()}


def test_cell_that_does_not_run_gives_its_reason() -> None:
    assert {cell.content for cell in cells()} == {RUNS, UNDER_AIRFLOW, *REASONS}


def test_cell_that_runs_has_a_fault_and_a_moment() -> None:
    assert {(fault_of(cell).name, moment_of(cell).name) for cell in cells_with(RUNS)} == {
        (cell.fault, cell.moment) for cell in cells_with(RUNS)
    }


def test_grid_shows_the_recovery_of_a_cell_that_ran() -> None:
    (row,) = [line for line in grid([_result(CASE)]).splitlines() if line.startswith("| master ")]
    assert row.split(" | ").count("7 s, 1 x `1a2b3c4`") == 1
    assert row.count(NOT_YET) == len(MOMENTS) - 1


def test_grid_leaves_out_what_ran_elsewhere() -> None:
    assert "7 s" not in grid([_result("tests/lab/faults/cluster/test_master.py::test_master")])


def test_grid_keeps_what_an_earlier_one_shows() -> None:
    assert grid([], grid([_result(CASE)])) == grid([_result(CASE)])


def test_table_keeps_the_rows_of_an_earlier_one() -> None:
    first, second = (_result(f"tests/lab/faults/test_{where}.py", where) for where in ("early", "late"))
    assert table([first], table([second])) == table([first, second])
    assert table([first], table([first, second, second])).splitlines()[2:] == [
        "| master | early | 1 | 40 | 40 | 0 | 1 | 1 | 7 s | `1a2b3c4` |",
        "| master | late | 2 | 80 | 80 | 0 | 2 | 1 | 7 s | `1a2b3c4` |",
    ]


def test_cell_with_a_violation_shows_it_and_keeps_it() -> None:
    page = grid([_result(CASE), _violated(CASE)])
    assert f"| **violated**: {LOST}, 2 x `1a2b3c4` |" in page
    assert "7 s" not in page
    assert grid([], page) == page


def test_violation_stays_in_its_row_until_the_case_runs_at_another_commit() -> None:
    passed, violated = _result("tests/lab/faults/test_a.py"), _violated("tests/lab/faults/test_a.py")
    red = f"| master | tier 1 | 2 | 80 | 80 | 0 | 2 | 1 | **violated**: {LOST} | `1a2b3c4` |"
    assert table([violated, passed]).splitlines()[2:] == [red]
    assert table([], table([violated, passed])).splitlines()[2:] == [red]
    fixed = replace(passed, commit="5d6e7f8")
    (row,) = table([violated, passed, fixed]).splitlines()[2:]
    assert row == "| master | tier 1 | 2 | 80 | 80 | 0 | 2 | 1 | 7 s | `1a2b3c4`, `5d6e7f8` |"


def _result(case: str, where: str = "tier 1") -> Result:
    return Result(case=case, fault="master", where=where, outcome=OUTCOME, commit="1a2b3c4")


def _violated(case: str) -> Result:
    return _result(case).with_violations((LOST,))
