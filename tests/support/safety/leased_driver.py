"""A driver of a safety simulation: the real `Driver` with its driver loop, link, fence and watchdog, over simulated processes.

Only Spark is replaced: the session, the executors and the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow_adaptive._core.ports import SubmissionState
from airflow_adaptive._core.protocol.conf import read_settings
from airflow_adaptive._core.protocol.documents import (
    Decommission,
    Directive,
    DriverPlan,
    DriverState,
    ExecutorReport,
    FailureReport,
    QueryReport,
)
from airflow_adaptive.job.control.interfaces import Journal
from airflow_adaptive.job.entry import driver as driver_module
from airflow_adaptive.job.entry.driver import Driver
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fleet.kernel.kernel import Kernel
from tests.support.safety.operating_system import Hosts
from tests.support.safety.slow_directory import DriverDirectory

BUILD_S = 0.3
BATCH_S = 1.0
EXIT_S = 1.0
"""Longest time that an exit takes before the processes end (`driver_process.OUTPUT_TIMEOUT_S`)."""


class ObservedJournal:
    """A journal that records when its newest successful read began."""

    def __init__(self, journal: Journal, kernel: Kernel) -> None:
        self.began_at = kernel.now
        self._journal = journal
        self._kernel = kernel

    def newest(self) -> Directive | None:
        began_at = self._kernel.now
        directive = self._journal.newest()
        if directive is not None:
            self.began_at = began_at
        return directive


class SimulatedQuery:
    """The workload: one query, whose batches take a second, or never end.

    Attributes:
        plan: active plan, None without a running query.
        batch_ends: whether the current batch ends.
        hangs: whether a request to stop the query never returns.
    """

    vertices_read = ("job",)
    gangs: Mapping[str, int] = {}

    def __init__(self, kernel: Kernel) -> None:
        self.plan: DriverPlan | None = None
        self.batch_ends = True
        self.hangs = False
        self._kernel = kernel
        self._started_at = 0.0

    def build(self, plan: DriverPlan) -> DriverPlan:
        self._kernel.sleep(BUILD_S)
        return plan

    def is_prepared(self, writers: Any, plan: DriverPlan) -> bool:
        return True

    def start(self, writers: Any, plan: DriverPlan) -> None:
        self.plan, self._started_at = plan, self._kernel.now

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        until = self._kernel.now + (BATCH_S if self.batch_ends else timeout_s)
        while self._kernel.now < until:
            pause(0.1)
        self.halt()
        return self.batch_ends

    def halt(self) -> bool:
        if self.hangs:
            self._kernel.hang()
        self.plan = None
        return True

    def can_adopt(self, plan: DriverPlan) -> bool:
        return self.plan is not None and self.plan.query_version == plan.query_version

    def adopt(self, plan: DriverPlan) -> None:
        self.plan = plan

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        pause(BATCH_S)
        act()
        return True

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        return True

    def has_ended(self) -> bool:
        return False

    def failure(self) -> FailureReport | None:
        return None

    def stateful_run(self) -> None:
        return None

    def reports(self) -> tuple[QueryReport, ...]:
        committed = int((self._kernel.now - self._started_at) / BATCH_S) if self.plan is not None else 0
        return (QueryReport(name="job", active=self.plan is not None, committed=committed),)

    def parallelism(self) -> dict[str, int]:
        return {} if self.plan is None else dict(self.plan.parallelism)


class SimulatedOperation:
    """A long operation in a simulated thread, in place of `OperationThread`."""

    def __init__(self, kernel: Kernel, hosts: Hosts, act: Callable[[], Any]) -> None:
        self._done: Future[Any] = Future()
        self._hosts = hosts
        kernel.start_thread(lambda: self._run(act))

    def wait(self, timeout_s: float) -> bool:
        if not self._done.done():
            self._hosts.current.wait(timeout_s, lambda wake: self._done.add_done_callback(lambda _: wake()))
        return self._done.done()

    def exception(self) -> BaseException | None:
        return self._done.exception()

    def result(self) -> Any:
        return self._done.result()

    def _run(self, act: Callable[[], Any]) -> None:
        try:
            self._done.set_result(act())
        except Exception as error:  # noqa: BLE001  the driver loop raises the error
            self._done.set_exception(error)


class SimulatedExecutors:
    """The executors of one driver on the fake cluster. A driver whose worker is lost does not notice the loss."""

    def __init__(self, cluster: FakeCluster, submission_id: str) -> None:
        self._cluster = cluster
        self._submission_id = submission_id
        self._registered: tuple[ExecutorReport, ...] = ()

    def alive(self) -> bool:
        return True

    def registered(self) -> tuple[ExecutorReport, ...]:
        if self._is_connected:
            workers = [self._cluster.worker_address(it) for it in self._cluster.executors(self._submission_id)]
            executors = (
                ExecutorReport(executor_id=str(it), cores=1, worker=worker) for it, worker in enumerate(workers)
            )
            self._registered = tuple(executors)
        return self._registered

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        return True

    def exiting(self) -> Sequence[str]:
        return []

    def decommission(self) -> Decommission:
        return Decommission()

    def request_total(self, total: int) -> None:
        if self._is_connected:
            self._cluster.request_executors(self._submission_id, total, 1, 512)

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        self.request_total(min(total, len(self._registered)))

    @property
    def _is_connected(self) -> bool:
        return self._cluster.states[self._submission_id] is SubmissionState.RUNNING


class LeasedDriver:
    """The processes of one driver. Its JVM is the parent of its Python process, as `spark-submit` starts them.

    Attributes:
        end: state in which the driver has ended in an orderly way, None before.
    """

    version = "4.3.0"
    """Version of Spark, because the driver regards this class as its session."""

    def __init__(self, kernel: Kernel, hosts: Hosts, cluster: FakeCluster, submission_id: str, directory: Any) -> None:
        self.host = hosts.add(submission_id)
        self.jvm = self.host.start("JVM")
        self.python = self.host.start("Python", parent=self.jvm)
        self.query = SimulatedQuery(kernel)
        self.directory: DriverDirectory = directory
        self.executors = SimulatedExecutors(cluster, submission_id)
        self.settings = read_settings(cluster.submissions[submission_id].conf.get)
        self.sparkContext = SimpleNamespace(applicationId=submission_id.replace("driver", "app"), uiWebUrl=None)
        self.process = SimpleNamespace(jvm=self.jvm.pid, exit=lambda code, message: self._exit())
        self.end: DriverState | None = None
        self._kernel = kernel

    def boot(self, seconds: float) -> None:
        """Start the script after a time."""
        self.python.at(self._kernel.now + seconds, lambda: self._kernel.start_thread(self._run))

    @property
    def runs_query(self) -> bool:
        """Whether a query writes output now, whatever the Python process does."""
        return self.query.plan is not None and self.jvm.is_alive and not self.jvm.is_frozen

    @property
    def age_s(self) -> float:
        """Seconds since the beginning of the newest read of the journal that has named a driver."""
        return self._kernel.now - self.journal.began_at

    def freeze_python(self) -> None:
        self.python.freeze()

    def kill(self) -> None:
        """End all processes of the driver, as a worker does."""
        for pid in (self.python.pid, self.jvm.pid):
            self.host.kill(pid)

    def _run(self) -> None:
        session: Any = self
        driver = Driver(session, self.settings)
        self.journal = ObservedJournal(driver.journal, self._kernel)
        driver.journal = self.journal
        workload: Any = self.query
        self.end = driver.run(workload)
        self.kill()

    def _exit(self) -> None:
        self._kernel.sleep(EXIT_S)
        self.kill()
        self._kernel.hang()


@contextmanager
def installed(kernel: Kernel, hosts: Hosts) -> Iterator[None]:
    """Let the real `Driver` use the simulated processes. Its session is a `LeasedDriver`."""

    clock = SimpleNamespace(sleep=hosts.sleep, monotonic=hosts.boot_time)
    replacements: dict[str, Any] = {
        "DriverProcess": lambda driver: driver.process,
        "HadoopJobDirectory": lambda driver, _: driver.directory,
        "SparkExecutorPool": lambda driver, **_: driver.executors,
        "SparkPlacement": lambda driver, **_: SimpleNamespace(),
        "separate_task_ids": lambda *_: None,
        "OperationThread": partial(SimulatedOperation, kernel, hosts),
        "boot_time": hosts.boot_time,
        "time": clock,
    }
    with ExitStack() as stack:
        for name, replacement in replacements.items():
            stack.enter_context(patch.object(driver_module, name, replacement))
        stack.enter_context(hosts.installed())
        yield
