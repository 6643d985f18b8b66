"""A job's mirror as values: what is missing, of another format or not understood is absent, and never an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from airflow_adaptive.plugin.api import schemas
from airflow_adaptive.plugin.data import metadata_database
from airflow_adaptive.plugin.data.metadata_database import Job
from airflow_adaptive.ports import ControlRequests, DesiredState, Requester
from airflow_adaptive.runtime.publishing.documents import (
    DRIVER,
    FORMAT,
    HISTORY,
    METRICS,
    POLICY,
    RESCALES,
    SCHEDULER,
    SUMMARY,
)
from airflow_adaptive.runtime.publishing.time_series import COLUMNS
from airflow_adaptive.runtime.requirements import control_requests
from airflow_adaptive.runtime.requirements.advice import Advice, PolicyAdvice
from airflow_adaptive.runtime.requirements.control_requests import DESIRED_STATE, REQUESTERS, REQUIREMENTS
from airflow_adaptive.runtime.requirements.resolver import resolve
from airflow_adaptive.runtime.requirements.sources import (
    ActiveRequirements,
    DeclaredRequirements,
    RequirementsOrigin,
    RequirementsSource,
    newest,
)
from airflow_adaptive.scheduler.errors import SnapshotError
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements, are_accepted
from airflow_adaptive.scheduler.snapshot import decode, from_json
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.scheduler.timeline import Rescale

log = logging.getLogger(__name__)

Value = TypeVar("Value")

NOT_UNDERSTOOD = (ArithmeticError, AttributeError, LookupError, RecursionError, SnapshotError, TypeError, ValueError)


@dataclass(frozen=True)
class Report:
    """The driver's newest report.

    Attributes:
        at: when it was made, by the driver's clock; None if that is not understood.
        parallelism: effective, per vertex.
        executors: that are registered.
    """

    at: datetime | None
    parallelism: Mapping[str, int]
    executors: list[schemas.Executor]


@dataclass(frozen=True)
class Mirrored:
    """What is known of a job.

    Attributes:
        documents: of its Asset's state store, by key.
        revisions: when each was written.
    """

    documents: Mapping[str, Any]
    revisions: Mapping[str, datetime]

    @cached_property
    def summary(self) -> schemas.Summary:
        """The job in short; of state `unknown` if it has shown nothing yet."""
        document = self.documents.get(SUMMARY)
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            return schemas.Summary()
        summary = _understood(lambda: schemas.Summary.model_validate(document), SUMMARY) or schemas.Summary()
        summary.urls = schemas.Urls(**{name: url for name, url in summary.urls if _is_web(url)})
        return summary

    @cached_property
    def state(self) -> SchedulerState | None:
        """The scheduler's state."""
        document = self.documents.get(SCHEDULER)
        if not isinstance(document, Mapping) or not document:
            return None
        return _understood(lambda: _consistent(from_json(document)), SCHEDULER)

    @property
    def groups(self) -> Mapping[str, str]:
        """Vertex -> slot sharing group; empty if the state is not known."""
        vertices = () if self.state is None else self.state.job.vertices
        return {vertex.name: vertex.slot_sharing_group for vertex in vertices}

    @property
    def desired_state(self) -> DesiredState | None:
        """Desired state that was requested last, None without a valid request."""
        return control_requests.decode_desired_state(self.documents.get(DESIRED_STATE))

    @property
    def asked_requirements(self) -> Any:
        """FLIP-291's request body that a user has stored last, None without one."""
        return self.documents.get(REQUIREMENTS)

    def resolved_requirements(self, state: SchedulerState, now: datetime, override: Any = None) -> Requirements:
        """Requirements that apply as soon as the loop has read the control requests; often they apply already.

        Args:
            state: state of the scheduler.
            now: time.
            override: FLIP-291's request body that takes the place of the stored override, None to keep the stored one.
        """
        requests = self.control_requests
        if override is not None:
            requests = replace(requests, requirements=control_requests.decode_bounds(override), requester=Requester())
        source = self.summary.bounds_by
        origin = _understood(lambda: None if source is None else RequirementsOrigin(source.kind), SUMMARY)
        active = ActiveRequirements(
            requirements=newest(state),
            source=None if origin is None or source is None else RequirementsSource(origin=origin, name=source.source),
        )
        declared = DeclaredRequirements.of(state)
        resolved = resolve(requests, _advice(self.policy, declared), declared, active, now)
        return active.requirements if resolved is None else resolved.requirements

    @property
    def control_requests(self) -> ControlRequests:
        """Control requests that are stored for the job; invalid ones count as not requested."""
        return control_requests.decode(self.documents)

    @property
    def policy(self) -> schemas.Policy | None:
        """The job's own rescale policy, and what it says."""
        document = self.documents.get(POLICY)
        return _understood(lambda: schemas.Policy.model_validate(document), POLICY) if document else None

    @property
    def asked(self) -> dict[str, schemas.Asked]:
        """Requester of each stored control request, by key."""
        document, adapter = self.documents.get(REQUESTERS), TypeAdapter(dict[str, schemas.Asked])
        return _understood(lambda: adapter.validate_python(document), REQUESTERS) or {} if document else {}

    @property
    def transitions(self) -> list[schemas.Transition]:
        """Oldest first."""
        return self._history("transitions", schemas.Transition)

    @property
    def decisions(self) -> list[schemas.Decision]:
        """Oldest first."""
        return self._history("decisions", schemas.Decision)

    @property
    def rescales(self) -> list[Rescale]:
        """Oldest first, the one under way last."""
        document = self.documents.get(RESCALES)
        items = document if isinstance(document, list) else []
        found = [_understood(lambda item=item: decode(Rescale, item), RESCALES) for item in items]  # type: ignore[misc]
        return [rescale for rescale in found if rescale is not None]

    @property
    def report(self) -> Report | None:
        """The driver's newest report."""
        document = self.documents.get(DRIVER)
        if not isinstance(document, Mapping) or not document:
            return None
        return _understood(lambda: _report(document), DRIVER)

    def figures(self, step: int) -> schemas.Metrics:
        """Figures of this resolution; no points if there are none."""
        document = self.documents.get(f"{METRICS}{step}")
        empty = schemas.Metrics(step=step, columns=list(COLUMNS), points=[])
        if not isinstance(document, Mapping) or not document:
            return empty
        found = _understood(lambda: schemas.Metrics.model_validate(document), METRICS) or empty
        found.points = [point for point in found.points if len(point) == len(found.columns)]
        return found

    @property
    def newest_figures(self) -> schemas.Figures | None:
        """The last point of the finest resolution."""
        page = self.figures(schemas.Step.TEN_SECONDS)
        if not page.points:
            return None
        point = dict(zip(page.columns, page.points[-1], strict=True))
        return _understood(lambda: schemas.Figures.model_validate(point), METRICS)

    @property
    def updated_at(self) -> datetime | None:
        """When the job showed something last."""
        shown = [at for key, at in self.revisions.items() if key not in control_requests.KEYS]
        return max(shown, default=None)

    def _history(self, name: str, model: type[Any]) -> list[Any]:
        document = self.documents.get(HISTORY)
        items = document.get(name) if isinstance(document, Mapping) else None
        found = [_understood(lambda item=item: model.model_validate(item), HISTORY) for item in items or []]  # type: ignore[misc]
        return [item for item in found if item is not None]


def mirrored(job: Job, session: Session, keys: Iterable[str] | None = None) -> Mirrored:
    """What the job shows; `keys` if not all documents are needed."""
    return all_mirrored([job], session, keys)[0]


def all_mirrored(jobs: Sequence[Job], session: Session, keys: Iterable[str] | None = None) -> list[Mirrored]:
    """What each of these jobs shows, in their order; `keys` if not all documents are needed."""
    ids = [job.asset_id for job in jobs]
    found, written = metadata_database.documents(ids, keys, session), metadata_database.revisions(ids, session)
    return [Mirrored(documents=found[asset_id], revisions=written[asset_id]) for asset_id in ids]


def _understood(read: Callable[[], Value], what: str) -> Value | None:
    try:
        return read()
    except (ValidationError, *NOT_UNDERSTOOD) as error:
        log.warning("Document %r of a mirror is not understood: %s", what, type(error).__name__)
        return None


def _consistent(state: SchedulerState) -> SchedulerState:
    """The state if all in it is about the same vertices: whoever may write into the store may have written anything.

    Raises:
        ValueError: it is not.
    """
    state.job.validate()
    vertices = state.job.max_parallelism.keys()
    plans = () if state.plan is None else (state.plan.parallelism,)
    later = () if state.declaration is None else (state.declaration.requirements,)
    if any(about.keys() != vertices for about in (state.requirements, *plans, *later)):
        raise ValueError("it is not about the vertices of the job")
    if any(subtasks < 1 for plan in plans for subtasks in plan.values()):
        raise ValueError("its plan has vertices without subtasks")
    return state


def _advice(policy: schemas.Policy | None, declared: DeclaredRequirements) -> PolicyAdvice | None:
    """The published advice. Whoever writes the state store could have written any bounds, so the bounds are checked again."""
    if policy is None:
        return None
    advice = policy.advice
    bounds = (
        {} if advice is None else {name: ParallelismRange(it.lower, it.upper) for name, it in advice.bounds.items()}
    )
    if advice is None or not are_accepted(bounds, declared.max_parallelism):
        return PolicyAdvice(policy=policy.kind, dry_run=policy.dry_run, problem=policy.problem)
    advised = Advice(bounds=bounds, reason=advice.reason, next_at=advice.next_at, source=advice.source)
    return PolicyAdvice(policy=policy.kind, dry_run=policy.dry_run, advice=advised, problem=policy.problem)


def _report(document: Mapping[str, Any]) -> Report:
    executors = [schemas.Executor.model_validate(item) for item in document["executors"]]
    parallelism = TypeAdapter(dict[str, int]).validate_python(document["parallelism"])
    return Report(at=_moment(document.get("at")), parallelism=parallelism, executors=executors)


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def _is_web(url: str | None) -> bool:
    """Whether a page may link to it: what a driver reports could be anything."""
    try:
        return url is not None and urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False
