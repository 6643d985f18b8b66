"""A journal document: the step and the memory of the loop that it contains, and the state with which the next loop continues."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.deployment import Declaration, Preparation
from airflow_adaptive._core.protocol.documents import FORMATS, Directive, JournalDocument, newest_common_format
from airflow_adaptive._core.requirements.resolver import ResolverMemory
from airflow_adaptive._core.scheduler import machine, snapshot
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._core.scheduler.requirements import Requirements, violations
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.standby import prepared_deployment
from airflow_adaptive._core.scheduler.state import Finished, Outcome, SchedulerState
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Timeline
from airflow_adaptive._engine.directive import directive
from airflow_adaptive._engine.driver_heartbeat import NO_HEARTBEAT, DriverHeartbeat
from airflow_adaptive._engine.observation.source_lag import LagAlerts
from airflow_adaptive._engine.spec import DriverSpec, JobSpec

log = logging.getLogger(__name__)


def step_document(step: Step, spec: JobSpec, nonce: str, memory: LoopMemory) -> JournalDocument:
    """Return the document of a step, without its number, its time and its owner."""
    return JournalDocument(
        job=spec.graph.job,
        number=0,
        at="",
        owner="",
        directive=_directive(step.state, spec, nonce, memory),
        scheduler=snapshot.to_json(_saved(step.state)),
        commands=[_tagged(command) for command in step.commands],
        transitions=[_tagged(step.transition)] if step.transition else [],
        decisions=[_tagged(step.decision)] if step.decision else [],
        rescales=[_tagged(step.rescale)] if step.rescale else [],
        memory=dict(memory.document()),
        format=_format(step.state, memory.heartbeat),
    )


def _directive(state: SchedulerState, spec: JobSpec, nonce: str, memory: LoopMemory) -> Directive:
    current, prepared = memory.spec_of(state.current_deployment, spec), memory.prepared_spec(state, spec)
    return directive(state, nonce, current.executor, prepared.executor)


def is_durable(step: Step, before: SchedulerState) -> bool:
    """Whether a step changes something that must survive the process: slots are observed again."""
    after, earlier = (replace(state, offers=(), standby_offer=None) for state in (step.state, before))
    return bool(step.commands) or after != earlier


def clock_offset(document: JournalDocument, clock: datetime) -> timedelta:
    """Return the time by which the clock is behind the time of a document; zero if the document has no valid time."""
    try:
        return max(datetime.fromisoformat(document.at) - clock, timedelta(0))
    except (TypeError, ValueError):
        return timedelta(0)


def _format(state: SchedulerState, heartbeat: DriverHeartbeat) -> int:
    """Return the newest format that the driver reads. The document of an ended job has the oldest format, so that an older version can read it."""
    formats = () if isinstance(state.current, Finished) else heartbeat.formats
    return newest_common_format(formats) or FORMATS[0]


def _saved(state: SchedulerState) -> SchedulerState:
    """Return the state without slot offers per worker: thousands of workers would not fit, and the next loop observes them again."""
    totals = SlotOffer(worker="", held=state.held_slots, free=sum(offer.free for offer in state.offers))
    return replace(state, offers=(totals,) if state.offers else ())


def _tagged(value: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = encode(value)
    return encoded


def created(spec: JobSpec, epoch: int = 0) -> SchedulerState:
    """Return the job as deployed, before its first event; `epoch` is the epoch of the newest driver of an earlier run."""
    return machine.create(spec.graph, spec.options, epoch=epoch, deployment=spec.deployment)


def started_again(spec: JobSpec, ended: SchedulerState) -> SchedulerState:
    """Return the state of a new run of a job that has ended, with the newest deployment. A suspended job continues instead of one that was refused.

    Epochs continue to count. Requirements that a user or a policy has set survive a suspension, and no other end.
    """
    is_suspended = isinstance(ended.current, Finished) and ended.current.outcome is Outcome.SUSPENDED
    new = created(spec, epoch=ended.last_epoch)
    requirements = ended.requirements if is_suspended else new.requirements
    timeline = Timeline(number=ended.timeline.number, requirements=ended.timeline.requirements)
    proved = ended.proved.forgiven()
    if not (is_suspended and ended.standby.refused == spec.deployment):
        proved = proved.started(spec.deployment)
    return replace(new, requirements=requirements, version=ended.version + 1, proved=proved, timeline=timeline)


def adopted(
    spec: JobSpec, state: SchedulerState, *, is_policy_active: bool
) -> tuple[SchedulerState, Requirements | None]:
    """Return the persisted state with the graph and the options as they are deployed now, and the redeclared requirements.

    Requirements that a user or a policy has set stay if the new graph can have them. Otherwise the declared requirements
    replace them, through an event: the second part of the result, else None.
    """
    graph, options, requirements = spec.graph, spec.options, state.requirements
    declared = machine.default_requirements(graph, options)
    is_overridden = is_policy_active or requirements != machine.default_requirements(state.job, state.options)
    stay = is_overridden and not options.reactive and not violations(requirements, graph.max_parallelism)
    if requirements.keys() != declared.keys():
        requirements = declared
    standby = state.standby if state.traits.ends else state.standby.tried_again()
    new = replace(
        state, job=graph, options=options, requirements=requirements, pending_requirements=None, standby=standby
    )
    return new, None if stay else declared


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMemory:
    """What the loop remembers of its job beside the state of the scheduler: what the next cycle, and the next loop, cannot observe again.

    Attributes:
        resolver: sources, control requests, reported limits and the memory of the rescale policy.
        heartbeat: newest driver status, and when the loop read it first.
        lag_alerts: alerts about the lag.
        declarations: fingerprint of a deployment -> what it declares, of the newest deployment and that of the newest driver.
        specs: fingerprint of a deployment -> what its drivers are started with, of the same deployments.
        preparation: what the newest standby that was prepared, or could not be prepared, has reported; None without one.
    """

    resolver: ResolverMemory = ResolverMemory()
    heartbeat: DriverHeartbeat = NO_HEARTBEAT
    lag_alerts: LagAlerts = LagAlerts()
    declarations: Mapping[str, Declaration] = field(default_factory=dict)
    specs: Mapping[str, DriverSpec] = field(default_factory=dict)
    preparation: Preparation | None = None

    def of_new_run(self) -> LoopMemory:
        """Return the memory for a new run of a job that has ended. Its script may need no gangs."""
        limits = replace(self.resolver.limits, gangs={})
        return replace(self, resolver=replace(self.resolver, limits=limits), lag_alerts=LagAlerts())

    def deployed(self, spec: JobSpec, state: SchedulerState) -> LoopMemory:
        """Return the memory with the newest deployment, of which all that needs no new driver takes effect at once."""
        running = state.proved.deployment
        earlier = (
            {running: self.declarations[running].with_effective(spec.declaration)}
            if running in self.declarations
            else {}
        )
        newest, kept = spec.deployment, {name: it for name, it in self.specs.items() if name == running}
        return replace(self, declarations={**earlier, newest: spec.declaration}, specs={**kept, newest: spec.of_driver})

    def spec_of(self, deployment: str, newest: JobSpec) -> JobSpec:
        """Return the job with the drivers of a deployment; those of the newest one if the deployment is unknown."""
        return newest.with_driver(self.specs[deployment]) if deployment in self.specs else newest

    def prepared_spec(self, state: SchedulerState, newest: JobSpec) -> JobSpec:
        """Return the job with drivers like the standby, or like the next standby."""
        return self.spec_of(prepared_deployment(state), newest)

    def document(self) -> Mapping[str, Any]:
        """Return the memory for a journal document, without what the next loop observes again."""
        lasting = replace(self, resolver=self.resolver.lasting, heartbeat=self.heartbeat.lasting)
        encoded: Mapping[str, Any] = encode(lasting)
        return encoded


def recalled(document: Mapping[str, Any], epoch: int, now: datetime) -> LoopMemory:
    """Return the memory from a journal document, or of a job without one, with the continued heartbeat of the driver of this epoch.

    A memory that cannot be read is reported and begun again.
    """
    memory = LoopMemory()
    try:
        memory = decode(LoopMemory, document)
    except SnapshotError as error:
        log.warning("The memory of the earlier loop in the journal is invalid, and is begun again: %s", error)
    return replace(memory, heartbeat=memory.heartbeat.continued(epoch, now))
