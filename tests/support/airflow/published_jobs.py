"""Jobs with a history, for the page: steps of the scheduler, published by the code of the loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_adaptive._core.protocol.documents import ExecutorReport
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive._core.scheduler.allocator import minimum_slots, required_slots
from airflow_adaptive._core.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import DRIVER, METRICS, driver_document
from airflow_adaptive._engine.publishing.time_series import FINEST, RESOLUTIONS, Point, Series
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.published_documents import published, report

WORKERS = ("10.0.0.21:35001", "10.0.0.22:35002", "10.0.0.23:35003")

LOST = Failure(
    error_class="org.apache.spark.SparkException",
    message="Job aborted due to stage failure: task 3 in stage 41.0 failed 4 times: connection to s3.example.com timed out",
    causes=("SparkException", "java.io.IOException", "java.net.SocketTimeoutException"),
)
HOPELESS = Failure(
    error_class="AnalysisException",
    message="[UNRESOLVED_COLUMN] A column named `carier` cannot be resolved. Did you mean `carrier`?",
    causes=("AnalysisException",),
)

SPARK = {
    "master": "http://10.0.0.20:8080",
    "driver": "http://10.0.0.21:4040",
    "executors": "http://10.0.0.21:4040/executors/",
    "stderr": "http://10.0.0.21:8081/logPage/?driverId=driver-1&logType=stderr",
}


def minutes_ago(job: Scenario, minutes: float) -> Scenario:
    """The job, which begins so long ago."""
    job.now = datetime.now(UTC) - timedelta(minutes=minutes)
    return job


def pipeline(name: str) -> JobGraph:
    """Three vertices that share slots."""

    def vertex(name: str, lower: int, upper: int, inputs: tuple[str, ...] = ()) -> JobVertex:
        return JobVertex(name=name, parallelism=ParallelismRange(lower, upper), max_parallelism=16, inputs=inputs)

    return JobGraph(
        job=name,
        vertices=(vertex("read", 1, 8), vertex("enrich", 1, 8, ("read",)), vertex("aggregate", 1, 4, ("enrich",))),
    )


def have(job: Scenario, *slots: int, free: int = 0) -> Scenario:
    """The job holds so many slots on each worker; the last worker has so many free ones."""
    offers = [
        SlotOffer(worker=f"worker-2013{n}-{address}", held=held, address=address)
        for n, (address, held) in enumerate(zip(WORKERS, slots, strict=False))
    ]
    offers[-1] = replace(offers[-1], free=free)
    return job.when(SlotsChanged(at=job.now, offers=tuple(offers)))


def rescaled_twice(name: str = "departures") -> Scenario:
    """It has run for an hour, was rescaled from 2 to 6, failed and came back, and has a new slot since a moment ago."""
    job = minutes_ago(Scenario(graph=pipeline(name), load_balance_mode="tasks"), 62)
    job.given_waiting(free=2).after(12)
    have(job, 2).after(4).when_plan_activated()
    have(job.after(900), 2, 0, free=4).after(58).when_committed()
    job.after(40)
    if job.state.name == "Deploying":
        have(job, 2, 4).after(2).when_plan_activated()
    have(job.after(700), 2, 4)
    job.when_query_failed(LOST).when_query_failed(replace(LOST, message="task 7 was cut off")).after(20)
    if job.state.name == "Deploying":
        have(job, 2, 4).after(3).when_plan_activated().when_committed()
    left = (datetime.now(UTC) - job.now).total_seconds()
    have(job.after(max(left - 12, 0)), 2, 4, 0, free=1)
    return job


def time_series(job: Scenario, scale: float = 1.0) -> Mapping[str, Any]:
    """Time series of such a job."""
    series, now = Series(), int(datetime.now(UTC).timestamp())
    lower, upper = (
        minimum_slots(job.state.job, job.state.requirements),
        required_slots(job.state.job, job.state.requirements),
    )
    passed = [(int(step.transition.at.timestamp()), step) for step in job.steps if step.transition is not None]
    for at in range(now - 3_590, now, 10):
        state = next((step.state for moment, step in reversed(passed) if moment <= at), None)
        if state is None:
            continue
        slots = 0 if state.plan is None else state.plan.slots
        runs = state.name in ("Executing", "RestartingLocally")
        wanted = scale * (900 + 400 * math.sin(at / 600))
        processed = scale * slots * 240 + 40 * math.sin(at / 35) if runs else None
        backlog = max(0, int(scale * (5_000 - slots * 700 + 900 * math.sin(at / 300))))
        series.add(
            Point(
                at=at,
                slots=slots,
                lower=lower,
                upper=upper,
                input=round(wanted, 1) if runs else None,
                processed=processed,
                batch_ms=int(900 + 5_200 / max(slots, 1) + 120 * math.sin(at / 47)) if runs else None,
                backlog=backlog,
                state=state.name,
                lag_s=round(backlog / wanted, 1),
            )
        )
    return {f"{METRICS}{step}": series.page(step) for step in RESOLUTIONS}


def reported(job: Scenario) -> Mapping[str, Any]:
    """What the driver of a running job reports."""
    plan = job.state.plan
    if plan is None:
        return {}
    offers = [offer for offer in job.state.offers for _ in range(offer.held)]
    executors = tuple(
        ExecutorReport(executor_id=str(n), cores=1, worker=offer.address) for n, offer in enumerate(offers)
    )
    page = time_series(job)[f"{METRICS}{FINEST}"]
    newest = dict(zip(page["columns"], page["newest"], strict=False))  # without a point, nothing is known
    source = SourceReport(
        kind="KafkaV2",
        partitions=8,
        lag_rows=newest.get("backlog"),
        skew=1.2,
        worst_partition="flights-3",
        lag_s=newest.get("lag_s"),
        input_limit=8,
    )
    status = replace(
        report(),
        at=datetime.now(UTC).isoformat(),
        parallelism=dict(plan.parallelism),
        executors=executors,
        queries=(replace(report().queries[0], sources=(source,)),),
    )
    return {DRIVER: driver_document(status)}


def place(airflow_app: AirflowApp, job: Scenario, dag_id: str = "flights", task_id: str = "stream", **more: Any) -> int:
    """Declare the job and show all of it; returns its Asset's id."""
    asset = airflow_app.declare(job.state.job.job, dag_id, task_id)
    documents = {
        "desired_state": {"value": "running"},
        **published(job, **SPARK),
        **reported(job),
        **time_series(job),
        **more,
    }
    airflow_app.show(asset, documents)
    return asset


def waiting(name: str) -> Scenario:
    """It has two of the six slots that it needs."""
    bounds = ParallelismRange(6, 12)
    return minutes_ago(Scenario(graph=JobGraph.single(name, bounds, max_parallelism=12)), 2).given_waiting(free=2)


def backing_off(name: str) -> Scenario:
    """It failed, and starts again after a while."""
    job = minutes_ago(
        Scenario(graph=pipeline(name), restart_strategy={"type": "fixed-delay", "attempts": 9, "delay": "5 min"}), 1
    )
    have(job.given_executing(2), 2)
    return job.when_query_failed(LOST)


def failed(name: str) -> Scenario:
    """It failed for good."""
    job = minutes_ago(Scenario(graph=pipeline(name)), 30)
    have(job.given_executing(2), 2).after(60)
    return job.when_query_failed(HOPELESS).when_driver_ended()


def suspended(name: str) -> Scenario:
    """It was suspended."""
    job = minutes_ago(Scenario(graph=pipeline(name)), 30)
    have(job.given_executing(2), 2).after(600)
    return job.when_suspended().when_savepoint_completed().when_driver_ended()


def canceled(name: str) -> Scenario:
    """It was canceled."""
    job = minutes_ago(Scenario(graph=pipeline(name)), 300)
    have(job.given_executing(2), 2).after(600)
    return job.when_canceled().when_driver_ended()
