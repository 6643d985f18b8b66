"""The Assets of the tasks that run jobs, and the expansion of a mapped task, which runs a fleet of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from airflow.sdk import Asset
from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from airflow_adaptive.declaration.operator_arguments import as_list
from airflow_adaptive.runtime.journal.job_directory import JOB_ID
from airflow_adaptive.stores.job_asset import FLEETS, fleet_asset, job_asset


def assets_of_task(job: str, inlets: Any, outlets: Any) -> tuple[list[Any], list[Any]]:
    """Return inlets and outlets of the task of a job.

    The task of a single job has the Asset of the job as inlet and outlet. A mapped task has the Asset of its fleet (`FleetPartial`); the
    Asset of the job is an outlet if Airflow knows it, because a literal list names the job.
    """
    found, emitted, own = as_list(inlets), as_list(outlets), Asset(job_asset(job).name)
    if any(isinstance(asset, Asset) and asset.name.startswith(FLEETS) for asset in emitted):
        return found, [*emitted, own] if own in found else emitted
    return [*found, own], [*emitted, own]


@attrs.define(kw_only=True, repr=False)
class FleetPartial(OperatorPartial):
    """The arguments that all jobs of a fleet share, before the expansion of the mapped task."""

    @classmethod
    def of(cls, shared: OperatorPartial) -> FleetPartial:
        """Return the arguments of a partial task as those of a fleet."""
        shared._expand_called = (
            True  # Airflow warns of a partial task that is never expanded; only the fleet is expanded.
        )
        return cls(operator_class=shared.operator_class, kwargs=shared.kwargs, params=shared.params)

    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """Run one job for each item."""
        self._name_assets(mapped_kwargs, mapped_kwargs.get("job"))
        expanded: MappedOperator = super().expand(**mapped_kwargs)
        return expanded

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """Run one job for each item. The items of a literal list are mappings."""
        items = kwargs if isinstance(kwargs, list | tuple) else ()
        mappings = [item for item in items if isinstance(item, Mapping)]
        self._name_assets({name for item in mappings for name in item} or ("job",), [it.get("job") for it in mappings])
        expanded: MappedOperator = super().expand_kwargs(kwargs, strict=strict)
        return expanded

    def _name_assets(self, mapped: Iterable[str], jobs: Any) -> None:
        """Add the Asset of the fleet, and the Assets of the jobs that a literal list names.

        Raises:
            ValueError: several items would run the same job, or the task is outside of a DAG.
        """
        self._expand_called = True  # An error below is the only report.
        dag, task_id = self.kwargs["dag"], self.kwargs["task_id"]
        if dag is None:
            raise ValueError(f"mapped task {task_id!r} must be in a DAG")
        named = [job for job in jobs if isinstance(job, str)] if isinstance(jobs, list | tuple) else []
        _require_different_jobs(task_id, self.kwargs, mapped, named)
        fleet = Asset(fleet_asset(dag.dag_id, task_id))
        assets = [Asset(job_asset(job).name) for job in named if JOB_ID.fullmatch(job)]
        self.kwargs["inlets"] = [*as_list(self.kwargs.get("inlets")), fleet, *assets]
        self.kwargs["outlets"] = [*as_list(self.kwargs.get("outlets")), fleet]


def _require_different_jobs(task_id: str, shared: Mapping[str, Any], mapped: Iterable[str], named: list[str]) -> None:
    """Reject a fleet of which several items run the same job. Raises `ValueError`."""
    if "job" in shared or "job" not in mapped:
        raise ValueError(
            f"mapped task {task_id!r} must give each item a job of its own: expand(job=[...]), or expand_kwargs([{{'job': ...}}, ...])"
        )
    repeated = sorted(job for job, count in Counter(named).items() if count > 1)
    if repeated:
        raise ValueError(f"mapped task {task_id!r} names job(s) more than once: {', '.join(repeated)}")
