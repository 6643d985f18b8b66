"""A job in Airflow's own metrics (StatsD, Datadog, OpenTelemetry): gauges of how it stands, counters of what it went through.

Airflow has its statistics twice, in the core and in the Task SDK. Loops run in workers and in the subprocess of the triggerer, and in
both the SDK's are those that belong to the process. They are set up when Airflow's serialisation is imported, or else here.

Each metric goes out with the tags `job`, `dag_id` and `task_id`. Where a backend knows no tags the jobs would overwrite each other:
so, like Airflow's own, each goes out under a name with the job in it as well, unless `[metrics] legacy_names_on` is off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_adaptive.runtime.publishing.documents import METRICS
from airflow_adaptive.runtime.publishing.job_view import STATE_NAMES
from airflow_adaptive.runtime.publishing.time_series import FINEST
from airflow_adaptive.scheduler.timeline import TerminalState

log = logging.getLogger(__name__)

PREFIX: Final = "adaptive"
"""Of all names here, behind Airflow's own (`[metrics] statsd_prefix`)."""


class Kind(StrEnum):
    """What a metric is."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric.

    Attributes:
        kind: gauge, or counter.
        doc: what it tells, and its unit.
        per: tag that it has beyond those of the job, None if it has none.
        flink: name of Flink's metric that tells the same, None if there is none.
    """

    kind: Kind
    doc: str
    per: str | None = None
    flink: str | None = None


_COUNTER, _GAUGE = Kind.COUNTER, Kind.GAUGE

METRICS_OF_A_JOB: Final[Mapping[str, Metric]] = {
    "state": Metric(kind=_GAUGE, doc="1 for the state that the scheduler is in, 0 for the others", per="state"),
    "num_restarts": Metric(kind=_GAUGE, doc="restarts so far", flink="numRestarts"),
    "num_rescales": Metric(kind=_GAUGE, doc="rescales so far", flink="numRescales"),
    "restarts": Metric(kind=_COUNTER, doc="restarts, as they come"),
    "rescales": Metric(kind=_COUNTER, doc="rescales, as they come"),
    "last_rescale_downtime": Metric(
        kind=_GAUGE, doc="how long no plan was in force in the newest completed rescale that has measured it, ms"
    ),
    "parallelism": Metric(kind=_GAUGE, doc="parallelism in force, 0 without a plan", per="vertex"),
    "parallelism_lower": Metric(kind=_GAUGE, doc="lower bound in force", per="vertex"),
    "parallelism_upper": Metric(kind=_GAUGE, doc="upper bound in force", per="vertex"),
    "slots_held": Metric(kind=_GAUGE, doc="slots that the job holds"),
    "slots_available": Metric(kind=_GAUGE, doc="slots that the job holds or was offered"),
    "slots": Metric(kind=_GAUGE, doc="slots that the plan in force occupies, 0 without one"),
    "slots_lower": Metric(kind=_GAUGE, doc="slots that the job can't run without"),
    "slots_upper": Metric(kind=_GAUGE, doc="slots that the job takes at most"),
    "num_records_in_per_second": Metric(kind=_GAUGE, doc="rows read per second", flink="numRecordsInPerSecond"),
    "num_records_processed_per_second": Metric(kind=_GAUGE, doc="rows per second while a batch runs"),
    "pending_records": Metric(
        kind=_GAUGE, doc="rows that wait at the sources, as far as they tell", flink="pendingRecords"
    ),
    "batch_duration": Metric(kind=_GAUGE, doc="duration of the longest of the newest batches, ms"),
}
"""Name -> metric."""

COUNTED: Final = {"restarts": "restarts", "rescales": "rescales"}
"""Counter -> its total in a view."""

MEASURED: Final = {
    "slots": "slots",
    "slots_lower": "lower",
    "slots_upper": "upper",
    "num_records_in_per_second": "input",
    "num_records_processed_per_second": "processed",
    "pending_records": "backlog",
    "batch_duration": "batch_ms",
}
"""Gauge -> its column among the figures."""


class Sample(NamedTuple):
    """A value of a gauge."""

    metric: str
    value: float
    of: str | None = None
    """Value of the tag that the metric has beyond those of the job."""


class Telemetry:
    """Tells Airflow's statistics about one job; called from one thread at a time, which may wait for the backend.

    Nothing that goes wrong here reaches the caller: a job must not depend on who measures it.
    """

    def __init__(self, job: str, dag_id: str, task_id: str) -> None:
        """Nothing is sent yet.

        Args:
            job: id of the job.
            dag_id: of the task that runs it.
            task_id: of the task that runs it.
        """
        self._tags = {"job": job, "dag_id": dag_id, "task_id": task_id}
        self._named = f"{PREFIX}.{_part(job)}"
        self._counted: dict[str, int] = {}
        self._samples: tuple[Sample, ...] = ()
        self._complaint: str | None = None

    def show(self, view: Mapping[str, Any]) -> None:
        """Tell how the job stands (`runtime.publishing.job_view.view`)."""
        self._carefully(lambda: self._show(view))

    def measure(self, figures: Mapping[str, Any]) -> None:
        """Tell the newest figures (`runtime.publishing.time_series.Figures`), and again how the job stood: a backend may have missed it."""
        self._carefully(lambda: self._send([*self._samples, *measured(figures)]))

    def _show(self, view: Mapping[str, Any]) -> None:
        self._samples = tuple(standing(view))
        self._send(self._samples)
        for metric, total in COUNTED.items():
            self._count(metric, view[total])

    def _send(self, samples: Iterable[Sample]) -> None:
        both = _with_names()
        for metric, value, of in samples:
            per = METRICS_OF_A_JOB[metric].per
            extra = {} if per is None or of is None else {per: of}
            stats.gauge(f"{PREFIX}.{metric}", value, tags=self._tags | extra)
            if both:
                part = "" if of is None else f".{_part(of)}"
                stats.gauge(f"{self._named}.{metric}{part}", value)

    def _count(self, metric: str, total: int) -> None:
        """Count what has come since this loop saw the job first; what was before it has been counted by another."""
        new = total - self._counted.get(metric, total)
        self._counted[metric] = total
        if new > 0:
            stats.incr(f"{PREFIX}.{metric}", new, tags=self._tags)
            if _with_names():
                stats.incr(f"{self._named}.{metric}", new)

    def _carefully(self, work: Callable[[], None]) -> None:
        try:
            _set_up()
            work()
        except Exception as error:  # noqa: BLE001  backends, and configurations of them, raise what they like
            text = f"{type(error).__name__}: {error}"
            if text != self._complaint:
                log.warning("Metrics of job %r can't be sent: %s", self._tags["job"], text)
            self._complaint = text


def standing(view: Mapping[str, Any]) -> Iterator[Sample]:
    """How a job stands, as a view tells it."""
    yield from (Sample("state", int(name == view["state"]), name) for name in STATE_NAMES)
    yield Sample("num_restarts", view["restarts"])
    yield Sample("num_rescales", view["rescales"])
    parallelism = view["parallelism"] or {}
    for vertex, bounds in view["requirements"].items():
        yield Sample("parallelism", parallelism.get(vertex, 0), vertex)
        yield Sample("parallelism_lower", bounds["lower"], vertex)
        yield Sample("parallelism_upper", bounds["upper"], vertex)
    yield Sample("slots_held", view["slots"]["held"])
    yield Sample("slots_available", view["slots"]["available"])
    downtime = last_downtime(view["rescale_history"])
    if downtime is not None:
        yield Sample("last_rescale_downtime", downtime / timedelta(milliseconds=1))


def measured(figures: Mapping[str, Any]) -> Iterator[Sample]:
    """The newest figures of the finest resolution; what is not known is left out."""
    page = figures.get(f"{METRICS}{FINEST}")
    if not page or not page["points"]:
        return
    point = dict(zip(page["columns"], page["points"][-1], strict=True))
    yield from (Sample(metric, point[column]) for metric, column in MEASURED.items() if point[column] is not None)


def last_downtime(rescales: Iterable[Mapping[str, Any]]) -> timedelta | None:
    """Downtime of the newest rescale that is completed; None if none was measured.

    Args:
        rescales: encoded, oldest first.
    """
    known = [
        told["downtime"]
        for told in rescales
        if told.get("terminal_state") == TerminalState.COMPLETED and told.get("downtime") is not None
    ]
    return timedelta(seconds=known[-1]) if known else None


def _part(name: str) -> str:
    """A name as one part of another, as Airflow writes those of DAGs and tasks."""
    return stats.normalize_name_for_stats(name, log_warning=False).replace(".", "__")


def _with_names() -> bool:
    return bool(conf.getboolean("metrics", "legacy_names_on", fallback=True))


def _set_up() -> None:
    """Have Airflow's statistics set up in this process; where they are, a second time would make a second exporter."""
    from airflow.sdk._shared.observability.metrics import stats as shared  # noqa: PLC0415  it is Airflow's inside

    if getattr(shared, "_factory", None) is None:
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=_with_names())
