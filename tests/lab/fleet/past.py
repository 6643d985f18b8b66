"""The past of a job that ran before the simulation."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.protocol.documents import JournalDocument, encode_document, journal_name
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._engine.driver_heartbeat import NO_HEARTBEAT
from airflow_adaptive._engine.journal.step_document import LoopMemory, created, step_document
from airflow_adaptive._engine.spec import JobSpec
from tests.lab.fleet.kernel.process import START
from tests.lab.fleet.storage.files import Files


def write_journal(files: Files, directory: str, spec: JobSpec, documents: int) -> None:
    """Write the journal of a job that has not started yet.

    Args:
        files: files of the storage.
        directory: path of the job directory.
        spec: the job.
        documents: number of journal documents.
    """
    document = earlier_document(spec, created(spec))
    for number in range(1, documents + 1):
        path = f"{directory}/journal/{journal_name(number)}"
        files.write(path, encode_document(replace(document, number=number)), 0.0)


def earlier_document(spec: JobSpec, state: SchedulerState) -> JournalDocument:
    """Return a journal document that an earlier loop wrote, without its number."""
    memory = LoopMemory(heartbeat=NO_HEARTBEAT.continued(state.epoch, START))
    document = step_document(Step(state=state), spec, "earlier", memory)
    return replace(document, at=START.isoformat(), owner="earlier#loop")
