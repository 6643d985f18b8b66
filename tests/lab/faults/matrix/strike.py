"""One cell: the job is led to a moment, the fault strikes, the fault ends, and the job processes the input that arrived meanwhile."""

from __future__ import annotations

from contextlib import ExitStack

from tests.lab.faults.harness.disk import BusyError
from tests.lab.faults.harness.job_under_fault import frozen
from tests.lab.faults.matrix.faults import Fault
from tests.lab.faults.matrix.matrix_job import MatrixJob
from tests.lab.faults.matrix.moments import Moment

TRIES = 5
"""A moment that was over before the fault had struck is led to again, after the job has recovered."""

LEAD_S = 60.0
"""From what leads to a moment until it is there, or was and is over."""


class MissedError(AssertionError):
    """The job was not at the moment when the fault had struck."""


def strike(job: MatrixJob, fault: Fault, moment: Moment) -> None:
    """The fault at that moment; returns when the job has taken in what came with it. Raises `MissedError`."""
    for _ in range(TRIES):
        with ExitStack() as broken:
            struck = strikes_there(job, fault, moment, broken)
        moment.go_on(job)
        job.recover()
        if struck:
            return
    raise MissedError(f"{fault.name} at {moment.name}: missed\n{job.story()}")


def strikes_there(job: MatrixJob, fault: Fault, moment: Moment, broken: ExitStack) -> bool:
    """Lead the job to the moment and break something until the stack is left; whether the job was still there afterwards."""
    job.have_standby()
    moment.prepare(job)
    driver = job.drivers_left() if moment.passes else []
    moment.lead(job)
    reached = job.catch(lambda: moment.seen(job) and fault.there(job), LEAD_S)
    with frozen(driver):
        job.fault()
        if not reached or not moment.seen(job):
            return False
        try:
            broken.enter_context(fault.strikes(job))
        except BusyError:
            return False
        return moment.seen(job)
