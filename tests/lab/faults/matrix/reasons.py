"""Compares the failures that a job recorded with the fault that was injected."""

from __future__ import annotations

import re
from datetime import datetime

from tests.lab.faults.matrix.faults import Fault
from tests.lab.faults.matrix.matrix_job import MatrixJob
from tests.lab.faults.matrix.moments import Moment


def unnamed_failures(job: MatrixJob, fault: Fault, moment: Moment, since: datetime) -> list[str]:
    """Return the failures since a time whose records name neither the fault nor what led the job to the moment."""
    newest = job.newest()
    records = [] if newest is None else newest.scheduler["failures"]
    found = [record["failure"] for record in records if datetime.fromisoformat(record["at"]) >= since]
    texts = [f"{failure['error_class']}: {failure['message']}" for failure in found]
    return [text for text in texts if not re.search(f"{fault.words}|{moment.words}", text)]
