"""The Assets of the tasks that run jobs, and the expansion of a mapped task, which runs a fleet of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs
from airflow.sdk import DAG, Asset, BaseOperator

from airflow_adaptive._airflow.declaration.operator_arguments import REQUIRED, as_list, is_batch
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import MappedOperator, OperatorPartial, mark_expanded
from airflow_adaptive._airflow.store.job_asset import FLEETS, event_asset, fleet_asset
from airflow_adaptive._core.ports import JOB_ID, JobKey


def assets_of_task(job: str, inlets: Any, outlets: Any) -> tuple[list[Any], list[Any]]:
    """Return inlets and outlets of the task of a job.

    The task of a single job has the Asset of the job as inlet and outlet. A mapped task has the Asset of its fleet (`FleetPartial`); the
    Asset of the job is an outlet if Airflow knows it, because a literal list names the job.
    """
    found, emitted = as_list(inlets), as_list(outlets)
    fleets = (asset.name for asset in emitted if isinstance(asset, Asset) and asset.name.startswith(FLEETS))
    if (fleet := next(fleets, None)) is not None:
        own = Asset(event_asset(JobKey(job, *fleet.removeprefix(FLEETS).split("/")).name))
        return found, [*emitted, own] if own in found else emitted
    own = Asset(event_asset(job))
    return [*found, own], [*emitted, own]


def require_only_task(operator: BaseOperator, job: str, kind: type[BaseOperator]) -> None:
    """Reject a second task of a DAG that runs the same job. Raises `ValueError`: another task of the DAG runs the job."""
    dag = operator.get_dag()
    if dag is None or Asset(event_asset(job)) not in operator.inlets:  # Jobs of a fleet have other Assets.
        return
    for other in dag.tasks:
        if isinstance(other, kind) and other is not operator and getattr(other, "job", None) == job:
            raise DeclarationError(
                [
                    f"tasks {other.task_id!r} and {operator.task_id!r} of DAG {dag.dag_id!r} run the same job {job!r}, and would continue from one "
                    "checkpoint: give each task a job id of its own"
                ]
            )


@attrs.define(kw_only=True, repr=False)
class FleetPartial(OperatorPartial):
    """The arguments that all jobs of a fleet share, before the expansion of the mapped task."""

    @classmethod
    def of(cls, shared: OperatorPartial) -> FleetPartial:
        """Return the arguments of a partial task as those of a fleet."""
        mark_expanded(shared)
        return cls(operator_class=shared.operator_class, kwargs=shared.kwargs, params=shared.params)

    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """Run one job for each item."""
        self._name_assets(mapped_kwargs, mapped_kwargs.get("job"))
        expanded: MappedOperator = super().expand(**mapped_kwargs)
        return expanded

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """Run one job for each item. The items of a literal list are mappings."""
        self._name_assets(*arguments_of_items(kwargs))
        expanded: MappedOperator = super().expand_kwargs(kwargs, strict=strict)
        return expanded

    def _name_assets(self, mapped: Iterable[str], jobs: Any) -> None:
        mark_expanded(self)
        name_fleet(self.kwargs["task_id"], self.kwargs["dag"], self.kwargs, mapped, jobs)


def arguments_of_items(items: Any) -> tuple[Collection[str], list[Any]]:
    """Return the names of the arguments in a literal list of items, and the job of each item. Other items are assumed to have a job and bounds."""
    mappings = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list | tuple) else []
    return {name for item in mappings for name in item} or ("job", "parallelism"), [
        item.get("job") for item in mappings
    ]


def name_fleet(task_id: str, dag: DAG | None, shared: dict[str, Any], mapped: Iterable[str], jobs: Any) -> None:
    """Add the Asset of a fleet, and the Assets of the jobs that a literal list names, to the arguments that all items share.

    Raises:
        ValueError: several items would run the same job or have no bounds, or the task is outside of a DAG.
    """
    if dag is None:
        raise DeclarationError([f"mapped task {task_id!r} must be in a DAG"])
    named = [job for job in jobs if isinstance(job, str)] if isinstance(jobs, list | tuple) else []
    _require_different_jobs(task_id, shared, mapped, named)
    given = {**(dag.default_args or {}), **shared, **dict.fromkeys(mapped)}
    if not given.keys() & {"parallelism", "job_graph"} and not is_batch(given.get("job_type")):
        raise DeclarationError([f"mapped task {task_id!r} needs 'parallelism': {REQUIRED['parallelism']}"])
    fleet = Asset(fleet_asset(dag.dag_id, task_id))
    keys = [JobKey(job, dag.dag_id, task_id) for job in named if JOB_ID.fullmatch(job)]
    assets = [Asset(event_asset(key.name)) for key in keys]
    shared["inlets"] = [*as_list(shared.get("inlets")), fleet, *assets]
    shared["outlets"] = [*as_list(shared.get("outlets")), fleet]


def _require_different_jobs(task_id: str, shared: Mapping[str, Any], mapped: Iterable[str], named: list[str]) -> None:
    """Reject a fleet of which several items run the same job. Raises `ValueError`."""
    if "job" in shared or "job" not in mapped:
        violation = "must give each item a job of its own: expand(job=[...]), or expand_kwargs([{'job': ...}, ...])"
        raise DeclarationError([f"mapped task {task_id!r} {violation}"])
    repeated = sorted(job for job, count in Counter(named).items() if count > 1)
    if repeated:
        violation = f"names job(s) more than once: {', '.join(repeated)}. Give each item a job id of its own"
        raise DeclarationError([f"mapped task {task_id!r} {violation}"])
