"""The table: which fault strikes at which moment, and why not where none does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tests.lab.faults.matrix.faults import BESIDE_STANDBY, FAULTS, STANDBY, Fault
from tests.lab.faults.matrix.moments import CANCELING, MOMENTS, SUSPENDING, TAKEOVER, WITH_STANDBY, Moment

RUNS = "x"
UNDER_AIRFLOW = "A"
AIRFLOW_WORKER = "Airflow worker"

TABLE = """
                           | Waiting | Deploying | Executing | tier 0 up | tier 0 down | tier 1 | tier 2 | tier 3 | RestartingLocally | Restarting | StopWithSavepoint | Canceling
executor                   | n       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
worker                     | x       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
driver JVM                 | n       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
driver Python              | n       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
master                     | x       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
triggerer (loop's process) | x       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
job directory full         | x       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
job directory read-only    | x       | x         | x         | x         | x           | x      | x      | x      | x                 | x          | x                 | x
Airflow worker             | w       | A         | A         | w         | w           | w      | w      | w      | w                 | A          | A                 | A
scheduler                  | s       | A         | A         | s         | s           | =      | s      | s      | s                 | s          | A                 | A
api-server                 | a       | A         | A         | a         | a           | =      | a      | a      | a                 | A          | A                 | A
"""

REASONS = {
    "n": "not applicable. A job that waits has released its executors, and its driver has ended.",
    "o": "not applicable. The standby is the driver, or has ended.",
    "w": "as in `Executing`. No worker takes part in a deferred task; with `deferrable=False` the worker is the loop's process.",
    "s": "as in `Executing`. The scheduler only manages the deferred task, and does not affect the loop and the driver.",
    "a": "as in `Executing`. The loop publishes its transitions through the api-server, and repeats the publication while the api-server is down.",
    "=": "see *requirements accepted, then a process killed* in the table above.",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One field of the table.

    Attributes:
        fault: name of the row.
        moment: name of the column.
        content: what it holds: `RUNS`, `UNDER_AIRFLOW`, or a key of `REASONS`.
        standby: the option `standby` of the job.
    """

    fault: str
    moment: str
    content: str
    standby: str = "none"

    @property
    def where(self) -> str:
        """The moment in a result."""
        return self.moment if self.standby == "none" else f"{self.moment}, standby={self.standby}"


def cells() -> Iterator[Cell]:
    """All fields, row by row."""
    head, *lines = [[field.strip() for field in line.split("|")] for line in TABLE.strip("\n").splitlines()]
    for fault, *contents in lines:
        for moment, content in zip(head[1:], contents, strict=True):
            yield Cell(fault=fault, moment=moment, content=content)


def cells_with(content: str) -> list[Cell]:
    """The fields with that mark."""
    return [cell for cell in (*cells(), *cells_with_standby()) if cell.content == content]


def cells_with_standby() -> Iterator[Cell]:
    """All fields of the table of a job with a standby, row by row."""
    for fault, moment in product((*BESIDE_STANDBY, *FAULTS), WITH_STANDBY):
        is_missing = fault is STANDBY and moment in (TAKEOVER, SUSPENDING, CANCELING)
        content = "o" if is_missing else RUNS
        yield Cell(fault=fault.name, moment=moment.name, content=content, standby="driver+executors")


def fault_of(cell: Cell) -> Fault:
    """What breaks."""
    (found,) = [fault for fault in (*FAULTS, *BESIDE_STANDBY) if fault.name == cell.fault]
    return found


def moment_of(cell: Cell) -> Moment:
    """When."""
    (found,) = [moment for moment in (*MOMENTS, TAKEOVER) if moment.name == cell.moment]
    return found
