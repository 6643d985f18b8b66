"""What a loop publishes, and when: neither the store nor its answers delay the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.ports import ClusterSnapshot
from airflow_adaptive._core.requirements.advice import PolicyAdvice
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.requirements.limits import ReportedLimits
from airflow_adaptive._core.requirements.resolution import DECLARED
from airflow_adaptive._core.requirements.resolver import ResolverMemory
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._core.view import LagAlert, documents
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive._engine.loop_memory import LoopMemory
from airflow_adaptive._engine.observation.job_observation import JobObservation
from airflow_adaptive._engine.observation.lag_alert import LagAlerts
from airflow_adaptive._engine.observation.source_lag import SourceLag
from airflow_adaptive._engine.publishing.publisher import Publisher
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation
from tests.support.airflow.published_documents import executing, history


@pytest.fixture
def job() -> Simulation:
    job = Simulation(resource_stabilization_timeout="2 s")
    job.cluster.add_worker(cores=2, memory_mb=1024)
    return job


def test_job_runs_while_the_published_metrics_cannot_be_read(job: Simulation) -> None:
    """The loop starts, and the read of the metrics of the previous loop never returns."""
    job.clock.at(60, job.drivers.finish)
    published = {"metrics/10": {"step": 10, "columns": [], "points": []}}
    job.store.metrics = published

    async def never() -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {}

    job.store.published_metrics = never  # type: ignore[method-assign]
    assert job.run_to_end().outcome.value == "FINISHED"
    assert job.store.metrics == published, "metrics that are not known yet must not be overwritten"


def test_control_requests_that_are_too_old_are_reported_once(job: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    """The job runs, and Airflow does not answer after ten seconds, until it answers again."""
    began = job.clock.now()

    async def control_requests() -> ControlRequests:
        age = timedelta(0) if job.clock.elapsed > 800 else job.clock.now() - began - timedelta(seconds=10)
        return replace(job.store.requests, age=max(age, timedelta(0)))

    job.store.control_requests = control_requests  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        job.run(RunLimits(recycle_at=START + timedelta(seconds=900)))
    texts = [
        "the control requests were not read for 0:05:00, because Airflow's API server, or the metadata database behind it, does not answer: "
        "check both. The job continues with the requests that it knows, and publishes its state when they answer again",
        "Airflow answers again: the job follows the newest control requests",
    ]
    assert [it for it in caplog.messages if it in texts] == texts
    decisions = job.store.views[-1].history.decisions
    assert [it.reason for it in decisions if it.reason_code is ReasonCode.AIRFLOW_UNAVAILABLE] == texts


def test_advice_is_published_with_the_metrics_if_more_than_its_time_has_changed() -> None:
    """A policy is consulted every minute, and has a problem from the third minute on."""
    store, job = FakeStore(), executing()
    resolver: Any = SimpleNamespace(policy=None)

    async def publish() -> list[bool]:
        publisher = Publisher(store, written(history(job)), resolver, "attempt")
        await publisher.restore()
        has_policy = []
        for minute in range(5):
            now = START + timedelta(minutes=minute)
            problem = "the metrics are too old" if minute >= 3 else None
            resolver.policy = PolicyAdvice(policy="LoadPolicy", advised_at=now, problem=problem) if minute else None
            publisher.record_metrics(job.state, None, SourceLag(), now)
            await publisher.publish(job.state)
            has_policy.append("policy" in store.metrics)
        return has_policy

    assert asyncio.run(publish()) == [False, True, False, True, False]
    assert len(store.views) == 1


def written(past: History) -> Any:
    """A journal with this past."""
    return SimpleNamespace(history=past, memory=LoopMemory())


def test_view_is_published_again_if_any_part_of_it_has_changed() -> None:
    store, job = FakeStore(), executing()
    past, observation = history(job), JobObservation(cluster=ClusterSnapshot(workers=(), ui_url="http://master:8080"))
    resolver: Any = SimpleNamespace(policy=None)
    journal = written(past)
    publisher = Publisher(store, journal, resolver, "attempt")

    def remember(**changes: Any) -> None:
        journal.memory = replace(journal.memory, **changes)

    changes: list[Callable[[], object]] = [
        lambda: publisher.update_urls(observation, None),
        lambda: remember(resolver=ResolverMemory(source=DECLARED)),
        lambda: remember(resolver=ResolverMemory(source=DECLARED, limits=ReportedLimits(gangs={"q": 2}))),
        lambda: past.report_outage("no answer", job.state, START),
        lambda: remember(lag_alerts=LagAlerts(above_threshold=LagAlert(since=START, lag_s=60.0))),
        lambda: publisher.record_metrics(job.state, None, SourceLag(unknown_since=START), START),
        lambda: publisher.record_metrics(job.state, None, SourceLag(unknown_since=START, problem="no broker"), START),
        lambda: None,
    ]

    async def publish() -> list[int]:
        await publisher.publish(job.state)
        views = []
        for change in changes:
            change()
            await publisher.publish(job.state)
            views.append(len(store.views))
        return views

    assert asyncio.run(publish()) == [2, 3, 4, 5, 6, 7, 8, 8]
    assert documents(store.views[-1], {})["summary"]["source_problem"] == "no broker"
