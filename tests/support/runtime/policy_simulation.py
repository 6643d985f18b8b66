"""Simulated jobs that follow a rescale policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document
from airflow_adaptive._core.requirements.control_requests import ControlRequests, Requester
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing, SchedulerState
from airflow_adaptive._core.view import POLICY, SUMMARY, JobView, documents
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "2 s",
    "max_trigger_delay": "3 s",
    "slot_request_max_interval": 0,
    "poll_interval": "15 s",
}


def calendar(*windows: Any, **more: Any) -> ScheduledPolicy:
    """By UTC; the simulation begins at midnight."""
    chosen = windows or (window("morning", (3, 4), start="01:00", end="02:00"),)
    return scheduled_policy(**({"zone": "UTC", "windows": chosen, "default": (1, 2)} | more))


def roomy(parallelism: tuple[int, int] = (1, 4), **options: Any) -> Simulation:
    """A cluster with room for the driver and eight slots."""
    simulation = Simulation(parallelism, **QUICK | options)
    simulation.cluster.add_worker(cores=9, memory_mb=9 * 512)
    return simulation


def following(policy: Any, parallelism: tuple[int, int] = (1, 4), **options: Any) -> Simulation:
    simulation = roomy(parallelism, **options)
    simulation.follow(policy)
    return simulation


def until(job: Simulation, seconds: float) -> SchedulerState:
    """Let a loop run until then; the next call begins another one, as after a kill."""
    return job.run(RunLimits(recycle_at=START + timedelta(seconds=seconds)))


def running_on(state: SchedulerState) -> int:
    assert isinstance(state.current, Executing), state.name
    return state.current.plan.parallelism["job"]


def published_view(job: Simulation) -> JobView:
    return job.store.views[-1]


def source_of(job: Simulation) -> Mapping[str, Any]:
    """The source of the requirements, as the summary contains it."""
    source: Mapping[str, Any] = documents(published_view(job), {})[SUMMARY]["requirements_source"]
    return source


def policy_of(job: Simulation) -> Mapping[str, Any]:
    """The document of the rescale policy."""
    policy: Mapping[str, Any] = documents(published_view(job), {})[POLICY]
    assert policy
    return policy


def by(job: Simulation) -> tuple[str, str]:
    return (source_of(job)["origin"], source_of(job)["name"])


def reasons(job: Simulation) -> list[str]:
    """Of all decisions in the log."""
    documents = [
        decode_document(JournalDocument, job.directory.journal[number]) for number in sorted(job.directory.journal)
    ]
    return [decision["reason"] for document in documents for decision in document.decisions]


def request_bounds(job: Simulation, bounds: tuple[int, int], expires: float | None = None) -> None:
    """A person sets bounds, which may expire so many seconds after the start."""
    end = None if expires is None else START + timedelta(seconds=expires)
    job.store.requests = ControlRequests(
        requirements={"job": ParallelismRange(*bounds)},
        requester=Requester(requested_by="alice", via="REST", expires_at=end),
    )


@dataclass
class Load:
    """Rows per second that come in, of which a slot can process 100 while it is busy; a batch every 10 s."""

    job: Simulation
    rate: float = 100.0
    nonsense: Mapping[str, Any] | None = None

    def __call__(self, slots: int) -> Mapping[str, Any]:
        rows, batch = self.rate * 10.0, int(self.job.clock.elapsed // 10)
        working = max(1, slots)
        measured = {
            "committed": batch,
            "batch_id": batch,
            "batch_rows": int(rows),
            "batch_duration_ms": int(200 + rows / (100.0 * working) * 1000) + batch % 3,
            "input_rate": self.rate,
            "backlog": 0,
            "trigger_interval_ms": 10_000,
            "idle": True,
        }
        return measured | dict(self.nonsense or {})


def loaded(policy: Any, parallelism: tuple[int, int] = (1, 8), **options: Any) -> tuple[Simulation, Load]:
    job = following(policy, parallelism, **options)
    load = Load(job)
    job.drivers.measures = load
    job.drivers.commits = False
    return job, load
