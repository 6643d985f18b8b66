"""The fake drivers with more faults, for the simulation of killed loops: drivers that are frozen, that cannot read the journal or write
their status, and that run on although the cluster has lost them. At most one of them may run queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from airflow_adaptive._core.ports import DriverSubmission, SubmissionState
from airflow_adaptive._core.protocol.documents import DriverPlan, DriverState, DriverStatus, JournalDocument
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.driver import DriverSession, FakeDrivers
from tests.lab.fakes.job_directory import FakeJobDirectory

LIVING = (SubmissionState.RUNNING, SubmissionState.UNKNOWN)
"""States of a driver whose process may live."""

EVERY_EPOCH = 0
"""Key of the faults of all drivers, whatever their epoch."""


class UnencodedJobDirectory(FakeJobDirectory):
    """A job directory that keeps documents as they are: most of the time would go into JSON otherwise.

    Attributes:
        documents: the journal, number -> document.
        newest_status: the driver's status, None before its first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[int, JournalDocument] = {}
        self.newest_status: DriverStatus | None = None

    async def newest(self) -> JournalDocument | None:
        return self._log.get(max(self._log, default=0))

    async def read(self, number: int) -> JournalDocument | None:
        return self._log.get(number)

    async def create(self, document: JournalDocument) -> bool:
        return self._log.setdefault(document.number, document) == document and max(self._log) == document.number

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        older = [number for number in sorted(self._log) if before is None or number < before]
        return [self._log[number] for number in older[-limit:]]

    async def compact(self, keep: int) -> None:
        for number in sorted(self._log)[:-keep]:
            del self._log[number]

    def report(self, status: DriverStatus) -> None:
        self.newest_status = status

    async def status(self) -> DriverStatus | None:
        self._require_available()
        return self.newest_status

    @property
    def _log(self) -> dict[int, JournalDocument]:
        self._require_available()
        return self.documents


class TwoDriversError(AssertionError):
    """Two drivers ran queries at the same time."""


class LeasedDrivers(FakeDrivers):
    """All driver processes of a job, and what is wrong with them.

    Attributes:
        faults: epoch -> of "frozen", "blind" (cannot read the journal) and "mute" (cannot write the status).
        gone: drivers that have ended by themselves, whatever the cluster knows.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        directory: UnencodedJobDirectory,
        clock: Callable[[], float],
        boots: tuple[int, int],
    ) -> None:
        """Create the drivers.

        Args:
            cluster: cluster of the drivers.
            directory: job directory of the job.
            clock: clock of the drivers, in seconds.
            boots: ticks until the session of a driver exists; of the first driver, and of the others.
        """
        super().__init__(cluster, directory, clock)
        self.boots, self._later_boots = boots
        self._documents = directory
        self.faults: dict[int, frozenset[str]] = {}
        self.gone: set[str] = set()

    @property
    def active(self) -> list[DriverSession]:
        """Those whose queries run now."""
        states = self._cluster.states
        awake = [it for it in self._sessions.values() if self._is_awake(it, states[it.submission_id])]
        return [session for session in awake if session.query_version is not None]

    @property
    def left(self) -> list[str]:
        """Drivers that are there, or that the cluster will start."""
        states = self._cluster.states
        living = [it for it, session in self._sessions.items() if self._lives(session, states[it])]
        return living + [it for it, state in states.items() if state is SubmissionState.SUBMITTED]

    def newest(self) -> JournalDocument | None:
        """The newest document of the journal."""
        return self._documents.documents.get(max(self._documents.documents, default=0))

    def vanish(self) -> None:
        """All drivers end without a status, and the cluster loses track of them."""
        for submission_id in self._sessions:
            self.gone.add(submission_id)
            self._cluster._drivers[submission_id].state = SubmissionState.UNKNOWN

    def tick(self, states: Mapping[str, SubmissionState]) -> None:
        super().tick(states)
        if len(self.active) > 1:
            epochs = [session.epoch for session in self.active]
            raise TwoDriversError(f"after {self._clock():g} s drivers of epochs {epochs} run queries")

    def _start(self, submission_id: str, submission: DriverSubmission) -> DriverSession:
        session = super()._start(submission_id, submission)
        self.boots = self._later_boots
        return session

    def _is_awake(self, session: DriverSession, state: SubmissionState) -> bool:
        return self._lives(session, state) and "frozen" not in self._faults(session)

    def _lives(self, session: DriverSession, state: SubmissionState) -> bool:
        return state in LIVING and session.submission_id not in self.gone

    def _faults(self, session: DriverSession) -> frozenset[str]:
        return self.faults.get(session.epoch, frozenset()) | self.faults.get(EVERY_EPOCH, frozenset())

    def _newest(self, session: DriverSession) -> JournalDocument | None:
        return None if "blind" in self._faults(session) else self.newest()

    def _request_executors(self, session: DriverSession, plan: DriverPlan) -> None:
        if self._cluster.states[session.submission_id] is SubmissionState.RUNNING:
            super()._request_executors(session, plan)

    def _leave(self, session: DriverSession, state: DriverState) -> None:
        super()._leave(session, state)
        self.gone.add(session.submission_id)

    def _report(self, session: DriverSession) -> None:
        if "mute" not in self._faults(session):
            super()._report(session)
