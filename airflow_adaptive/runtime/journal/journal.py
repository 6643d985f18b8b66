"""The scheduler's memory: each step is written to the job's log before its commands are carried out.

The log is a compare-and-swap: of two loops that run the same job, one creates document n+1, the other finds it there and knows
that it has been superseded. A loop that starts claims the log with a document of its own.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from airflow_adaptive.job.protocol.documents import JournalDocument
from airflow_adaptive.ports import JobChannel, JobDirectoryError
from airflow_adaptive.runtime.directive import directive
from airflow_adaptive.runtime.journal.history import History
from airflow_adaptive.runtime.journal.job_directory import append
from airflow_adaptive.runtime.observation.events import DriverHeartbeat, own_status
from airflow_adaptive.runtime.requirements.advice_tracker import MEMORY_REFRESH_INTERVAL
from airflow_adaptive.runtime.requirements.resolver import RequirementsResolver
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler import machine, snapshot
from airflow_adaptive.scheduler.events import SlotOffer
from airflow_adaptive.scheduler.requirements import Requirements, violations
from airflow_adaptive.scheduler.state import (
    Canceling,
    Failing,
    Finished,
    Outcome,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive.scheduler.state_transitions import Step
from airflow_adaptive.scheduler.timeline import Decision, ReasonCode, Timeline

log = logging.getLogger(__name__)

_COMPACT_EVERY = 100

CLAIMS = 10
"""How often a loop tries to claim the log from another one that goes on writing."""

_ENDS = (StopWithSavepoint, Canceling, Failing, Finished)
"""States of a job that is ending or has ended; a new attempt starts it again when it has."""


class SupersededError(Exception):
    """Another loop has taken the job over: this one must not act any more.

    Attributes:
        owner: the other loop.
        attempt: that the other loop works for; the own one if this loop's twin has taken over (a trigger that was
            redistributed, say).
    """

    def __init__(self, number: int, owner: str) -> None:
        self.owner = owner
        self.attempt = attempt_of(owner)
        super().__init__(f"document {number} was written by another loop, of attempt {self.attempt!r}")


class Journal:
    """One loop's hold on the job's log."""

    def __init__(self, channel: JobChannel, spec: JobSpec, authority: RequirementsResolver | None = None) -> None:
        """Take note; nothing is read before `open`.

        Args:
            channel: the job's directory.
            spec: the job as deployed.
            authority: knows whose bounds the job has; it goes on with what the log tells of that.
        """
        self._channel = channel
        self._spec = spec
        self._authority = authority or RequirementsResolver()
        self._mark: tuple[Any, ...] = ()
        self._owner = _token(spec.attempt)
        self._number = 0
        self._written_at = datetime.min.replace(tzinfo=UTC)
        self._unsure: JournalDocument | None = None
        """Document whose creation was asked for and not confirmed: it is asked for again, unchanged."""
        self.inherits_end = False
        """Whether the job was ending, or had ended, under another attempt when the log was opened."""
        self.redeclared: Requirements | None = None
        """Bounds of the graph as deployed now, if they are to take the place of the saved ones."""
        self.nonce = uuid4().hex
        self.memory = DriverHeartbeat(epoch=0, heard=datetime.min.replace(tzinfo=UTC))
        """What is remembered of the driver's reports; it goes into each document."""
        self.ahead = timedelta(0)
        """How far the time in the log is ahead of the clock, which was set back since the newest document was written."""
        self.history = History(channel, spec.graph.job, spec.options.history_size)

    async def open(self, clock: datetime) -> SchedulerState:
        """Claim the log and return where the job stands: adopted from an earlier loop, or created.

        A loop that still runs the job may write once more meanwhile: then it is relieved of that document.

        Args:
            clock: what the clock shows; times in the log never go back behind those that are there (`ahead`).

        Raises:
            JobDirectoryError: the directory can't be used.
            SnapshotError: the newest document was written by a newer version.
            SupersededError: another loop claimed it at the same moment.
        """
        claims = 0
        while True:
            claims += 1
            newest = await self._channel.newest()
            try:
                return await self._claim(newest, clock)
            except SupersededError as error:
                if claims == CLAIMS or newest is None or error.owner != newest.owner:
                    raise

    async def _claim(self, newest: JournalDocument | None, clock: datetime) -> SchedulerState:
        """Claim the log after its newest document."""
        self._unsure = None
        await self.history.open()
        if newest is None:
            created = self._created()
            state = replace(created, timeline=Timeline(number=self.history.newest))
            now = clock
            self.memory = DriverHeartbeat(epoch=state.epoch, heard=now)
        else:
            self.ahead = _ahead(newest, clock)
            now = clock + self.ahead
            self._number, self.nonce = newest.number, newest.directive.nonce
            self._authority.restore(newest.requirements_resolver)
            state = self._adopt(snapshot.from_json(newest.scheduler))
            attempt = attempt_of(newest.owner)
            self.inherits_end = attempt != self._spec.attempt and isinstance(state.current, _ENDS)
            # An end stays the earlier attempt's: the loop after this one must not take it for its own.
            self._owner = _token(attempt if self.inherits_end else self._spec.attempt)
            status = own_status(state, self.nonce, await self._channel.status())
            self.memory = DriverHeartbeat.recalled(newest.driver_heartbeat, state.epoch, now).after(state, status, now)
        await self._create(state, now)
        return state

    async def start_again(self, ended: SchedulerState, now: datetime) -> SchedulerState:
        """A new life of a job that has ended: epochs count on; overrides outlive all but a global end.

        Raises:
            JobDirectoryError: the directory can't be used.
            SupersededError: another loop wrote first.
        """
        suspended = isinstance(ended.current, Finished) and ended.current.outcome is Outcome.SUSPENDED
        created = self._created(epoch=ended.epoch)
        requirements = ended.requirements if suspended else created.requirements
        timeline = Timeline(number=ended.timeline.number, requirements=ended.timeline.requirements)
        state = replace(created, requirements=requirements, version=ended.version + 1, timeline=timeline)
        self._owner = _token(self._spec.attempt)
        await self._create(state, now)
        self.inherits_end = False
        return state

    async def save(self, step: Step, before: SchedulerState, now: datetime) -> None:
        """Write the step down, unless nothing changed that must outlive the process.

        Raises:
            JobDirectoryError: it is not known to be written: the step must not be acted on, and be saved again before
                any other.
            SupersededError: another loop wrote first.
        """
        if not step.commands and _durable(step.state) == _durable(before):
            return
        await self._create(step.state, now, step)

    async def renew(self, state: SchedulerState, now: datetime) -> None:
        """Tell the driver that somebody looks after it, if the log has told it nothing for `trigger_lifetime`.

        And the next loop that somebody else's bounds hold than the log says, or what a policy remembers.

        Raises:
            JobDirectoryError: the directory can't be used.
            SupersededError: another loop wrote first.
        """
        patience = self._spec.options.trigger_lifetime
        if self._authority.has_policy_memory:
            patience = min(patience, MEMORY_REFRESH_INTERVAL)
        if now - self._written_at >= patience or self._mark != self._authority.source_identity:
            await self._create(state, now)

    async def tell(self, text: str, state: SchedulerState, now: datetime) -> None:
        """Put something into the timeline that nothing follows from.

        Raises:
            JobDirectoryError: the directory can't be used; it may be told again.
            SupersededError: another loop wrote first.
        """
        decision = Decision(at=now, state=state.name, reason_code=ReasonCode.REQUIREMENTS_NOTICE, reason=text)
        await self._create(state, now, Step(state=state, decision=decision))

    async def check(self) -> None:
        """Find out whether another loop has written since; see to the history. Raises `SupersededError`."""
        newer = await self._channel.read(self._number + 1)
        if newer is not None and newer.owner != self._owner:
            raise SupersededError(newer.number, newer.owner)
        await self.history.keep()

    async def _create(self, state: SchedulerState, now: datetime, step: Step | None = None) -> None:
        self._unsure = self._unsure or self._document(state, now, step)
        document = await append(self._channel, self._unsure)
        if document is None:
            newest = await self._channel.newest()
            raise SupersededError(self._unsure.number, "" if newest is None else newest.owner)
        self._unsure = None
        self._number, self._written_at, self._mark = document.number, now, self._authority.source_identity
        self.history.take(document)
        await self.history.keep()
        await self._compact()

    async def _compact(self) -> None:
        """Keep the log short now and then; what can't be removed now is removed the next time."""
        if self._number % _COMPACT_EVERY != 0 or not self.history.is_kept:
            return
        try:
            await self._channel.compact(self._spec.options.history_size)
        except JobDirectoryError as error:
            log.warning("The log could not be compacted: %s", error)

    def _document(self, state: SchedulerState, now: datetime, step: Step | None) -> JournalDocument:
        step = step or Step(state=state)
        return JournalDocument(
            job=self._spec.graph.job,
            number=self._number + 1,
            at=now.isoformat(),
            owner=self._owner,
            directive=directive(state, self.nonce, self._spec.executor),
            scheduler=snapshot.to_json(_saved(state)),
            commands=[_tagged(command) for command in step.commands],
            transitions=[_tagged(step.transition)] if step.transition else [],
            decisions=[_tagged(step.decision)] if step.decision else [],
            rescales=[_tagged(step.rescale)] if step.rescale else [],
            driver_heartbeat=self.memory.told(),
            requirements_resolver=self._authority.to_snapshot(),
        )

    def _created(self, epoch: int = 0) -> SchedulerState:
        """The job as deployed, in the life after that of the driver of this epoch."""
        spec = self._spec
        return machine.create(spec.graph, spec.options, epoch=epoch, deployment=spec.deployment)

    def _adopt(self, state: SchedulerState) -> SchedulerState:
        """The saved state with the graph and the options as they are deployed now.

        Overrides, and what a policy has set, stay as long as the graph can have them; else its own bounds take their place, which the scheduler
        hears of as an event.
        """
        graph, options, requirements = self._spec.graph, self._spec.options, state.requirements
        declared = machine.default_requirements(graph, options)
        overridden = self._authority.is_policy_active or requirements != machine.default_requirements(
            state.job, state.options
        )
        if not overridden or options.reactive or violations(requirements, graph.max_parallelism):
            self.redeclared = declared
        if requirements.keys() != declared.keys():
            requirements = declared
        return replace(state, job=graph, options=options, requirements=requirements, declaration=None)


def _token(attempt: str) -> str:
    """A name for one loop of an attempt."""
    return f"{attempt}#{uuid4().hex}"


def attempt_of(owner: str) -> str:
    """The attempt that a loop works for."""
    return owner.rpartition("#")[0]


def _saved(state: SchedulerState) -> SchedulerState:
    """What the log holds: of the slots the sum, since thousands of workers would not fit and are observed anew."""
    totals = SlotOffer(worker="", held=state.held_slots, free=state.available_slots - state.held_slots)
    return replace(state, offers=(totals,) if state.offers else ())


def _ahead(document: JournalDocument, clock: datetime) -> timedelta:
    """How far the clock is behind the time at which a document was written."""
    try:
        return max(datetime.fromisoformat(document.at) - clock, timedelta(0))
    except (TypeError, ValueError):
        return timedelta(0)  # no time, or one without a zone


def _durable(state: SchedulerState) -> SchedulerState:
    """What must outlive the process: slots are observed anew."""
    return replace(state, offers=())


def _tagged(value: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = snapshot.encode(value)
    return encoded
