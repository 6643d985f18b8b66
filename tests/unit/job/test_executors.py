"""The executors of a driver: which are released, on which workers they run, and which an administrator takes."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive._core.protocol.documents import Decommission, ExecutorLoad, ExecutorReport
from airflow_adaptive.job import executors
from airflow_adaptive.job.executors import (
    HEAP,
    HOLD_INTERVAL_S,
    LOAD_INTERVAL_S,
    SparkExecutorPool,
    executor_worker,
    surplus,
)
from tests.support.driver.fake_spark import Maybe


class Context:
    """`SparkContext` of an application, its scheduler backend and its task scheduler.

    Attributes:
        active: ids of the executors that accept tasks.
        decommissioned: ids of the executors that are being decommissioned.
        lost: ids of the executors that are lost, and whose removal is not confirmed yet.
        killed: ids of executors for which the driver requested a kill.
        ui: address of the driver's web UI.
        summaries: metrics of the executors.
    """

    def __init__(self) -> None:
        self.active = {"0", "1"}
        self.decommissioned: set[str] = set()
        self.lost: set[str] = set()
        self.killed: list[str] = []
        self.ui: str | None = None
        self.summaries: dict[str, Summary] = {}
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: self))

    def schedulerBackend(self) -> Context:
        return self

    def taskScheduler(self) -> Context:
        return self

    def getExecutorIds(self) -> list[str]:
        return sorted(self.active | self.decommissioned | self.lost)

    def isExecutorActive(self, name: str) -> bool:
        return name in self.active

    def getExecutorDecommissionState(self, name: str) -> Maybe:
        return Maybe("state" if name in self.decommissioned else None)

    def requestTotalExecutors(self, *_: object) -> None:
        pass

    def doKillExecutors(self, names: list[str]) -> None:
        self.killed += names

    def uiWebUrl(self) -> Maybe:
        return Maybe(self.ui)

    def statusStore(self) -> Context:
        return self

    def executorSummary(self, name: str) -> Any:
        if name not in self.summaries:
            raise Py4JError(f"NoSuchElementException: {name}")
        return self.summaries[name]

    def applicationId(self) -> str:
        return "app-1"


class Summary:
    """Spark's metrics of an executor; without a heap, it has sent no heartbeat."""

    def __init__(self, task_ms: int, gc_ms: int, heap: int | None) -> None:
        peak = None if heap is None else SimpleNamespace(getMetricValue=lambda name: {HEAP: heap}[name])
        self.totalDuration, self.totalGCTime = (lambda: task_ms), (lambda: gc_ms)
        self.peakMemoryMetrics = lambda: Maybe(peak)


class Server(http.server.BaseHTTPRequestHandler):
    """Answers as the web UI of a driver."""

    body: bytes | None = b"{}"
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200 if self.body is not None else 500)
        self.end_headers()
        self.wfile.write(self.body or b"")

    def log_message(self, *_: object) -> None:
        pass


class Trial:
    """A pool over `Context`, and the web UI of its driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
        self.context = Context()
        self.now = 0.0
        self.warnings: list[str] = []
        monkeypatch.setattr(executors, "from_scala", lambda _, found: found)
        monkeypatch.setattr(executors, "scala_seq", lambda _, items: items)
        monkeypatch.setattr(executors, "empty_scala_map", lambda _: {})
        report: Callable[..., ExecutorReport] = lambda _, name: ExecutorReport(  # noqa: E731
            executor_id=name, cores=1, worker=f"http://w{name}"
        )
        monkeypatch.setattr(SparkExecutorPool, "_report_of", report)
        spark: Any = SimpleNamespace(sparkContext=self.context.sparkContext, version=version)
        self.pool = SparkExecutorPool(spark, clock=lambda: self.now, warn=self.warnings.append)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Pages", (Server,), {"paths": []}))
        self.pages: Any = self.server.RequestHandlerClass
        self.context.ui = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def later(self) -> Decommission:
        """What the pool reports when it may request the status again."""
        self.now += HOLD_INTERVAL_S
        return self.pool.decommission()


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Trial]:
    made = Trial(monkeypatch, getattr(request, "param", "4.4.0"))
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_decommissioned_executor_is_reported_and_not_killed(trial: Trial) -> None:
    trial.context.active, trial.context.decommissioned, trial.context.lost = {"0"}, {"1"}, {"2"}
    assert trial.pool.decommission() == Decommission(workers=("http://w1",))
    trial.pool.request_total(1)
    assert (trial.pool.exiting(), trial.context.killed) == (["2"], ["2"])
    assert trial.pages.paths == []


def test_application_without_active_executors_is_held_if_spark_reports_it(trial: Trial) -> None:
    trial.context.active, trial.context.decommissioned = set(), {"0", "1"}
    trial.pages.body = b'{"supported": true, "held": true, "draining": 2}'
    assert trial.pool.decommission() == Decommission(workers=("http://w0", "http://w1"), held=True)
    assert trial.pages.paths == ["/api/v1/applications/app-1/holdstatus"]
    trial.context.decommissioned = set()
    assert trial.pool.decommission().held
    assert len(trial.pages.paths) == 1
    trial.pages.body = b'{"supported": true, "held": false, "draining": 0}'
    assert not trial.later().held


def test_load_is_the_total_of_all_executors_and_read_at_intervals(trial: Trial) -> None:
    trial.context.summaries = {"0": Summary(400, 30, 1 << 20), "1": Summary(600, 20, None)}
    first = ExecutorLoad(task_ms=1000, gc_ms=50, peak_heap_bytes=1 << 20)
    assert trial.pool.load() == first
    trial.context.summaries["1"] = Summary(700, 20, 3 << 20)
    assert trial.pool.load() == first
    trial.now += LOAD_INTERVAL_S
    assert trial.pool.load() == ExecutorLoad(task_ms=1100, gc_ms=50, peak_heap_bytes=3 << 20)
    trial.now += LOAD_INTERVAL_S
    trial.context.summaries.clear()
    assert trial.pool.load() is None
    trial.context.active.clear()
    trial.now += LOAD_INTERVAL_S
    assert trial.pool.load() is None


def test_unknown_answer_changes_nothing(trial: Trial) -> None:
    trial.context.active = set()
    trial.pages.body = b'{"held": true}'
    assert trial.pool.decommission().held
    for body in (None, b"<html>", b"[]", b"{}"):
        trial.pages.body = body
        assert trial.later().held
    assert len(trial.warnings) == 4
    trial.context.active = {"3"}
    assert not trial.later().held


def test_driver_without_a_web_ui_is_not_held(trial: Trial) -> None:
    trial.context.active, trial.context.ui = set(), None
    assert trial.pool.decommission() == Decommission()


@pytest.mark.parametrize("trial", ["4.3.0"], indirect=True)
def test_spark_that_cannot_hold_gets_no_request(trial: Trial) -> None:
    trial.context.active = set()
    assert trial.pool.decommission() == Decommission()
    assert trial.pages.paths == []


def executors_on(workers: str) -> list[ExecutorReport]:
    """One for each letter, the name of its worker, in the order in which they were started."""
    return [
        ExecutorReport(executor_id=str(number), cores=1, worker=worker.strip()) for number, worker in enumerate(workers)
    ]


@pytest.mark.parametrize(
    ("workers", "total", "keep", "gone"),
    [
        ("aabb", 4, {"a": 2}, []),
        ("aabb", 9, {}, []),
        ("aabb", 0, {}, ["3", "2", "1", "0"]),
        ("aabb", 2, {}, ["3", "2"]),
        ("aabb", 2, {"b": 2}, ["1", "0"]),
        ("aabb", 2, {"a": 1, "b": 1}, ["3", "1"]),
        ("abab", 2, {"a": 1, "b": 1}, ["3", "2"]),
        ("aaab", 2, {"a": 1, "b": 1}, ["2", "1"]),
        ("abbb", 2, {"a": 1, "b": 1}, ["3", "2"]),
        ("aab", 2, {"a": 1, "b": 5}, ["1"]),  # a worker that keeps more than it has does not affect another
        ("aabb", 1, {"a": 2, "b": 1}, ["3", "2", "1"]),  # the youngest beyond the numbers of the plan
        (" aa", 2, {"a": 2}, ["0"]),  # one of an unknown worker before kept ones
    ],
)
def test_workers_that_keep_fewest_release_their_youngest_executors_first(workers, total, keep, gone):
    assert surplus(executors_on(workers), total, keep) == gone


@pytest.mark.parametrize(
    ("attributes", "log_url", "worker"),
    [
        ({}, "http://10.0.0.7:8081/logPage/?appId=app-1&executorId=0&logType=stdout", "http://10.0.0.7:8081"),
        ({}, "/proxy/worker-1/logPage/?appId=app-1", ""),
        ({}, "", ""),
        ({}, None, ""),
        ({"NODE_NAME": "node-1"}, "http://10.0.0.7:8081/logPage/", "node-1"),
    ],
)
def test_worker_of_an_executor_is_its_node_or_the_host_of_its_log(
    attributes: dict[str, str], log_url: str | None, worker: str
) -> None:
    assert executor_worker(attributes, {} if log_url is None else {"stdout": log_url}) == worker
