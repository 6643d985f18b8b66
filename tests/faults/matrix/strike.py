"""One cell: the job is led to a moment, the fault strikes, the fault ends, and the job processes the input that arrived meanwhile."""

from __future__ import annotations

from contextlib import ExitStack

from tests.faults.matrix.faults import Fault
from tests.faults.matrix.matrix_job import MatrixJob
from tests.faults.matrix.moments import Moment, reached


def strike(job: MatrixJob, fault: Fault, moment: Moment) -> None:
    """The fault at that moment; returns when the job has taken in what came with it."""
    with ExitStack() as broken, reached(job, moment, fault.there, holding=fault.holding):
        job.fault()
        broken.enter_context(fault.strikes(job))
    moment.go_on(job)
    job.recover()
