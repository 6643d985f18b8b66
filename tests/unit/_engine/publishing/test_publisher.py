"""What a loop publishes, and when: the view of a job and the addresses of its pages. Neither the store nor its answers delay the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_adaptive._core.deployment import Preparation
from airflow_adaptive._core.ports import ClusterSnapshot, LogPages, Resources, Worker
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.requirements.advice import PublishedAdvice, PublishedPolicy
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.requirements.limits import ReportedLimits
from airflow_adaptive._core.requirements.resolution import DECLARED, RequirementsOrigin
from airflow_adaptive._core.requirements.resolver import ResolverMemory
from airflow_adaptive._core.scheduler.job_graph import JobType
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._core.view import (
    MAX_FAILURES,
    STATE_NAMES,
    JobView,
    LagAlert,
    SchedulerStateName,
    SlotCounts,
    Urls,
    documents,
    is_web_address,
)
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.journal.step_document import LoopMemory
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive._engine.observation.observer import JobObservation
from airflow_adaptive._engine.observation.source_lag import LagAlerts, SourceLag
from airflow_adaptive._engine.publishing.publisher import Publisher, job_view, updated_urls
from airflow_adaptive._engine.spec import DriverSpec
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import HOPELESS, TRANSIENT, Scenario
from tests.lab.simulation.one_job import Simulation
from tests.support.airflow.published_documents import batch, canceled, executing, history


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
            advice = PublishedAdvice(bounds={}, reason="busy", at=now, since=START)
            resolver.policy = PublishedPolicy(kind="LoadPolicy", advice=advice, problem=problem) if minute else None
            publisher.record_metrics(job.state, None, SourceLag(), now)
            await publisher.publish(job.state)
            has_policy.append("policy" in store.metrics)
        return has_policy

    assert asyncio.run(publish()) == [False, True, False, True, False]
    assert len(store.views) == 1


@pytest.mark.parametrize(("origin", "upper"), [("POLICY", 4), ("CALENDAR", 4), ("USER", 2)])
def test_upper_bound_in_the_metrics_is_not_that_of_a_policy(origin: str, upper: int) -> None:
    store, job, journal = FakeStore(), executing(), written(history(executing()))
    source = replace(DECLARED, origin=RequirementsOrigin(origin))
    journal.memory = replace(journal.memory, resolver=ResolverMemory(source=source))
    state = replace(job.state, requirements={"job": ParallelismRange(1, 2)})

    async def publish() -> None:
        publisher = Publisher(store, journal, cast(Any, SimpleNamespace(policy=None)), "attempt")
        await publisher.restore()
        publisher.record_metrics(state, None, SourceLag(), START)
        await publisher.publish(state)

    asyncio.run(publish())
    page = store.metrics["metrics/10"]
    assert dict(zip(page["columns"], page["newest"], strict=True))["upper"] == upper


def written(past: History) -> Any:
    """A journal with this past."""
    return SimpleNamespace(history=past, memory=LoopMemory())


def test_view_is_published_again_if_any_part_of_it_has_changed() -> None:
    store, job = FakeStore(), executing()
    past, cluster = history(job), ClusterSnapshot(workers=(), ui_url="http://master:8080")
    room = Resources(4000, 8 << 30)
    larger = replace(cluster, workers=(Worker(worker_id="w1", address="w1:8081", total=room, free=Resources()),))
    observation, spec = JobObservation(cluster=cluster), DriverSpec(script="s", py_files=())
    resolver: Any = SimpleNamespace(policy=None)
    journal = written(past)
    publisher = Publisher(store, journal, resolver, "attempt")

    def remember(**changes: Any) -> None:
        journal.memory = replace(journal.memory, **changes)

    changes: list[Callable[[], object]] = [
        lambda: publisher.update_cluster(observation, None, spec),
        lambda: publisher.update_cluster(replace(observation, cluster=larger), None, spec),
        lambda: publisher.update_cluster(JobObservation(cluster_error="no answer"), None, spec),
        lambda: remember(resolver=ResolverMemory(source=DECLARED)),
        lambda: remember(resolver=ResolverMemory(source=DECLARED, limits=ReportedLimits(gangs={"q": 2}))),
        lambda: past.report_outage("no answer", job.state, START),
        lambda: remember(lag_alerts=LagAlerts(above_threshold=LagAlert(since=START, lag_s=60.0))),
        lambda: publisher.record_metrics(job.state, None, SourceLag(unknown_since=START), START),
        lambda: publisher.record_metrics(job.state, None, SourceLag(unknown_since=START, problem="no broker"), START),
        lambda: remember(preparation=Preparation(deployment="new")),
        lambda: None,
    ]

    async def publish() -> list[int]:
        await publisher.publish(job.state)
        views = []
        for change in changes:
            change()
            await publisher.publish(job.state)
            views.append(len(store.views))
        await publisher.publish(replace(job.state, driver=None))
        return views

    assert asyncio.run(publish()) == [2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]
    assert [(view.slots.total, view.slots.driver_cores) for view in store.views[-2:]] == [(None, 0), (4, 1)]
    summary = documents(store.views[-1], {})["summary"]
    assert (summary["source_problem"], summary["cluster_problem"]) == ("no broker", "no answer")
    assert documents(store.views[-1], {})["deployment"]["preparation"]["deployment"] == "new"


STATUS = DriverStatus(
    job="j", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, ui_url="http://driver:4040"
)
PAGES = {"driver-1": LogPages(stdout="http://w/1/stdout", stderr="http://w/1/stderr")}
CLUSTER = ClusterSnapshot(workers=(), ui_url="http://master", log_pages=PAGES)
RUNNING = Urls(
    master="http://master",
    driver="http://driver:4040",
    executors="http://driver:4040/executors/",
    stdout="http://w/1/stdout",
    stderr="http://w/1/stderr",
)


def test_addresses_of_a_running_driver_are_those_of_its_submission() -> None:
    assert updated_urls(Urls(), JobObservation(status=STATUS, cluster=CLUSTER), "driver-1") == RUNNING


def test_driver_without_a_submission_id_has_no_output_yet() -> None:
    assert updated_urls(Urls(), JobObservation(cluster=CLUSTER), None) == Urls(master="http://master")


def test_output_remains_after_the_end_of_the_driver_until_the_next_driver_has_output() -> None:
    ended = updated_urls(RUNNING, JobObservation(cluster=CLUSTER), "driver-2")
    assert ended == replace(RUNNING, driver=None, executors=None)


def test_addresses_of_the_cluster_remain_while_the_cluster_is_unknown() -> None:
    assert updated_urls(RUNNING, JobObservation(status=STATUS), "driver-1") == RUNNING


@pytest.mark.parametrize(
    ("url", "is_address"),
    [("http://a", True), ("https://a", True), ("javascript:alert(1)", False), ("http://[", False), (None, False)],
)
def test_only_web_addresses_are_links(url: object, is_address: bool) -> None:
    assert is_web_address(url) is is_address


def view_of(job: Scenario) -> JobView:
    return job_view(job.state, history(job), Urls(master="http://master:8080"), "attempt")


def test_view_of_a_running_job_has_its_plan_its_slots_and_its_past() -> None:
    job = executing()
    view = view_of(job)
    assert (view.job, view.job_type, view.state, view.attempt) == (
        "departures",
        JobType.STREAMING,
        "Executing",
        "attempt",
    )
    assert (view.parallelism, view.slots) == ({"job": 2}, SlotCounts(held=2, available=2))
    assert (view.outcome, view.cause, view.recent_failures) == (None, None, ())
    assert view.history.transitions[-1].target == view.state
    assert (view.scheduler, view.urls.master) == (job.state, "http://master:8080")


def test_view_of_a_job_before_its_start_has_no_plan_and_no_driver() -> None:
    view = view_of(batch())
    assert (view.job_type, view.state, view.parallelism, view.submission_id) == (JobType.BATCH, "Created", None, None)


def test_view_of_a_job_that_has_ended_names_the_outcome_and_the_cause() -> None:
    assert (view_of(canceled()).outcome, view_of(canceled()).cause) == (Outcome.CANCELED, None)
    failed = view_of(executing().when_query_failed(HOPELESS).when_driver_ended())
    assert (failed.outcome, failed.cause) == (Outcome.FAILED, HOPELESS.summary)


def test_view_has_the_newest_failures() -> None:
    job = executing(failure_history_size=16)
    for number in range(MAX_FAILURES + 3):
        job.when_query_failed(Failure(error_class=TRANSIENT.error_class, message=f"failure {number}"))
        job.after(100).when_plan_activated()
    failures = view_of(job).recent_failures
    assert len(failures) == MAX_FAILURES
    assert failures[-1].failure.message == f"failure {MAX_FAILURES + 2}"


def test_states_are_named_in_the_order_in_which_a_job_passes_them() -> None:
    assert (STATE_NAMES[0], STATE_NAMES[-1]) == ("Created", "Finished")
    assert [*SchedulerStateName] == [*STATE_NAMES, "unknown"]
