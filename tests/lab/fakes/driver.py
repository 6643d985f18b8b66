"""Drivers in memory that obey the journal of a `FakeJobDirectory` as real drivers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_adaptive._core.ports import DriverSubmission, SubmissionState
from airflow_adaptive._core.protocol.conf import read_settings
from airflow_adaptive._core.protocol.documents import (
    FORMATS,
    Action,
    Decommission,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    JournalDocument,
    QueryReport,
    decode_document,
)
from airflow_adaptive.job.control.fence import Fence, FencedError
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.job_directory import FakeJobDirectory


@dataclass(slots=True, kw_only=True)
class DriverSession:
    """State of one driver process.

    Attributes:
        fence: right of the driver to run queries, with the lease of its submission.
        query_version: version of the running queries, None without running queries.
        built_version: version of the newest plan whose queries were built.
        ticks_since_grant: ticks since the grant of each executor, by executor ID.
    """

    submission_id: str
    fence: Fence
    epoch: int
    nonce: str
    cores: int
    memory_mb: int
    boots: int
    formats: tuple[int, ...]
    sequence: int = 0
    version: int = 0
    committed: int = 0
    application_id: str | None = None
    query_version: int | None = None
    built_version: int = 0
    ticks_since_grant: dict[str, int] = field(default_factory=dict)
    rejected_version: int = 0
    state: DriverState = DriverState.STARTING
    failure: FailureReport | None = None


class FakeDrivers:
    """All driver processes of one job on a `FakeCluster`.

    A driver has the real fence. A driver that builds queries, or waits for executors, reports RESCALING meanwhile.

    Attributes:
        hang: whether the drivers hang: they run, but neither read the journal nor write a status.
        boots: ticks that a driver needs until its session exists.
        registers: ticks from the grant of an executor until the executor has registered with its driver.
        formats: document formats that a driver reads which starts now.
        commits: whether running queries commit a batch with each tick; otherwise they are idle.
        build_failure: error of the author's function, None if the function succeeds.
        vertices_read: vertices whose parallelism the function reads, None if the driver does not report them.
        measures: further fields of the query's progress by the slots of the query; None without any.
        gangs: slots that a query in Real-Time Mode needs at the same time, by query.
        decommission: what an administrator takes; no executor of a held application accepts tasks.
        started: (epoch, version, parallelism) of each start of the queries, in order.
    """

    def __init__(self, cluster: FakeCluster, directory: FakeJobDirectory, clock: Callable[[], float]) -> None:
        """No driver runs yet.

        Args:
            cluster: cluster of the drivers.
            directory: job directory of the job.
            clock: clock of the drivers, in seconds.
        """
        self._cluster = cluster
        self._directory = directory
        self._clock = clock
        self._sessions: dict[str, DriverSession] = {}
        self.boots = 0
        self.registers = 0
        self.formats: tuple[int, ...] = FORMATS
        self.hang = False
        self.commits = True
        self.build_failure: FailureReport | None = None
        self.vertices_read: tuple[str, ...] | None = None
        self.measures: Callable[[int], Mapping[str, Any]] | None = None
        self.gangs: Mapping[str, int] = {}
        self.decommission = Decommission()
        self.started: list[tuple[int, int, dict[str, int]]] = []

    def tick(self, states: Mapping[str, SubmissionState]) -> None:
        """Let each driver that runs according to `states` read the journal, act, and write a status."""
        own = {name: it for name, it in self._cluster.submissions.items() if it.name == self._directory.job}
        for submission_id, submission in own.items():
            if submission_id not in self._sessions:
                self._sessions[submission_id] = self._start(submission_id, submission)
            if self._is_awake(self._sessions[submission_id], states[submission_id]):
                self._act(self._sessions[submission_id])

    def _is_awake(self, _: DriverSession, state: SubmissionState) -> bool:
        """Return whether the processes of a driver run."""
        return state is SubmissionState.RUNNING and not self.hang

    def _start(self, submission_id: str, submission: DriverSubmission) -> DriverSession:
        settings = read_settings(submission.conf.get)
        epoch, nonce, lease_s = settings.epoch, settings.nonce, settings.lease_timeout_s
        return DriverSession(
            submission_id=submission_id,
            fence=Fence(epoch=epoch, nonce=nonce, lease_timeout_s=lease_s, clock=self._clock),
            epoch=epoch,
            nonce=nonce,
            cores=submission.executor_cores,
            memory_mb=submission.executor_memory_mb,
            boots=self.boots,
            formats=self.formats,
        )

    def fail_query(self, error_class: str = "SparkException", message: str = "a task failed") -> None:
        """Let the query of the newest driver fail; the driver continues to run."""
        session = list(self._sessions.values())[-1]
        session.state, session.query_version = DriverState.FAILED, None
        session.failure = FailureReport(error_class=error_class, message=message, causes=(error_class,))

    def finish(self) -> None:
        """Exhaust the input of the newest driver."""
        list(self._sessions.values())[-1].state = DriverState.FINISHED

    def _act(self, session: DriverSession) -> None:
        session.boots -= 1
        if session.boots >= 0:
            return
        try:
            directive = self._read(session)
        except FencedError:
            self._leave(session, DriverState.FENCED)
            return
        if session.state in (DriverState.FINISHED, DriverState.STOPPED):
            self._leave(session, session.state)
        elif directive is not None and directive.action is Action.STOP:
            self._leave(session, DriverState.STOPPED)
        else:
            if directive is not None:
                self._obey(session, directive)
            self._report(session)

    def _read(self, session: DriverSession) -> Directive | None:
        """Return the newest directive. Raises `FencedError`."""
        read_at, document = self._clock(), self._newest(session)
        if document is not None and document.format not in session.formats:
            raise FencedError(f"the format of journal document {document.number} is unknown")
        if document is not None:
            session.fence.admit(document.directive, read_at)
        session.fence.check(query_may_run=session.query_version is not None)
        return None if document is None else document.directive

    def _obey(self, session: DriverSession, directive: Directive) -> None:
        plan = directive.plan
        if directive.action is Action.HOLD or plan is None:
            session.state, session.failure, session.query_version = DriverState.HOLDING, None, None
            return
        self._request_executors(session, plan)
        registered = self._registered(session)
        if directive.version not in (session.version, session.rejected_version):
            session.state = DriverState.RESCALING if session.version else DriverState.STARTING
            if len(registered) >= plan.executors and self._has_queries(session, directive.version, plan):
                self._activate(session, directive.version, plan)
        if session.query_version is not None and self.commits:
            session.committed += 1

    def _request_executors(self, session: DriverSession, plan: DriverPlan) -> None:
        session.application_id = self._cluster.request_executors(
            session.submission_id, plan.executors, session.cores, session.memory_mb
        )

    def _registered(self, session: DriverSession) -> Mapping[str, str]:
        """Return the worker ID of each registered executor by executor ID."""
        granted = self._cluster.executors_by_id(session.submission_id)
        ages = session.ticks_since_grant
        session.ticks_since_grant = {name: ages.get(name, -1) + 1 for name in granted}
        return {name: granted[name] for name, age in session.ticks_since_grant.items() if age >= self.registers}

    def _has_queries(self, session: DriverSession, version: int, plan: DriverPlan) -> bool:
        """Return whether the queries of the plan run (tier 0) or can start; else build the queries until the next tick."""
        is_running, is_built = session.query_version == plan.query_version, session.built_version == version
        session.built_version = version
        return is_running or (is_built and session.fence.overdue_s() < 0)

    def _activate(self, session: DriverSession, version: int, plan: DriverPlan) -> None:
        is_running = session.query_version is not None
        if self.build_failure is not None and session.query_version != plan.query_version:
            if is_running:
                session.rejected_version, session.state = version, DriverState.RUNNING
            else:
                session.version, session.state, session.failure = version, DriverState.FAILED, self.build_failure
            return
        if session.query_version != plan.query_version:
            self.started.append((session.epoch, version, dict(plan.parallelism)))
        session.version, session.query_version = version, plan.query_version
        session.state, session.failure = DriverState.RUNNING, None

    def _leave(self, session: DriverSession, state: DriverState) -> None:
        session.state = state
        self._report(session)
        if state is DriverState.FENCED:
            self._cluster.kill_driver(session.submission_id)
        else:
            self._cluster.finish_driver(session.submission_id)

    def _report(self, session: DriverSession) -> None:
        session.sequence += 1
        registered = session.ticks_since_grant
        placed = self._cluster.executors_by_id(session.submission_id)
        executors = tuple(
            ExecutorReport(executor_id=name, cores=session.cores, worker=self._cluster.worker_address(worker))
            for name, worker in placed.items()
            if registered.get(name, -1) >= self.registers and not self.decommission.held
        )
        is_active = session.query_version is not None
        query = QueryReport(
            name="q", active=is_active, committed=session.committed, idle=is_active and not self.commits
        )
        if self.measures is not None:
            query = replace(query, **self.measures(len(executors) * session.cores))
        self._directory.report(
            DriverStatus(
                job=self._directory.job,
                epoch=session.epoch,
                nonce=session.nonce,
                sequence=session.sequence,
                at="",
                state=session.state,
                version=session.version,
                executors=executors,
                queries=(query,),
                failure=session.failure,
                rejected_version=session.rejected_version,
                rejection=self.build_failure if session.rejected_version else None,
                vertices_read=self.vertices_read,
                submission_id=session.submission_id,
                application_id=session.application_id,
                formats=session.formats,
                gangs=self.gangs,
                decommission=self.decommission,
                is_managed=True,
            )
        )
        session.fence.renew()

    def _newest(self, _: DriverSession) -> JournalDocument | None:
        """Return the newest journal document that a driver can read."""
        journal = self._directory.journal
        return decode_document(JournalDocument, journal[max(journal)]) if journal else None
