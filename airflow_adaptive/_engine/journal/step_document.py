"""Encodes a step of the scheduler as a journal document."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive._core.protocol.codec import newest_common_format
from airflow_adaptive._core.protocol.documents import FORMATS, JournalDocument
from airflow_adaptive._core.scheduler import snapshot
from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._core.scheduler.state import Finished, SchedulerState
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._engine.directive import directive
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.loop_memory import LoopMemory
from airflow_adaptive._engine.spec import JobSpec


def step_document(step: Step, spec: JobSpec, nonce: str, memory: LoopMemory) -> JournalDocument:
    """Return the document of a step, without its number, its time and its owner."""
    return JournalDocument(
        job=spec.graph.job,
        number=0,
        at="",
        owner="",
        directive=directive(step.state, nonce, spec.executor),
        scheduler=snapshot.to_json(_saved(step.state)),
        commands=[_tagged(command) for command in step.commands],
        transitions=[_tagged(step.transition)] if step.transition else [],
        decisions=[_tagged(step.decision)] if step.decision else [],
        rescales=[_tagged(step.rescale)] if step.rescale else [],
        memory=dict(memory.document()),
        format=_format(step.state, memory.heartbeat),
    )


def is_durable(step: Step, before: SchedulerState) -> bool:
    """Whether a step changes something that must survive the process: slots are observed again."""
    return bool(step.commands) or replace(step.state, offers=()) != replace(before, offers=())


def clock_offset(document: JournalDocument, clock: datetime) -> timedelta:
    """Return the time by which the clock is behind the time of a document; zero if the document has no valid time."""
    try:
        return max(datetime.fromisoformat(document.at) - clock, timedelta(0))
    except (TypeError, ValueError):
        return timedelta(0)


def _format(state: SchedulerState, heartbeat: DriverHeartbeat) -> int:
    """Return the newest format that the driver reads. The document of an ended job has the oldest format, so that an older version can read it."""
    formats = () if isinstance(state.current, Finished) else heartbeat.formats
    return newest_common_format(formats) or FORMATS[0]


def _saved(state: SchedulerState) -> SchedulerState:
    """Return the state without slot offers per worker: thousands of workers would not fit, and the next loop observes them again."""
    totals = SlotOffer(worker="", held=state.held_slots, free=state.available_slots - state.held_slots)
    return replace(state, offers=(totals,) if state.offers else ())


def _tagged(value: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = snapshot.encode(value)
    return encoded
