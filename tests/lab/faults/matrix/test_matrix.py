"""Each fault at each moment of a stateful job's life, by the table in `cells`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.matrix.cells import RUNS, Cell, cells_with, fault_of, moment_of
from tests.lab.faults.matrix.matrix_job import MatrixJob
from tests.lab.faults.matrix.reasons import unnamed_failures
from tests.lab.faults.matrix.strike import strike

pytestmark = pytest.mark.timeout(900)


def name_of(cell: Cell) -> str:
    return "-".join(re.sub(r"\W+", "_", name).strip("_") for name in (cell.fault, cell.where))


@pytest.mark.parametrize("cell", cells_with(RUNS), ids=name_of)
def test_fault_at_a_moment(job: MatrixJob, record: Callable[[str, str, Outcome], None], cell: Cell) -> None:
    fault, moment, began = fault_of(cell), moment_of(cell), datetime.now(UTC)
    strike(job, fault, moment)
    assert unnamed_failures(job, fault, moment, began) == []
    record(cell.fault, cell.where, job.so_far())
