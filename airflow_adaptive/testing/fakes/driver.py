"""Drivers in memory that obey the journal of a `FakeJobDirectory` as real drivers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_adaptive.job.protocol.codec import decode_journal
from airflow_adaptive.job.protocol.conf import PREFIX
from airflow_adaptive.job.protocol.documents import (
    FORMATS,
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    JournalDocument,
    QueryReport,
)
from airflow_adaptive.ports import SubmissionState
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.job_directory import FakeJobDirectory


@dataclass(slots=True, kw_only=True)
class _Session:
    """State of one driver process."""

    submission_id: str
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
    rejected_version: int = 0
    state: DriverState = DriverState.STARTING
    failure: FailureReport | None = None


class FakeDrivers:
    """All driver processes of one job on a `FakeCluster`.

    Attributes:
        hang: whether the drivers hang: they run, but neither read the journal nor write a status.
        boots: ticks that a driver needs until its session exists.
        formats: document formats that a driver reads which starts now.
        commits: whether running queries commit a batch with each tick; otherwise they are idle.
        build_failure: error of the author's function, None if the function succeeds.
        vertices_read: vertices whose parallelism the function reads, None if the driver does not report them.
        measures: further fields of the query's progress by the slots of the query; None without any.
        started: (epoch, version, parallelism) of each start of the queries, in order.
    """

    def __init__(self, cluster: FakeCluster, directory: FakeJobDirectory) -> None:
        self._cluster = cluster
        self._directory = directory
        self._sessions: dict[str, _Session] = {}
        self.boots = 0
        self.formats: tuple[int, ...] = FORMATS
        self.hang = False
        self.commits = True
        self.build_failure: FailureReport | None = None
        self.vertices_read: tuple[str, ...] | None = None
        self.measures: Callable[[int], Mapping[str, Any]] | None = None
        self.started: list[tuple[int, int, dict[str, int]]] = []

    def tick(self, states: Mapping[str, SubmissionState]) -> None:
        """Let each driver that runs according to `states` read the journal, act, and write a status."""
        own = {name: it for name, it in self._cluster.submissions.items() if it.name == self._directory.job}
        for submission_id, submission in own.items():
            if submission_id not in self._sessions:
                self._sessions[submission_id] = _Session(
                    submission_id=submission_id,
                    epoch=int(submission.conf[PREFIX + "epoch"]),
                    nonce=submission.conf[PREFIX + "nonce"],
                    cores=int(submission.conf["spark.executor.cores"]),
                    memory_mb=int(submission.conf["spark.executor.memory"].rstrip("m")),
                    boots=self.boots,
                    formats=self.formats,
                )
            if states[submission_id] is SubmissionState.RUNNING and not self.hang:
                self._act(self._sessions[submission_id])

    def fail_query(self, error_class: str = "SparkException", message: str = "a task failed") -> None:
        """Let the query of the newest driver fail; the driver continues to run."""
        session = list(self._sessions.values())[-1]
        session.state = DriverState.FAILED
        session.failure = FailureReport(error_class=error_class, message=message, causes=(error_class,))

    def finish(self) -> None:
        """Exhaust the input of the newest driver."""
        list(self._sessions.values())[-1].state = DriverState.FINISHED

    def give_up(self) -> None:
        """Let the newest driver stop by itself, as after `orphan_timeout`."""
        list(self._sessions.values())[-1].state = DriverState.STOPPED

    def _act(self, session: _Session) -> None:
        document = self._newest()
        directive = None if document is None or document.format not in session.formats else document.directive
        session.boots -= 1
        if session.boots >= 0:
            return
        if session.state in (DriverState.FINISHED, DriverState.STOPPED):
            self._leave(session, session.state)
        elif directive is None or (directive.epoch, directive.nonce) != (session.epoch, session.nonce):
            self._leave(session, DriverState.FENCED)
        elif directive.action is Action.STOP:
            self._leave(session, DriverState.STOPPED)
        else:
            self._obey(session, directive)
            self._report(session)

    def _obey(self, session: _Session, directive: Directive) -> None:
        if directive.action is Action.HOLD or directive.plan is None:
            session.state, session.failure, session.query_version = DriverState.HOLDING, None, None
            return
        session.application_id = self._cluster.request_executors(
            session.submission_id, directive.plan.executors, session.cores, session.memory_mb
        )
        there = len(self._cluster.executors(session.submission_id)) >= directive.plan.executors
        if there and session.version != directive.version:
            self._activate(session, directive.version, directive.plan)
        elif session.state is DriverState.RUNNING and self.commits:
            session.committed += 1

    def _activate(self, session: _Session, version: int, plan: DriverPlan) -> None:
        runs = session.state is DriverState.RUNNING
        if self.build_failure is not None and session.query_version != plan.query_version:
            if runs:
                session.rejected_version = version
            else:
                session.version, session.state, session.failure = version, DriverState.FAILED, self.build_failure
            return
        if not runs or session.query_version != plan.query_version:
            self.started.append((session.epoch, version, dict(plan.parallelism)))
        session.version, session.query_version = version, plan.query_version
        session.state, session.failure = DriverState.RUNNING, None

    def _leave(self, session: _Session, state: DriverState) -> None:
        session.state = state
        self._report(session)
        self._cluster.finish_driver(session.submission_id)

    def _report(self, session: _Session) -> None:
        session.sequence += 1
        placed = self._cluster.executors(session.submission_id)
        executors = tuple(
            ExecutorReport(executor_id=str(number), cores=session.cores, worker=self._cluster.worker_address(worker))
            for number, worker in enumerate(placed)
        )
        query = QueryReport(name="q", active=True, committed=session.committed, idle=not self.commits)
        if self.measures is not None:
            query = replace(query, **self.measures(len(placed) * session.cores))
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
            )
        )

    def _newest(self) -> JournalDocument | None:
        journal = self._directory.journal
        return decode_journal(journal[max(journal)]) if journal else None
