"""Converts the published state of a job to the bodies of the REST API, with functions of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from difflib import unified_diff
from itertools import islice
from typing import Any, Final

from sqlalchemy.orm import Session

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.deployment import Comparison, Preparation, compare
from airflow_adaptive._core.protocol.documents import PreparedQuery, QueryReport
from airflow_adaptive._core.requirements import control_requests
from airflow_adaptive._core.requirements.dry_run import Preview
from airflow_adaptive._core.requirements.request_bodies import encode_requirements
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.allocator import Assignment, assign, minimum_slots, required_slots, used_slots
from airflow_adaptive._core.scheduler.standby import DeploymentStage, deployment_stage
from airflow_adaptive._core.scheduler.state import Plan, Restarting, SchedulerState
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._core.view import (
    DEPLOYMENT,
    DRIVER,
    HISTORY,
    METRICS,
    POLICY,
    SCHEDULER,
    SUMMARY,
    PublishedDriver,
    Summary,
)
from airflow_adaptive._engine.publishing.time_series import FINEST
from airflow_adaptive._web.api import schemas
from airflow_adaptive._web.data.metadata_database.declared import declared_by_dag
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.published_state import PublishedState

ITEM_KEYS: Final = (SUMMARY, *control_requests.DESIRED_STATE_KEYS, f"{METRICS}{FINEST}")
"""Documents that a job in a list needs."""

KEYS: Final = (*control_requests.KEYS, SUMMARY, SCHEDULER, POLICY, f"{METRICS}{FINEST}")
"""Documents that the details of a job need."""

DEPLOYMENT_KEYS: Final = (SUMMARY, SCHEDULER, HISTORY, DRIVER, DEPLOYMENT)
"""Documents that the preview of a deployment needs."""

DECLARED: Final = "declared"
"""Takes the place of the fingerprint of a deployment that the task has not staged."""

STAGES: Final = {
    None: "no driver runs: the next one has the deployment",
    DeploymentStage.PREPARING: "a driver of the deployment is prepared beside the running one, and replaces it after the cooldown; if no worker has room for both, the running driver ends first",
    DeploymentStage.PREPARED: "the driver of the deployment is prepared, and replaces the running one at a batch boundary after the cooldown",
    DeploymentStage.ENDS_FIRST: "the running driver ends after the cooldown, before the driver of the deployment starts",
    DeploymentStage.REFUSED: "the deployment was refused, and the running driver continues: correct the deployment, and clear the task",
    DeploymentStage.NEXT_START: "highest_rescale_tier is below 3: the running driver continues, and the next one has the deployment",
}
"""How a deployment that needs a new driver takes effect."""

ABOUT_DEPLOYMENTS: Final = (ReasonCode.JOB_REDEPLOYED, ReasonCode.PREPARATION_FAILED, ReasonCode.DRIVER_PREPARED)
"""Decisions that contain the reason of a stage."""

NOT_COMPARED: Final = (
    "The task compares the script, and modules and files beside the DAG file, when it runs: they may have changed, too."
)

UNKNOWN_DAG: Final = "Whether the DAG declares changes is unknown: Airflow does not store its task, or the loop of the job has not published what was deployed."

MAX_SUBTASKS: Final = 5000
"""Maximum number of subtasks that the plan lists. A larger plan contains slots and loads of workers without subtasks."""

MAX_SLOTS: Final = 100_000
"""Maximum number of slots of a plan that contains workers."""


def item(job: Job, published: PublishedState) -> schemas.JobItem:
    """Return a job in a list."""
    return schemas.JobItem(**_item(job, published))


def details(job: Job, published: PublishedState, *, editable: bool | None = None) -> schemas.JobDetails:
    """Return all details of a job. `editable` is whether the user may change the job."""
    state = published.state
    return schemas.JobDetails(
        **_item(job, published),
        **({} if state is None else _of_scheduler(state)),
        requesters=published.requesters,
        policy=published.policy,
        editable=editable,
    )


def plan(state: SchedulerState, published: PublishedState) -> schemas.PlanDetails:
    """Return the placement of the subtasks of a job."""
    current, driver = state.plan, published.driver_status
    assignment = None if current is None else _assignment(state, current)
    return schemas.PlanDetails(
        version=None if current is None else current.version,
        reported_at=None if driver is None else schemas.moment(driver.at),
        load_balance_mode=state.options.load_balance_mode.value,
        vertices=_planned_vertices(state, {} if driver is None else driver.parallelism),
        slots=schemas.PlannedSlots(
            planned=None if current is None else current.slots,
            kept=None if current is None else current.retained_slots,
            held=state.held_slots,
            available=state.available_slots,
            minimum=minimum_slots(state.job, state.requirements),
            maximum=required_slots(state.job, state.requirements),
            standby=None if state.standby.driver is None else state.standby.slots,
            standby_prepared=state.standby.is_prepared,
        ),
        executors=[] if driver is None else [*driver.executors],
        queries=[] if driver is None else [schemas.Query.model_validate(query) for query in driver.queries],
        workers=[] if assignment is None else _workers(state, assignment),
        imbalance=None if assignment is None else assignment.imbalance,
    )


def preview(result: Preview, state: SchedulerState) -> schemas.RequirementsPreview:
    """Return the result of a dry run. `state` is the current state of the scheduler."""
    return schemas.RequirementsPreview(
        consequence=result.consequence,
        reason=result.reason,
        requirements=encode_requirements(result.requirements),
        before=None if result.before is None else dict(result.before),
        after=None if result.after is None else dict(result.after),
        tier=None if result.tier is None else result.tier.name,
        cooldown_until=result.held_back_until,
        at=result.at,
        slots=schemas.PreviewedSlots(
            available=state.available_slots,
            minimum=minimum_slots(state.job, result.requirements),
            maximum=required_slots(state.job, result.requirements),
            missing=result.missing_slots,
        ),
        decisions=[*result.decisions],
    )


def deployments(state: SchedulerState, published: PublishedState, session: Session) -> schemas.Deployments:
    """Return what the deployments of a job change that have not taken effect. `published` has `DEPLOYMENT_KEYS`."""
    task = published.summary.task
    newest, stage = published.declaration(state.deployment), deployment_stage(state)
    pending = declared = None
    if stage is not None:
        texts = [it.reason for it in published.decisions if it.reason_code in ABOUT_DEPLOYMENTS]
        comparison = compare(published.declaration(state.current_deployment), newest)
        reported = published.preparation(state.deployment), published.driver_status
        pending = _deployment(stage, "; ".join([STAGES[stage], *texts[-1:]]), comparison, *reported)
    in_dag = declared_by_dag(task, newest, session) if task is not None and newest.parameters else None
    # The task cannot read a DAG file in an archive.
    files = set() if in_dag is None else {in_dag.dag_file, newest.dag_file} - {""}
    if in_dag is not None and ((comparison := compare(newest, in_dag)).changes or len(files) > 1):
        later = replace(state, deployment=DECLARED, standby=state.standby.tried_again())
        stage = deployment_stage(later)
        text = "the task has not staged what the DAG declares: clear the task, or wait until its trigger is recycled"
        declared = _deployment(stage, f"{text}; what needs a new driver takes effect then: {STAGES[stage]}", comparison)
    notice = UNKNOWN_DAG if in_dag is None else NOT_COMPARED
    return schemas.Deployments(pending=pending, declared=declared, notice=notice)


def _deployment(
    stage: DeploymentStage | None,
    reason: str,
    comparison: Comparison,
    preparation: Preparation | None = None,
    driver: PublishedDriver | None = None,
) -> schemas.Deployment:
    is_prepared = stage not in (None, DeploymentStage.ENDS_FIRST, DeploymentStage.NEXT_START)
    why = " before the deployment is prepared" if is_prepared else ": it takes effect without a preparation"
    keeps_state, state_reason = (None, f"not known{why}") if preparation is None else preparation.keeps_state()
    running = () if driver is None else driver.queries
    return schemas.Deployment(
        stage=stage,
        reason=reason,
        effect=comparison.effect,
        changes=[*comparison.changes],
        keeps_state=keeps_state,
        state_reason=state_reason,
        queries=query_previews(preparation.queries, running) if preparation is not None else [],
        unknown=[*comparison.unknown],
    )


def query_previews(prepared: Sequence[PreparedQuery], running: Sequence[QueryReport]) -> list[schemas.QueryPreview]:
    """Return what a deployment changes in the queries; nothing if a prepared driver knows no queries."""
    new, old = {it.name: it for it in prepared}, {it.name: it for it in running}
    names = dict.fromkeys([*new, *old]) if prepared else {}
    return [_query_preview(name, new.get(name), old.get(name)) for name in names]


def _query_preview(name: str, new: PreparedQuery | None, old: QueryReport | None) -> schemas.QueryPreview:
    reason = "its state remains in its checkpoint, and a query of another name does not read it"
    if new is not None:
        empty = "it starts without state: its checkpoint has none" if new.state_after else "it has no state"
        reason = new.unchecked or ("Spark has accepted the state in its checkpoint" if new.state_before else empty)
    before, after = () if old is None else old.plan, () if new is None else new.plan
    changes = islice(unified_diff(before, after, lineterm="", n=1), 2, None)
    return schemas.QueryPreview(
        name=name,
        is_new=old is None,
        running_sources=[] if old is None else [source.kind for source in old.sources],
        prepared=new,
        state_reason=reason,
        plan_changes=[it for it in changes if it[0] != "@"] if after and (before or old is None) else None,
    )


def _item(job: Job, published: PublishedState) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        **{it.name: getattr(published.summary, it.name) for it in fields(Summary)},
        "job": job.name,
        "dag_ids": sorted(job.dag_ids),
        "desired_state": published.desired_state,
        "published_at": published.published_at,
        "stale": published.is_stale(now),
        "health": published.health(now),
        "wait": published.wait,
        "abandoned": published.is_abandoned,
        "metrics": published.current_metrics,
        "problem": published.problem,
    }


def _of_scheduler(state: SchedulerState) -> dict[str, Any]:
    return {
        "reactive": state.options.reactive,
        "pending_requirements": None if state.pending_requirements is None else state.pending_requirements.requirements,
        "deadlines": machine.timers(state),
        "waiting": getattr(state.current, "manager", None),
        "backoff": _backoff(state),
        "vertices": state.job.vertices,
        "options": {name: value for name, value in encode(state.options).items() if name != "type"},
    }


def _backoff(state: SchedulerState) -> schemas.Backoff | None:
    current = state.current
    if not isinstance(current, Restarting) or not current.backoff:
        return None
    ends: datetime | None = None if current.stopped_at is None else current.stopped_at + current.backoff
    return schemas.Backoff(seconds=current.backoff.total_seconds(), ends=ends)


def _planned_vertices(state: SchedulerState, effective: Mapping[str, int]) -> list[schemas.PlannedVertex]:
    planned = {} if state.plan is None else state.plan.parallelism
    return [
        schemas.PlannedVertex(
            name=vertex.name,
            planned=planned.get(vertex.name),
            effective=effective.get(vertex.name),
            lower=state.requirements[vertex.name].lower,
            upper=state.requirements[vertex.name].upper,
            max_parallelism=vertex.effective_max_parallelism,
            slot_sharing_group=vertex.slot_sharing_group,
            stateful=vertex.stateful,
        )
        for vertex in state.job.vertices
    ]


def _assignment(state: SchedulerState, current: Plan) -> Assignment | None:
    """Return the placement of the subtasks, None while the job does not hold all slots of the plan, or if the plan is too large."""
    slots = used_slots(state.job, current.parallelism)
    if slots > min(state.held_slots, MAX_SLOTS):
        return None
    held = [replace(offer, free=0) for offer in state.offers if offer.held]
    return assign(state.job, current.parallelism, held, state.options.load_balance_mode)


def _workers(state: SchedulerState, assignment: Assignment) -> list[schemas.PlannedWorker]:
    addresses = {offer.worker: offer.address for offer in state.offers}
    subtasks = sum(len(slots) for group in assignment.groups for slots in group.slots_of.values())
    contents = assignment.contents() if subtasks <= MAX_SUBTASKS else None
    loads = assignment.load_per_worker
    return [
        schemas.PlannedWorker(
            worker=worker,
            address=addresses.get(worker, ""),
            slots=None
            if contents is None
            else [
                [schemas.Subtask(vertex=vertex, index=index) for vertex, index in slot]
                for slot in contents.get(worker, [])
            ],
            slot_count=count,
            load=loads[worker],
        )
        for worker, count in sorted(assignment.slots_per_worker.items())
    ]
