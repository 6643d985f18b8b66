"""The state with which a loop continues: the deployed job, adopted from the journal or started again."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.requirements import Requirements, violations
from airflow_adaptive._core.scheduler.state import (
    Finished,
    Outcome,
    SchedulerState,
)
from airflow_adaptive._core.scheduler.timeline import Timeline
from airflow_adaptive._engine.spec import JobSpec


def created(spec: JobSpec, epoch: int = 0) -> SchedulerState:
    """Return the job as deployed, before its first event; `epoch` is the epoch of the newest driver of an earlier run."""
    return machine.create(spec.graph, spec.options, epoch=epoch, deployment=spec.deployment)


def started_again(spec: JobSpec, ended: SchedulerState) -> SchedulerState:
    """Return the state of a new run of a job that has ended.

    Epochs continue to count. Requirements that a user or a policy has set survive a suspension, and no other end.
    """
    is_suspended = isinstance(ended.current, Finished) and ended.current.outcome is Outcome.SUSPENDED
    new = created(spec, epoch=ended.epoch)
    requirements = ended.requirements if is_suspended else new.requirements
    timeline = Timeline(number=ended.timeline.number, requirements=ended.timeline.requirements)
    proved = ended.proved.forgiven()
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
    new = replace(state, job=graph, options=options, requirements=requirements, pending_requirements=None)
    return new, None if stay else declared
