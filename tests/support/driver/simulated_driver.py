"""The driver loop's parts without Spark, in a driver whose time passes only when the loop sleeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import (
    Action,
    Decommission,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    ExecutorLoad,
    ExecutorReport,
    FailureReport,
    PreparedQuery,
    QueryReport,
)
from airflow_adaptive.job.control.driver_loop import DriverLoop
from airflow_adaptive.job.control.fence import Fence
from airflow_adaptive.job.control.interfaces import DriverInterfaces, StatefulRun
from airflow_adaptive.job.entry.driver import OperationThread

EPOCH = 3
NONCE = "n1"
LEASE_S = 60.0
POLL_S = 0.5


def plan(executors: int, *, query_version: int = 1, **parallelism: int) -> DriverPlan:
    """A plan for queries that were built under that version."""
    return DriverPlan(
        parallelism=parallelism or {"read": executors},
        executors=executors,
        state_partitions={"j": 4},
        query_version=query_version,
    )


def directive(
    action: Action, version: int, wanted: DriverPlan | None = None, *, epoch: int = EPOCH, nonce: str = NONCE
) -> Directive:
    return Directive(epoch=epoch, nonce=nonce, version=version, action=action, plan=wanted)


@dataclass
class SimulatedDriver:
    """Everything that the driver loop touches; also the script of what happens while it sleeps.

    `history` has the calls that change something, and each new state with its version; `balanced` has the number of
    executors over which tasks are being spread, 0 when that ends. Executors are given back in braces while no batch runs.
    """

    newest_directive: Directive | Exception | None = None
    executor_count: int = 0
    executors_warm: bool = True
    executors_exit: bool = False
    decommissioned: Decommission = Decommission()
    context_alive: bool = True
    build_error: Exception | None = None
    prepared: bool = False
    prepare_error: Exception | None = None
    during_build: Callable[[], None] = lambda: None
    during_prepare: Callable[[], None] = lambda: None
    during_start: Callable[[], None] = lambda: None
    during_release: Callable[[], None] = lambda: None
    during_report_fenced: Callable[[], None] = lambda: None
    declared: int = 0
    build_reads: tuple[str, ...] = ("read",)
    vertices_read: tuple[str, ...] | None = None
    gangs: dict[str, int] = field(default_factory=dict)
    batch_ends: bool = True
    spread: bool = False
    during_end: Callable[[], None] = lambda: None
    boundary_reached: bool = True
    end_timeout_s: float = 0.0
    query_failure: FailureReport | None = None
    query_over: bool = False
    is_batch: bool = False
    queries_stop: bool = True
    saved_meanwhile: bool = False
    interruptible: bool = True
    first_trigger_after_s: float = 0.0
    writable: bool = True
    stateful: StatefulRun | None = None
    time: float = 100.0
    history: list[str] = field(default_factory=list)
    balanced: list[int] = field(default_factory=lambda: [0])
    seen: list[list[int]] = field(default_factory=list)
    statuses: list[DriverStatus] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    guarded: bool = False
    lease_end: float = math.inf
    fence: Fence = field(init=False)
    plan: DriverPlan | None = None
    terminated: bool = False
    steps: list[Callable[[], None]] = field(default_factory=list)

    def run(self, *steps: Callable[[], None]) -> DriverState:
        """Run the loop. One step happens between two cycles; after the last step the directive is STOP."""
        self.steps = list(steps)
        settings = DriverSettings(
            job="j", directory="", epoch=EPOCH, nonce=NONCE, lease_timeout_s=LEASE_S, poll_interval_s=POLL_S
        )
        self.fence = Fence(epoch=EPOCH, nonce=NONCE, lease_timeout_s=LEASE_S, clock=self.clock)
        identity = DriverStatus(job="j", epoch=EPOCH, nonce=NONCE, sequence=0, at="", state=DriverState.STARTING)
        return DriverLoop(identity, self.interfaces(), settings, fence=self.fence, enforce=self.enforce).run()

    def interfaces(self) -> DriverInterfaces:
        """Every component is this object."""
        return DriverInterfaces(
            journal=self,
            reporter=self,
            workload=self,
            executors=self,
            balancer=self,
            termination=self,
            start_operation=OperationThread,
            clock=self.clock,
            sleep=self.sleep,
            warn=self.warnings.append,
        )

    @property
    def running(self) -> Self:
        """The queries are this object, too."""
        return self

    def after(self, mark: str) -> list[str]:
        """The history after its first `mark`."""
        return self.history[self.history.index(mark) + 1 :]

    # ---- what happens ----

    def directs_plan(self, version: int, executors: int, **changes: Any) -> Callable[[], None]:
        """A plan that the queries need not be built for, unless `built` is true."""
        return self.directs(Action.RUN, version, replace(plan(executors), **changes))

    def rebuilds(self, version: int, executors: int = 1) -> Callable[[], None]:
        """A plan that the queries have to be built for."""
        return self.directs(Action.RUN, version, plan(executors, query_version=version))

    def directs(self, action: Action, version: int, wanted: DriverPlan | None = None) -> Callable[[], None]:
        return lambda: setattr(self, "newest_directive", directive(action, version, wanted))

    def has_executors(self, count: int) -> Callable[[], None]:
        return lambda: setattr(self, "executor_count", count)

    def ends_query(self, failure: FailureReport | None = None) -> Callable[[], None]:
        def end() -> None:
            self.query_over, self.query_failure = True, failure

        return end

    def record_balanced(self) -> None:
        """Note what is `balanced` up to now."""
        self.seen.append(list(self.balanced))

    def nothing(self) -> None:
        """A turn in which nothing happens."""

    # ---- clock ----

    def clock(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.steps:
            self.steps.pop(0)()
        elif isinstance(self.newest_directive, Directive):
            self.newest_directive = directive(Action.STOP, self.newest_directive.version)

    # ---- log ----

    def newest(self) -> Directive | None:
        if isinstance(self.newest_directive, Exception):
            raise self.newest_directive
        return self.newest_directive

    # ---- termination ----

    def terminates(self) -> None:
        """Others end the driver."""
        self.terminated = True

    def is_requested(self) -> bool:
        return self.terminated

    # ---- query ----

    def build(self, plan: DriverPlan) -> DriverPlan:
        self.history.append("build")
        self.during_build()
        if self.build_error is not None:
            raise self.build_error
        self.vertices_read = self.build_reads
        return plan

    def warm_up(self, plan: DriverPlan, *, has_executors: bool) -> tuple[PreparedQuery, ...]:
        self.history.append("warm up" if has_executors else "warm up without executors")
        if self.build_error is not None:
            raise self.build_error
        return (PreparedQuery(name="q"),)

    def is_prepared(self, writers: DriverPlan, plan: DriverPlan) -> bool:
        return self.prepared

    def prepare(self, writers: DriverPlan, plan: DriverPlan) -> None:
        assert writers is plan
        assert self.guarded
        self.history.append("prepare")
        self.during_prepare()
        if self.prepare_error is not None:
            raise self.prepare_error

    def start(self, writers: DriverPlan, plan: DriverPlan) -> None:
        assert writers is plan
        assert self.guarded
        self.history.append(f"start {plan.executors}")
        self.during_start()
        self.plan, self.query_over, self.query_failure = plan, False, None

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        self.history.append("end")
        self.end_timeout_s = timeout_s
        pause(POLL_S)
        self.during_end()
        if self.saved_meanwhile:
            self.query_over = True
        elif self.interruptible:
            self.plan = None
        return self.boundary_reached and self.interruptible

    def can_adopt(self, plan: DriverPlan) -> bool:
        return self.plan is not None and (self.is_batch or plan.query_version == self.plan.query_version)

    def adopt(self, plan: DriverPlan) -> None:
        assert self.can_adopt(plan)
        self.plan = plan

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        self.history.append("{")
        if self.batch_ends:
            act()
        else:
            pause(timeout_s)
        self.history.append("}")
        return self.batch_ends

    def halt(self) -> bool:
        self.history.append("halt")
        self.plan = None
        return self.queries_stop

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        waited = min(timeout_s, self.first_trigger_after_s)
        self.time += waited
        self.first_trigger_after_s -= waited
        return not self.first_trigger_after_s

    def stateful_run(self) -> StatefulRun | None:
        return self.stateful

    def has_ended(self) -> bool:
        return self.plan is not None and self.query_over

    def close(self) -> None:
        self.plan = None

    def failure(self) -> FailureReport | None:
        return self.query_failure

    def enforce(self, lease_end: float) -> None:
        self.lease_end, self.guarded = lease_end, lease_end < math.inf

    def reports(self) -> tuple[QueryReport, ...]:
        return ()

    def parallelism(self) -> dict[str, int]:
        return {} if self.plan is None else dict(self.plan.parallelism)

    # ---- executors ----

    def alive(self) -> bool:
        return self.context_alive

    def registered(self) -> tuple[ExecutorReport, ...]:
        return tuple(ExecutorReport(executor_id=str(number), cores=1) for number in range(self.executor_count))

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        return self.executors_warm

    def exiting(self) -> list[str]:
        return ["9"] if self.executors_exit else []

    def load(self) -> ExecutorLoad | None:
        return None

    def decommission(self) -> Decommission:
        return self.decommissioned

    def request_total(self, total: int) -> None:
        if total != self.declared:
            self.history.append(f"declare {total}")
        self.declared = total

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        if self.executor_count > total:
            kept = "".join(f", {count} on {worker}" for worker, count in keep.items())
            self.history.append(f"release down to {total}{kept}")
            self.during_release()
            self.executor_count = total

    # ---- balancer ----

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        assert run is self.stateful
        if self.balanced[-1] != len(executors):
            self.balanced.append(len(executors))
        return self.spread

    def ignore_locality(self) -> None:
        self.history.append("tasks let go")

    def restore(self) -> None:
        if self.balanced[-1]:
            self.balanced.append(0)

    # ---- reporter ----

    def report(self, status: DriverStatus) -> bool:
        if not self.statuses or (status.state, status.version) != (self.statuses[-1].state, self.statuses[-1].version):
            self.history.append(f"{status.state} {status.version}")
        self.statuses.append(status)
        return self.writable

    def report_fenced(self, status: DriverStatus) -> None:
        self.history.append("FENCED")
        self.during_report_fenced()
