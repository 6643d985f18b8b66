"""Documents of jobs as their loops publish them, made by the same code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_adaptive._airflow.store.task_xcoms import xcoms
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, ExecutorReport, QueryReport
from airflow_adaptive._core.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobType, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import DRIVER, JobView, Urls, documents, driver_document
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.observation.source_lag import SourceLag
from airflow_adaptive._engine.publishing.publisher import job_view
from airflow_adaptive._engine.publishing.time_series import JobMetrics
from tests.lab.contracts.job_directory import journal_document
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import RUN, AirflowApp

JOB = "departures"

TASK = {"dag_id": "flights", "task_id": "stream", "run_id": RUN, "map_index": -1}


def graph(name: str = JOB, lower: int = 1, upper: int = 4, **more: Any) -> JobGraph:
    vertex = JobVertex(name="job", parallelism=ParallelismRange(lower, upper), max_parallelism=8)
    return JobGraph(job=name, vertices=(vertex,), **more)


def scenario(name: str = JOB, **options: Any) -> Scenario:
    """A job of one vertex, 1 to 4, at most 8."""
    return Scenario(graph=graph(name), **options)


def executing(name: str = JOB, slots: int = 2, **options: Any) -> Scenario:
    """It runs on so many slots of one worker, and nothing is free."""
    job = scenario(name, **{"resource_stabilization_timeout": 0, **options}).given_executing(slots)
    job.when(SlotsChanged(at=job.now, offers=(SlotOffer(worker="w1", held=slots, address="w1:8081"),)))
    return job


def history(job: Scenario) -> History:
    """The history in the journal of the job."""
    history = History(FakeJobDirectory(), "job", 1000)
    for step in job.steps:
        history.take(
            replace(
                journal_document(1),
                transitions=[encode(step.transition)] if step.transition else [],
                decisions=[encode(step.decision)] if step.decision else [],
                rescales=[encode(step.rescale)] if step.rescale else [],
            )
        )
    return history


def published(job: Scenario, **urls: str) -> dict[str, Any]:
    """Documents that the loop of the job publishes."""
    return documents(_view(job, **urls), TASK)


def _view(job: Scenario, **urls: str) -> JobView:
    return job_view(job.state, history(job), Urls(**urls), "attempt")


def place_deleted(airflow_app: AirflowApp, job: Scenario, state: str = "removed") -> None:
    """The task of the job is deleted from its DAG file after its task instance has got the state."""
    name = job.state.job.job
    place(airflow_app, job)
    airflow_app.run(state=state)
    begin = {"attempt": "attempt", "adaptive_job/" + name: {"name": name, "job_directory": "file:///jobs"}}
    airflow_app.push({**begin, **xcoms(_view(job, driver="http://h1:4040"))}, TASK)
    airflow_app.delete_tasks()


def report(slots: int = 2) -> DriverStatus:
    """Status of the driver of the job."""
    query = QueryReport(
        name="q", active=True, batch_id=3, committed=4, input_rows=400, batch_duration_ms=500, trigger_interval_ms=1000
    )
    return DriverStatus(
        job=JOB,
        epoch=1,
        nonce="n",
        sequence=7,
        at="2013-01-01T00:00:30+00:00",
        state=DriverState.RUNNING,
        version=2,
        parallelism={"job": slots},
        executors=tuple(ExecutorReport(executor_id=str(n), cores=1, worker="w1:8081") for n in range(slots)),
        queries=(query,),
    )


def reported(slots: int = 2) -> Mapping[str, Any]:
    return {DRIVER: driver_document(report(slots))}


def time_series(job: Scenario, points: int = 3) -> Mapping[str, Any]:
    """The time series of the job, with a point every ten seconds."""
    metrics = JobMetrics()
    for number in range(points):
        status = replace(report(), queries=(replace(report().queries[0], input_rows=400 * number),))
        metrics.record(job.state, status, SourceLag(), job.now + timedelta(seconds=10 * number))
    return {name: page for name, page in (metrics.changed_documents() or {}).items() if name != DRIVER}


def place(airflow_app: AirflowApp, job: Scenario, dag_id: str = "flights", **more: Any) -> int:
    """Declare the job and show it; returns its Asset's id."""
    asset = airflow_app.declare(job.state.job.job, dag_id)
    airflow_app.show(
        asset, {"desired_state": {"value": "running"}, **published(job), **reported(), **time_series(job), **more}
    )
    return asset


def batch() -> Scenario:
    return Scenario(graph=graph(job_type=JobType.BATCH))


def suspended() -> Scenario:
    return executing().when_suspended().when_savepoint_completed().when_driver_ended()


def canceled() -> Scenario:
    return executing().when_canceled().when_driver_ended()
