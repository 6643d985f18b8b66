"""The journal: the write-ahead record of the scheduler's steps. Each step is persisted before its commands are executed.

Creating a document is a compare-and-swap: of two loops that run the same job, one creates document n+1, and the other one finds
that document and knows that it is superseded. A loop that starts claims the journal with a document of its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from airflow_adaptive._core.ports import JobDirectory, JobDirectoryError
from airflow_adaptive._core.protocol.documents import DriverStatus, JournalDocument
from airflow_adaptive._core.requirements.resolver import MEMORY_REFRESH_INTERVAL
from airflow_adaptive._core.scheduler import snapshot
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Decision, Reason, Timeline
from airflow_adaptive._engine.driver_heartbeat import current_driver_status
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.journal.job_directory import append
from airflow_adaptive._engine.journal.step_document import (
    LoopMemory,
    adopted,
    clock_offset,
    created,
    is_durable,
    recalled,
    started_again,
    step_document,
)
from airflow_adaptive._engine.observation.source_lag import LagAlerts, are_about_lag
from airflow_adaptive._engine.spec import JobSpec

log = logging.getLogger(__name__)

_COMPACT_EVERY = 100

MAX_CLAIMS = 100
"""How often a loop tries to claim the journal from another loop that continues to write. The other loop needs more calls to the storage for a
document than this loop for a claim, so the claim succeeds after a few attempts."""


MayTakeOver = Callable[[str], Awaitable[bool]]
"""Returns whether a loop of this attempt may take the job over from the attempt with this token. Raises `StoreUnavailableError` if that is
unknown now."""


class SupersededError(Exception):
    """Another loop has taken over the job: this loop must not act any more.

    Attributes:
        owner: token of the other loop.
        attempt: attempt of the other loop; equal to the attempt of this loop if a duplicate loop has taken over, for
            example because Airflow moved the trigger to another triggerer.
    """

    def __init__(self, number: int, owner: str, attempt: str | None = None) -> None:
        self.owner = owner
        self.attempt = attempt_of(owner) if attempt is None else attempt
        super().__init__(f"document {number} was written by another loop, of attempt {self.attempt!r}")


class _LostRaceError(Exception):
    """Another loop has created the document that this loop wanted to create."""

    def __init__(self, document: JournalDocument) -> None:
        self.document = document


@dataclass(frozen=True, slots=True)
class _Unconfirmed:
    """A document whose creation is not confirmed: the journal creates it again before any other document. `request` as in `Journal._append`."""

    document: JournalDocument
    at: datetime
    source: tuple[Any, ...]
    request: object


class Journal:
    """The journal of one job, as one loop reads and writes it."""

    def __init__(
        self,
        directory: JobDirectory,
        spec: JobSpec,
        may_take_over: MayTakeOver | None = None,
    ) -> None:
        self._directory = directory
        self._spec = spec
        self.memory = LoopMemory()
        """What the loop remembers. `open` recalls it, the loop replaces it, and each document contains it."""
        self._reported_alerts = LagAlerts()
        """The alerts about the lag when all their reasons were in the timeline. The next loop reports the others."""
        self._may_take_over = may_take_over
        self._written_source: tuple[Any, ...] = ()
        self._owner = _token(spec.attempt)
        self._number = 0
        self._written_at = datetime.min.replace(tzinfo=UTC)
        self._unconfirmed: _Unconfirmed | None = None
        self._clock_offset = timedelta(0)
        """Time by which the clock was behind the newest document when this loop opened the journal."""
        self._log_entries: deque[Reason] = deque()
        self._is_compaction_due = False
        self.inherits_end = False
        """Whether the job was ending or had ended under another attempt when this loop opened the journal."""
        self._claimed_attempt = ""
        """Attempt of the document after which this loop claimed the journal."""
        self.redeclared_requirements: Requirements | None = None
        """Requirements of the graph as deployed now, if they must replace the persisted ones; else None."""
        self.nonce = uuid4().hex
        """Random value that distinguishes this job directory from others that had the same path."""
        self.history = History(directory, spec.graph.job, spec.options.history_size)
        """The past of the job, as its documents describe it."""

    def time(self, clock: datetime) -> datetime:
        """Return the time of the journal, which never goes back: if the clock was set back between two loops, the offset remains."""
        return clock + self._clock_offset

    async def open(self, clock: datetime) -> SchedulerState:
        """Claim the journal and return the state of the job: adopted from an earlier loop, or created.

        A loop that still runs the job may write once more in the meantime; this loop then claims the journal again. It claims nothing from another
        attempt unless it knows that it may: a triggerer that was frozen may start the trigger of a task that was cleared in the meantime.
        The newest document is read before the question, and the claim replaces no document that is newer. So a claim of a third attempt
        after the answer is never overlooked.

        Args:
            clock: time of the clock, see `time`.

        Raises:
            JobDirectoryError: the directory cannot be used.
            SnapshotError: a newer version wrote the newest document.
            StoreUnavailableError: whether this loop may take the job over is unknown now.
            SupersededError: another loop claimed the journal at the same moment, or this loop may not take the job over.
        """
        newest, status = await self._directory.newest(), None
        permitted = self._spec.attempt  # Attempt whose documents this loop may replace.
        for _ in range(MAX_CLAIMS):
            if newest is not None and (other := attempt_of(newest.owner)) != permitted:
                if not await self._may_replace(other):
                    raise SupersededError(newest.number, newest.owner)
                permitted = other
            status = status or (None if newest is None else await self._directory.status())
            try:
                return await self._claim(newest, status, clock)
            except _LostRaceError as lost:
                is_own = attempt_of(lost.document.owner) == self._spec.attempt
                if newest is None and is_own:
                    # An earlier loop of this attempt began the journal, and the listing does not contain it yet.
                    newest = await self._newest_from(lost.document)
                elif newest is None or (is_own and lost.document.owner != newest.owner):
                    break
                else:
                    newest = lost.document
        raise await self._superseded()

    async def _may_replace(self, other: str) -> bool:
        """Return whether this loop may take the job over from another attempt. Raises `StoreUnavailableError` if that is unknown.

        The journal cannot tell: after a restore of Airflow's database, the earlier attempt is the current one.
        """
        return other == self._spec.attempt or self._may_take_over is None or await self._may_take_over(other)

    async def _newest_from(self, document: JournalDocument) -> JournalDocument:
        """Return the newest document, without a listing."""
        while (later := await self._directory.read(document.number + 1)) is not None:
            document = later
        return document

    async def _claim(
        self, newest: JournalDocument | None, status: DriverStatus | None, clock: datetime
    ) -> SchedulerState:
        """Claim the journal after its newest document, at once, because the other loop may write again."""
        self._unconfirmed = None
        if newest is None:
            state = await self._begin_journal(clock)
        else:
            state = self._continue_journal(newest, status, clock)
        await self._append(Step(state=state), self.time(clock))
        await self.history.open(before=self._number)
        return state

    async def _begin_journal(self, now: datetime) -> SchedulerState:
        """Return the state of a job that has no journal yet."""
        new = created(self._spec)
        memory = self.memory.deployed(self._spec, new)
        self.memory = replace(memory, heartbeat=memory.heartbeat.continued(new.epoch, now))
        return replace(new, timeline=Timeline(number=await self.history.newest_number()))

    def _continue_journal(
        self, newest: JournalDocument, status: DriverStatus | None, clock: datetime
    ) -> SchedulerState:
        """Return the state that the newest document contains, adapted to the deployment."""
        self._clock_offset = clock_offset(newest, clock)
        self._number, self.nonce = newest.number, newest.directive.nonce
        persisted = snapshot.from_json(newest.scheduler)
        memory = recalled(newest.memory, persisted.epoch, self.time(clock)).deployed(self._spec, persisted)
        self._reported_alerts = memory.lag_alerts
        is_policy_active = memory.resolver.is_policy_active
        state, self.redeclared_requirements = adopted(self._spec, persisted, is_policy_active=is_policy_active)
        attempt = self._claimed_attempt = attempt_of(newest.owner)
        self.inherits_end = attempt != self._spec.attempt and state.traits.ends
        # An end remains the end of the earlier attempt: the next loop must not take it for the end of its own attempt.
        self._owner = _token(attempt if self.inherits_end else self._spec.attempt)
        current = current_driver_status(state, self.nonce, status)
        self.memory = replace(memory, heartbeat=memory.heartbeat.updated(state, current, self.time(clock)))
        return state

    async def start_again(self, ended: SchedulerState, now: datetime) -> SchedulerState:
        """Return the state of a new run of a job that has ended. Raises `JobDirectoryError` or `SupersededError`."""
        state = started_again(self._spec, ended)
        self.memory = self.memory.of_new_run()
        self._owner = _token(self._spec.attempt)
        await self._create(Step(state=state), now, request=ended)
        self.inherits_end = False
        return state

    async def save(self, step: Step, before: SchedulerState, now: datetime) -> None:
        """Persist a step, unless the step changes nothing that must survive the process. Raises `SupersededError` if another loop wrote first.

        After a `JobDirectoryError`, the step is not known to be persisted: do not execute it, and save it again before any other step.
        """
        if is_durable(step, before):
            await self._create(step, now, request=step)

    async def renew(self, state: SchedulerState, now: datetime) -> None:
        """Write a document if the newest one is too old or outdated. Raises `JobDirectoryError` or `SupersededError`.

        The driver needs a document within `trigger_lifetime`, to know that a loop still runs its job. The next loop needs a
        change of the requirements source, and a recent memory of the rescale policy.
        """
        max_age = self._spec.options.trigger_lifetime
        if self.memory.resolver.policy is not None:
            max_age = min(max_age, MEMORY_REFRESH_INTERVAL)
        if now - self._written_at >= max_age or self._written_source != self.memory.resolver.source_identity:
            await self._create(Step(state=state), now)

    def add_log_entry(self, entry: Reason) -> None:
        """Let `write_log_entries` write a reason to the timeline, without a step."""
        self._log_entries.append(entry)

    async def write_log_entries(self, state: SchedulerState, now: datetime) -> None:
        """Write the pending log entries to the timeline; after a `JobDirectoryError`, the next call writes the rest. Raises `SupersededError`."""
        while self._log_entries:
            entry = self._log_entries[0]
            decision = Decision(at=now, state=state.name, reason_code=entry.code, reason=entry.text)
            await self._create(Step(state=state, decision=decision), now, request=entry)

    async def check(self, now: datetime) -> None:
        """Check whether another loop has written since (`SupersededError`), keep the history complete, and compact the journal if it is time."""
        newer = await self._directory.read(self._number + 1)
        if newer is not None and newer.owner != self._owner:
            raise self._superseded_by(newer.number, newer.owner)
        self.history.read_again(now)
        await self.history.keep()
        await self._compact()

    def close(self) -> None:
        """Stop all work in the background."""
        self.history.close()

    async def _create(self, step: Step, now: datetime, request: object = None) -> None:
        """Create a document, see `_append`. Raises `SupersededError` if another loop wrote first."""
        try:
            await self._append(step, now, request)
        except _LostRaceError as lost:
            raise await self._superseded() from lost

    async def _superseded(self) -> SupersededError:
        """Return the error that names the loop that wrote the newest document."""
        newest = await self._directory.newest()
        return self._superseded_by(self._number + 1, "" if newest is None else newest.owner)

    def _superseded_by(self, number: int, owner: str) -> SupersededError:
        """Return the error for a document of another loop.

        While the journal contains the end of an earlier attempt, each loop that claims it writes under that attempt, so the other loop is
        a duplicate of this one.
        """
        is_duplicate = self.inherits_end and attempt_of(owner) == self._claimed_attempt
        return SupersededError(number, owner, self._spec.attempt if is_duplicate else None)

    async def _append(self, step: Step, now: datetime, request: object = None) -> None:
        """Create a document, after a document whose creation is not confirmed. Raises `_LostRaceError` if another loop wrote first.

        `request` is the identity of the request for this document, if the caller repeats the request after a failure.
        """
        if self._unconfirmed is not None:
            confirmed = await self._confirm(self._unconfirmed)
            if request is not None and confirmed is request:
                return
        if not are_about_lag(entry for entry in self._log_entries if entry is not request):
            self._reported_alerts = self.memory.lag_alerts
        memory = replace(self.memory, lag_alerts=self._reported_alerts)
        document = step_document(step, self._spec, self.nonce, memory)
        document = replace(document, number=self._number + 1, at=now.isoformat(), owner=self._owner)
        self._unconfirmed = _Unconfirmed(document, now, self.memory.resolver.source_identity, request)
        await self._confirm(self._unconfirmed)

    async def _confirm(self, unconfirmed: _Unconfirmed) -> object:
        """Create the document of an earlier request, unless it exists already; return the identity of the request."""
        document, is_created = await append(self._directory, unconfirmed.document)
        if not is_created:
            raise _LostRaceError(document)
        self._unconfirmed = None
        if self._log_entries and self._log_entries[0] is unconfirmed.request:
            self._log_entries.popleft()
        self._number, self._written_at, self._written_source = document.number, unconfirmed.at, unconfirmed.source
        self._is_compaction_due = self._is_compaction_due or document.number % _COMPACT_EVERY == 0
        self.history.take(document)
        await self.history.keep()
        await self._compact()
        return unconfirmed.request

    async def _compact(self) -> None:
        """Remove old documents from time to time; a failed removal is repeated at the next compaction."""
        if not self._is_compaction_due or not self.history.is_kept:
            return
        self._is_compaction_due = False
        try:
            await self._directory.compact(self._spec.options.history_size)
        except JobDirectoryError as error:
            log.warning("The journal could not be compacted: %s", error)


def _token(attempt: str) -> str:
    """Return a unique name of a loop of an attempt."""
    return f"{attempt}#{uuid4().hex}"


def attempt_of(owner: str) -> str:
    """Return the attempt of the loop that has this token."""
    return owner.rpartition("#")[0]
