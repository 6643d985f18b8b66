"""Jobs in Airflow's own metrics."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.store import airflow_metrics
from airflow_adaptive._airflow.store.airflow_metrics import (
    COUNTER_TOTALS,
    GAUGE_COLUMNS,
    TRANSITIONS,
    AirflowMetrics,
)
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.timeline import (
    Amounts,
    ReasonCode,
    Rescale,
    TerminalState,
    Transition,
    TriggerCause,
)
from airflow_adaptive._core.view import STATE_NAMES, JobView, SlotCounts, TaskKey, Urls
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.publishing.publisher import job_view
from airflow_adaptive._engine.publishing.time_series import COLUMNS
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.scenario import START, Scenario
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.repository import METRICS

shared = pytest.importorskip(
    "airflow.sdk._shared.observability.metrics.stats", reason="Airflow 3.1 configures its metrics itself"
)
stats = pytest.importorskip("airflow.sdk.observability.stats")
if not hasattr(shared, "_factory"):
    pytest.skip("Airflow 3.2 has another client of metrics", allow_module_level=True)

TAGS = {"job": "departures", "dag_id": "flights", "task_id": "stream"}


class Recorder:
    """A backend of Airflow's statistics that remembers."""

    def __init__(self) -> None:
        self.gauges: dict[str, float] = {}
        self.tagged: dict[tuple[str, str], Mapping[str, str]] = {}
        self.counts: dict[str, int] = {}

    def gauge(self, stat: str, value: float, tags: Mapping[str, str] | None = None) -> None:
        name = (
            stat if tags is None else ";".join([stat, *(f"{key}={tags[key]}" for key in sorted(set(tags) - {*TAGS}))])
        )
        self.gauges[name] = value
        if tags is not None:
            self.tagged[name, "gauge"] = tags

    def incr(self, stat: str, count: int, tags: Mapping[str, str] | None = None) -> None:
        self.counts[stat] = self.counts.get(stat, 0) + count
        if tags is not None:
            self.tagged[stat, "counter"] = tags


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's statistics are afterwards what they were before."""
    monkeypatch.setattr(shared, "_factory", shared._factory)
    monkeypatch.setattr(shared, "_backend", shared._backend)


@pytest.fixture
def backend(untouched: None) -> Recorder:
    recorder = Recorder()
    stats.initialize(factory=lambda: recorder, export_legacy_names=True)
    return recorder


@pytest.fixture
def metrics() -> AirflowMetrics:
    return AirflowMetrics("departures", "flights", "stream")


def seen(rescales_ended: Sequence[Rescale] = (), transitions: Sequence[Transition] = (), **changes: Any) -> JobView:
    """A job that executes on two slots, as its loop shows it."""
    job = Scenario(resource_stabilization_timeout=0).given_executing(2)
    history = History(FakeJobDirectory(), "departures", 10)
    view = job_view(job.state, history, Urls(), "attempt")
    return replace(view, history=replace(view.history, rescales=rescales_ended, transitions=transitions), **changes)


def job_metrics(**columns: Any) -> dict[str, Any]:
    point = dict.fromkeys(COLUMNS) | {"at": 1, "slots": 2, "lower": 1, "upper": 4, "state": "Executing"} | columns
    return {"metrics/10": {"step": 10, "columns": [*point], "points": [[0] * len(point)] * 2 + [[*point.values()]]}}


def rescale(state: TerminalState | None, downtime: float | None) -> Rescale:
    amounts = Amounts(desired={"job": 2}, sufficient={})
    return Rescale(
        number=1,
        requirements=1,
        attempt=1,
        trigger_cause=TriggerCause.UPDATE_REQUIREMENT,
        start=START,
        vertices=amounts,
        groups=amounts,
        downtime=None if downtime is None else timedelta(seconds=downtime),
        terminal_state=state,
    )


def test_view_is_sent_as_gauges(backend: Recorder, metrics: AirflowMetrics) -> None:
    metrics.send_view(seen(restarts=3, rescales=5, slots=SlotCounts(held=2, available=6)))
    sent = {name: value for name, value in backend.gauges.items() if name.startswith("adaptive.departures.")}
    assert sent == {
        **{f"adaptive.departures.state.{state}": int(state == "Executing") for state in STATE_NAMES},
        "adaptive.departures.num_restarts": 3,
        "adaptive.departures.num_rescales": 5,
        "adaptive.departures.parallelism.job": 2,
        "adaptive.departures.parallelism_lower.job": seen().requirements["job"].lower,
        "adaptive.departures.parallelism_upper.job": seen().requirements["job"].upper,
        "adaptive.departures.slots_held": 2,
        "adaptive.departures.slots_available": 6,
    }


def test_every_metric_is_sent_with_tags_as_well(backend: Recorder, metrics: AirflowMetrics) -> None:
    metrics.send_view(seen([rescale(TerminalState.COMPLETED, 1.5)]))
    metrics.send_view(seen(transitions=[transition(1, ReasonCode.QUERY_FAILED)], restarts=1, rescales=1))
    metrics.send_metrics(job_metrics(input=1.0, processed=2.0, backlog=3, batch_ms=4, lag_s=5.0, unread_files=6))
    sent = {(name.partition(";")[0].removeprefix("adaptive."), kind) for name, kind in backend.tagged}
    assert sent == {(name, kind) for name, (kind, _) in METRICS.items()}
    assert all(TAGS.items() <= tags.items() for tags in backend.tagged.values())
    assert backend.tagged["adaptive.parallelism;vertex=job", "gauge"] == TAGS | {"vertex": "job"}
    assert backend.gauges["adaptive.state;state=Executing"] == 1


def test_names_that_contain_the_job_are_left_out_where_airflow_omits_its_own(
    backend: Recorder, metrics: AirflowMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    metrics.send_view(seen())
    metrics.send_view(seen(restarts=1))
    assert not [name for name in [*backend.gauges, *backend.counts] if "departures" in name]
    assert backend.counts == {"adaptive.restarts": 1}


def test_names_that_no_metric_may_have_are_written_as_airflow_writes_them(
    backend: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The name of a job is the same in every view, so a log entry for each view would fill the log."""
    view = seen(requirements={"a.b c": ParallelismRange(1, 2)}, parallelism=None)
    AirflowMetrics("eu.flights #1", "d", "t").send_view(view)
    assert backend.gauges["adaptive.eu__flights__1.parallelism.a__b_c"] == 0
    assert caplog.messages == []


def test_jobs_of_fleets_with_equal_items_have_metrics_of_their_own(backend: Recorder) -> None:
    for name in ("eu", "orders:stream:eu", "clicks:stream:eu"):
        AirflowMetrics(name, "d", "t").send_view(seen())
    names = {gauge for gauge in backend.gauges if gauge.endswith("num_rescales")}
    jobs = {"adaptive", "adaptive.eu", "adaptive.orders.stream.eu", "adaptive.clicks.stream.eu"}
    assert names == {f"{job}.num_rescales" for job in jobs}


def test_counters_count_what_comes_while_the_loop_runs(backend: Recorder, metrics: AirflowMetrics) -> None:
    for restarts in (4, 4, 6, 7, 0, 1):  # a job that starts again counts from zero
        metrics.send_view(seen(restarts=restarts))
    assert backend.counts == {"adaptive.restarts": 4, "adaptive.departures.restarts": 4}


def transition(number: int, code: ReasonCode) -> Transition:
    return Transition(
        at=START + timedelta(seconds=number),
        source="Executing",
        target="Restarting",
        version=number,
        before=None,
        after=None,
        reason_code=code,
        reason="a reason",
    )


def test_transitions_are_counted_by_reason_code_from_the_second_view_on(
    backend: Recorder, metrics: AirflowMetrics
) -> None:
    first, second = transition(1, ReasonCode.QUERY_FAILED), transition(2, ReasonCode.PLAN_ACTIVATED)
    third, fourth = transition(3, ReasonCode.QUERY_FAILED), transition(4, ReasonCode.QUERY_FAILED)
    for transitions in ((first,), (first,), (first, second), (second, third, fourth)):
        metrics.send_view(seen(transitions=transitions))
    assert backend.counts == {
        "adaptive.transitions": 3,
        "adaptive.departures.transitions.PLAN_ACTIVATED": 1,
        "adaptive.departures.transitions.QUERY_FAILED": 2,
    }
    assert backend.tagged["adaptive.transitions", "counter"] == TAGS | {"reason_code": "QUERY_FAILED"}


def test_downtime_is_that_of_the_newest_completed_rescale(backend: Recorder, metrics: AirflowMetrics) -> None:
    history = [
        rescale(TerminalState.COMPLETED, 2.0),
        rescale(TerminalState.COMPLETED, 1.5),
        rescale(TerminalState.IGNORED, 9.0),
        rescale(None, None),
    ]
    metrics.send_view(seen(history))
    assert backend.gauges["adaptive.departures.last_rescale_downtime"] == 1500


def test_newest_metrics_are_sent_and_what_is_unknown_is_not(backend: Recorder, metrics: AirflowMetrics) -> None:
    metrics.send_metrics(job_metrics(input=12.5, batch_ms=300))
    named = {name: value for name, value in backend.gauges.items() if name.startswith("adaptive.departures.")}
    assert named == {
        "adaptive.departures.slots": 2,
        "adaptive.departures.slots_lower": 1,
        "adaptive.departures.slots_upper": 4,
        "adaptive.departures.num_records_in_per_second": 12.5,
        "adaptive.departures.batch_duration": 300,
    }


@pytest.mark.parametrize("document", [{}, {"metrics/10": {}}, {"metrics/10": {"columns": [], "points": []}}])
def test_job_without_metrics_sends_no_airflow_metrics(
    backend: Recorder, metrics: AirflowMetrics, document: dict[str, Any]
) -> None:
    metrics.send_metrics(document)
    assert backend.gauges == {}


def test_metrics_repeat_how_the_job_stands(backend: Recorder, metrics: AirflowMetrics) -> None:
    metrics.send_view(seen())
    backend.gauges.clear()
    metrics.send_metrics({})
    assert backend.gauges["adaptive.departures.state.Executing"] == 1


def test_backend_that_fails_is_reported_once_and_costs_nothing(
    untouched: None, metrics: AirflowMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> Any:
        raise ConnectionError("no backend")

    stats.initialize(factory=away, export_legacy_names=True)
    with caplog.at_level(logging.WARNING):
        metrics.send_view(seen())
        metrics.send_metrics(job_metrics())
        metrics.send_view(seen(slots=None))
    assert [record.getMessage() for record in caplog.records] == [
        "Metrics of job 'departures' cannot be sent: ConnectionError: no backend",
        "Metrics of job 'departures' cannot be sent: AttributeError: 'NoneType' object has no attribute 'held'",
    ]


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD server that Airflow's configuration names."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.getsockname()[1]))
        yield server


@pytest.mark.parametrize("without", [None, "_factory"])
def test_process_in_which_no_one_has_set_statistics_up_sends_them(
    untouched: None, statsd: socket.socket, metrics: AirflowMetrics, without: str | None
) -> None:
    """Also if the module of Airflow, which is internal to Airflow, lacks the attribute that tells whether they are set up."""
    shared._factory = shared._backend = None
    if without:
        delattr(shared, without)
    metrics.send_metrics(job_metrics())
    assert {statsd.recv(1000), statsd.recv(1000)} == {
        b"airflow.adaptive.slots:2|g",
        b"airflow.adaptive.departures.slots:2|g",
    }
    backend: Any = shared._backend
    backend.statsd.close()


def test_process_whose_statistics_are_set_up_keeps_them(backend: Recorder, metrics: AirflowMetrics) -> None:
    factory = shared._factory
    metrics.send_view(seen())
    assert shared._factory is factory


async def publish_view_and_metrics() -> None:
    clock = ManualClock()
    access = StoreAccess(clock)
    store = AirflowJobStore("departures", TaskKey(dag_id="flights", task_id="stream", run_id="r"), clock, access)
    await store.publish(seen())
    await store.publish_metrics(job_metrics(input=7.5))
    await store.finish()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait_for(asyncio.gather(*others), timeout=60)  # none is left if the sending was quick
    store.close()


def test_job_store_sends_what_it_shows(backend: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeComms.install(monkeypatch)
    asyncio.run(publish_view_and_metrics())
    assert backend.gauges["adaptive.departures.num_records_in_per_second"] == 7.5
    assert backend.gauges["adaptive.departures.state.Executing"] == 1


# ---- that the tables are true ---------------------------------------------------------------------------------------


def test_metrics_are_columns() -> None:
    assert {*GAUGE_COLUMNS.values()} <= {*COLUMNS}
    assert {name for name, (kind, _) in METRICS.items() if kind == "counter"} == {*COUNTER_TOTALS, TRANSITIONS}
    assert {name: tag for name, (_, tag) in METRICS.items() if tag} == airflow_metrics.TAGS
