"""Sends the metrics of a job to Airflow's metrics (StatsD, Datadog, OpenTelemetry), as gauges and counters.

Airflow contains two metrics clients, one in the core and one in the Task SDK. Loops run in workers and in the subprocess of the triggerer,
and both processes use the client of the Task SDK. Airflow configures the client when its serialization module is imported; in other
processes this module configures the client.

Each metric is sent with the tags `job`, `dag_id` and `task_id`. In a backend without tags the jobs would overwrite each other's values.
Therefore each metric is also sent under a name that contains the job, like Airflow's own metrics, unless `[metrics] legacy_names_on` is off.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from airflow_adaptive._airflow.internals import Stats, conf, configure_stats
from airflow_adaptive._core.ports import SEPARATOR
from airflow_adaptive._core.scheduler.timeline import Rescale, TerminalState, Transition
from airflow_adaptive._core.view import METRICS, STATE_NAMES, JobView
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.publishing.time_series import FINEST

log = logging.getLogger(__name__)

_REFUSED: Final = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters that Airflow does not accept in the name of a metric."""

PREFIX: Final = "adaptive"
"""Prefix of all metric names of this provider, after Airflow's own prefix (`[metrics] statsd_prefix`)."""


TAGS: Final = {
    "state": "state",
    "transitions": "reason_code",
    **dict.fromkeys(("parallelism", "parallelism_lower", "parallelism_upper"), "vertex"),
}
"""Metric -> its tag beside those of the job. `docs/reference/metrics.md` describes all metrics."""

TRANSITIONS: Final = "transitions"
"""Name of the counter of state transitions. Its tag is the reason code of the transition (`_core.scheduler.timeline.ReasonCode`)."""

COUNTER_TOTALS: Final = {"restarts": "restarts", "rescales": "rescales"}
"""Name of a counter -> field of a view with its total."""

GAUGE_COLUMNS: Final = {
    "slots": "slots",
    "slots_lower": "lower",
    "slots_upper": "upper",
    "num_records_in_per_second": "input",
    "num_records_processed_per_second": "processed",
    "pending_records": "backlog",
    "pending_files": "unread_files",
    "source_lag": "lag_s",
    "batch_duration": "batch_ms",
}
"""Name of a gauge -> column of the job metrics with its value."""


class GaugeValue(NamedTuple):
    """A value of a gauge."""

    metric: str
    value: float
    tag: str | None = None
    """Value of the tag beyond the tags of the job."""


class AirflowMetrics:
    """Sends the metrics of one job. One thread at a time may call the methods; the methods may block on the backend.

    No error reaches the caller, because a job must not depend on its monitoring.
    """

    def __init__(self, job: str, dag_id: str, task_id: str) -> None:
        self._tags = {"job": job, "dag_id": dag_id, "task_id": task_id}
        self._job_prefix = ".".join([PREFIX, *map(_name_part, job.split(SEPARATOR))])
        self._totals: dict[str, int] = {}
        self._transitions: Sequence[Transition] | None = None
        self._values: tuple[GaugeValue, ...] = ()
        self._warnings = OnceLogger(log)

    def send_view(self, view: JobView) -> None:
        """Send the state of the job."""
        self._log_errors(lambda: self._send_view(view))

    def send_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Send the newest job metrics, and repeat the state of the job for backends that lost it."""
        self._log_errors(lambda: self._send([*self._values, *metric_values(metrics)]))

    def _send_view(self, view: JobView) -> None:
        self._values = tuple(view_values(view))
        self._send(self._values)
        for metric, total in COUNTER_TOTALS.items():
            self._count(metric, getattr(view, total))
        self._count_transitions(view.history.transitions)

    def _send(self, values: Iterable[GaugeValue]) -> None:
        with_job_names = _with_job_names()
        for metric, value, tag in values:
            Stats.gauge(f"{PREFIX}.{metric}", value, tags=self._tags_of(metric, tag))
            if with_job_names:
                Stats.gauge(self._job_name(metric, tag), value)

    def _count(self, metric: str, total: int) -> None:
        """Send the increment of a counter since the last view. The loop before this one has sent everything before the first view."""
        increment = total - self._totals.get(metric, total)
        self._totals[metric] = total
        if increment > 0:
            self._increment(metric, increment)

    def _count_transitions(self, transitions: Sequence[Transition]) -> None:
        """Count the transitions since the last view by reason code."""
        previous, self._transitions = self._transitions, transitions
        codes = Counter(transition.reason_code.value for transition in newer_transitions(previous, transitions))
        for code, number in codes.items():
            self._increment(TRANSITIONS, number, code)

    def _increment(self, metric: str, number: int, tag: str | None = None) -> None:
        Stats.incr(f"{PREFIX}.{metric}", number, tags=self._tags_of(metric, tag))
        if _with_job_names():
            Stats.incr(self._job_name(metric, tag), number)

    def _tags_of(self, metric: str, tag: str | None) -> dict[str, str]:
        return self._tags if tag is None else self._tags | {TAGS[metric]: tag}

    def _job_name(self, metric: str, tag: str | None) -> str:
        return f"{self._job_prefix}.{metric}" + ("" if tag is None else f".{_name_part(tag)}")

    def _log_errors(self, work: Callable[[], None]) -> None:
        try:
            configure_stats(legacy_names=_with_job_names())
            work()
        except Exception as error:  # noqa: BLE001  backends and their configurations raise exceptions of any class
            self._warnings.report(
                f"Metrics of job {self._tags['job']!r} cannot be sent: {type(error).__name__}: {error}"
            )


def view_values(view: JobView) -> Iterator[GaugeValue]:
    """Yield the gauges of a view."""
    yield from (GaugeValue("state", int(name == view.state), name) for name in STATE_NAMES)
    yield GaugeValue("num_restarts", view.restarts)
    yield GaugeValue("num_rescales", view.rescales)
    parallelism = view.parallelism or {}
    for vertex, bounds in view.requirements.items():
        yield GaugeValue("parallelism", parallelism.get(vertex, 0), vertex)
        yield GaugeValue("parallelism_lower", bounds.lower, vertex)
        yield GaugeValue("parallelism_upper", bounds.upper, vertex)
    yield GaugeValue("slots_held", view.slots.held)
    yield GaugeValue("slots_available", view.slots.available)
    downtime = last_downtime(view.history.rescales)
    if downtime is not None:
        yield GaugeValue("last_rescale_downtime", downtime / timedelta(milliseconds=1))


def metric_values(metrics: Mapping[str, Any]) -> Iterator[GaugeValue]:
    """Yield the gauges of the newest point of the job metrics, in the finest resolution, without unknown values."""
    page = metrics.get(f"{METRICS}{FINEST}")
    if not page or not page["points"]:
        return
    point = dict(zip(page["columns"], page["points"][-1], strict=True))
    for metric, column in GAUGE_COLUMNS.items():
        if point[column] is not None:
            yield GaugeValue(metric, point[column])


def newer_transitions(previous: Sequence[Transition] | None, transitions: Sequence[Transition]) -> Sequence[Transition]:
    """Return the transitions after the transitions of the previous view; none for the first view of a loop. The oldest is the first."""
    if previous is None:
        return ()
    known = {_identity(transition) for transition in previous}
    return [transition for transition in transitions if _identity(transition) not in known]


def _identity(transition: Transition) -> tuple[datetime, int]:
    return transition.at, transition.version


def last_downtime(rescales: Iterable[Rescale]) -> timedelta | None:
    """Return the downtime of the newest completed rescale with a measured downtime; None without such a rescale."""
    completed = [rescale.downtime for rescale in rescales if rescale.terminal_state is TerminalState.COMPLETED]
    return next((downtime for downtime in reversed(completed) if downtime is not None), None)


def _name_part(name: str) -> str:
    """Return a name as one part of a metric name, in the form that Airflow uses for the names of DAGs and tasks."""
    return _REFUSED.sub("_", name).replace(".", "__")


def _with_job_names() -> bool:
    return bool(conf.getboolean("metrics", "legacy_names_on", fallback=True))
