"""Airflow as the place where people leave wishes and look at jobs: asset state store and XComs (port `JobStore`).

A job is an Airflow Asset of the same name. Its state store is the inbox (keys `desired_state` and `requirements`) and shows programs and
the page what the job does (`runtime.publishing.documents`); the task's XComs show it in short. None of it is the truth: that is the job's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import AssetStateStoreAccessor
from airflow.sdk.execution_time.xcom import XCom

from airflow_adaptive.ports import Clock, ControlRequests, DesiredState, Requester
from airflow_adaptive.runtime.journal.history import newest_within
from airflow_adaptive.runtime.publishing.documents import ASKED, CALENDAR, DESIRED_STATE, REQUIREMENTS, documents
from airflow_adaptive.runtime.publishing.time_series import PAGES
from airflow_adaptive.runtime.requirements.request_bodies import body_of
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.stores.airflow_metrics import Telemetry
from airflow_adaptive.stores.store_access import FIGURES_INTERVAL, INBOX_INTERVAL, Mirror, StoreTraffic

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

XCOM_STATE = "state"
XCOM_PARALLELISM = "parallelism"
XCOM_TRANSITIONS = "transitions"
XCOM_FAILURES = "failures"
XCOM_DECISIONS = "decisions"
XCOM_RESCALES = "rescales"
XCOM_MASTER_URL = "spark_master_url"
XCOM_DRIVER_URL = "spark_driver_url"
XCOM_EXECUTORS_URL = "spark_executors_url"
XCOM_STDOUT_URL = "spark_driver_stdout_url"
XCOM_STDERR_URL = "spark_driver_stderr_url"
XCOM_ATTEMPT = "attempt"

LINKS = {
    XCOM_MASTER_URL: "master",
    XCOM_DRIVER_URL: "driver",
    XCOM_EXECUTORS_URL: "executors",
    XCOM_STDOUT_URL: "stdout",
    XCOM_STDERR_URL: "stderr",
}
"""XComs of the extra links, and their names among a job's addresses."""

BOUNDS_KEYS = ((REQUIREMENTS, "requirements", "origin"), (CALENDAR, "calendar", "calendar_origin"))
"""Keys of the state store with bounds, and what of the inbox they and who has set them are."""

READS_BETWEEN = 4
"""A calendar's bounds, and for how long a person's hold, are read each time that the wish is read but so many."""

LAST_WORDS = timedelta(seconds=30)
"""How long a loop that has ended waits until people have been shown so."""

SHOWN_TRANSITIONS = 50
"""Transitions in the XCom; the job's log keeps them all."""

TRANSITION_BYTES = 16 << 10
FAILURE_BYTES = 12 << 10
"""With what a view allows the rest, all XComs of a job fit into 64 KiB together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """The task instance that a job's XComs belong to; survives serialisation as a dict."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    def push(self, key: str, value: Any) -> None:
        """Set an XCom of the task; blocks."""
        XCom.set(key, value, **asdict(self))

    def pull(self, key: str) -> Any:
        """An XCom of the task, None if there is none; blocks."""
        return XCom.get_one(key=key, **asdict(self))


class AirflowJobStore:
    """`JobStore` over an asset's state store and a task's XComs; all calls run in threads, which works everywhere.

    While few jobs run, an inbox is read every two seconds; where many share the way to the stores, in turn with the others'
    or when the signal says that it has something new.

    Nothing that goes wrong here ends a loop: a job must not depend on who watches it, nor on Airflow's API server.
    """

    def __init__(self, job: str, task: TaskKey, clock: Clock, traffic: StoreTraffic) -> None:
        """Take note; nothing is read yet."""
        self._job = job
        self._accessor = AssetStateStoreAccessor(name=job)
        self._task = task
        self._clock = clock
        self._traffic = traffic
        self._turn = traffic.inboxes.join()
        self._mark: str | None = None
        self._mirror = Mirror(self._show, traffic, clock)
        self._measures = Mirror(self._show_figures, traffic, clock)
        self._measures_turn = traffic.figures.join()
        self._unmeasured: dict[str, Any] = {}
        self._telemetry = Telemetry(job, task.dag_id, task.task_id)
        self._inbox = ControlRequests(is_read=False)
        self._asked: Mapping[str, Any] = {}
        self._overrides: Any = {}
        self._reads = 0
        self._has_wish = False
        self._view: Mapping[str, Any] | None = None
        self._pushed: dict[str, Any] = {}
        self._shown: dict[str, Any] = {}
        self._complaint: str | None = None

    async def control_requests(self) -> ControlRequests:
        """The wish and the overrides as they were last read; what can't be read leaves them as they were."""
        marked = await self._is_marked()
        if self._turn.due(self._clock.now(), INBOX_INTERVAL, at_once=marked):
            self._reads = 0 if marked else self._reads
            await self._traffic.read(lambda: self._carefully(self._read))
            if self._view is not None and not self._shown:
                self._mirror.publish(self._view)
        return self._inbox

    async def publish(self, view: Mapping[str, Any]) -> None:
        """Push as XComs what has changed, in the background and until it succeeds."""
        self._view = view
        self._mirror.publish(view)

    async def measure(self, figures: Mapping[str, Any]) -> None:
        """Show the newest figures in the background; where many jobs share the way to the store, when it is this one's turn."""
        self._unmeasured |= figures
        if self._measures_turn.due(self._clock.now(), FIGURES_INTERVAL):
            self._measures.publish(self._unmeasured)
            self._unmeasured = {}

    async def figures(self) -> Mapping[str, Any]:
        """The pages that are in the store; none if they can't be read."""
        found: dict[str, Any] = {}
        await self._traffic.read(lambda: self._carefully(lambda: self._recall(found)))
        return found

    async def finish(self) -> None:
        """Wait until everything is pushed, for a while."""
        await self._mirror.finish(LAST_WORDS)

    def close(self) -> None:
        """Push and read no more."""
        self._mirror.stop()
        self._measures.stop()
        self._turn.leave()
        self._measures_turn.leave()

    async def _is_marked(self) -> bool:
        """Whether the signal says that something new was asked; looked at only where the inbox's turn comes late."""
        mark = await self._traffic.signal.mark(self._job) if self._traffic.busy else None
        if mark in (None, self._mark):
            return False
        self._mark = mark
        return True

    def _show(self, view: Mapping[str, Any]) -> bool:
        self._telemetry.show(view)
        return self._carefully(lambda: self._push(view))

    def _carefully(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as error:  # noqa: BLE001  backends of XComs and state stores raise what they like
            self._complain(f"Airflow's stores can't be used now for {self._task}: {type(error).__name__}: {error}")
            return False
        return True

    def _read(self) -> None:
        desired_state = self._accessor.get(DESIRED_STATE)
        if desired_state is None and self._has_wish:
            desired_state = self._bring_back()
        self._has_wish = desired_state is not None
        # One after the other: overrides that nobody understands must not hide the wish to cancel.
        self._follow(
            DESIRED_STATE,
            desired_state or DesiredState.RUNNING.value,
            lambda value: replace(self._inbox, desired_state=DesiredState(value)),
        )
        self._reads -= 1
        if self._reads < 0 or self._accessor.get(REQUIREMENTS, {}) != self._overrides:
            self._read_bounds()
            self._reads = READS_BETWEEN
        self._inbox = replace(self._inbox, is_read=True)

    def _read_bounds(self) -> None:
        """Read all bounds, and who has set them.

        Who has is written last, and read first: so bounds that have expired never get the time of those that follow them.
        """
        asked = self._accessor.get(ASKED, {})
        self._asked = asked if isinstance(asked, Mapping) else {}
        for key, name, origin in BOUNDS_KEYS:
            value = self._accessor.get(key, {})
            self._overrides = value if key == REQUIREMENTS else self._overrides
            self._follow(key, value, partial(self._with_bounds, key, name, origin))

    def _with_bounds(self, key: str, name: str, origin: str, value: Any) -> ControlRequests:
        """The inbox with these bounds, and who has set them."""
        told: dict[str, Any] = {name: parse_requirements(value), origin: parse_origin(self._asked.get(key))}
        return replace(self._inbox, **told)

    def _follow(self, key: str, value: JsonValue, read: Callable[[Any], ControlRequests]) -> None:
        try:
            self._inbox = read(value)
        except ValueError as error:
            self._complain(f"Key {key!r} of {self._accessor} is ignored: {error}")

    def _bring_back(self) -> str:
        """Fill the asset's store anew: Airflow deletes an asset that no live DAG names, and with it all that it has."""
        for key, name, _ in BOUNDS_KEYS:
            bounds = {vertex: ParallelismRange(*pair) for vertex, pair in getattr(self._inbox, name).items()}
            if bounds:
                self._accessor.set(key, body_of(bounds))
        if self._asked:
            self._accessor.set(ASKED, dict(self._asked))
        self._accessor.set(DESIRED_STATE, self._inbox.desired_state.value)
        self._shown.clear()
        return self._inbox.desired_state.value

    def _push(self, view: Mapping[str, Any]) -> None:
        for key, value in xcoms(view).items():
            if key not in self._pushed or self._pushed[key] != value:
                self._task.push(key, value)
                self._pushed[key] = value
        for key, value in documents(view, asdict(self._task)).items():
            if key not in self._shown or self._shown[key] != value:
                self._accessor.set(key, value)
                self._shown[key] = value

    def _show_figures(self, figures: Mapping[str, Any]) -> bool:
        self._telemetry.measure(figures)
        return self._carefully(lambda: self._measure(figures))

    def _measure(self, figures: Mapping[str, Any]) -> None:
        for key, value in figures.items():
            self._accessor.set(key, value)

    def _recall(self, found: dict[str, Any]) -> None:
        found.update({key: self._accessor.get(key, {}) for key in PAGES})

    def _complain(self, text: str) -> None:
        """Warn; a complaint that repeats with every look is made once."""
        if text != self._complaint:
            log.warning("%s", text)
            self._complaint = text


def xcoms(view: Mapping[str, Any]) -> Mapping[str, Any]:
    """What people see of a job, as XComs of its task."""
    urls = view["urls"]
    return {
        XCOM_STATE: view["outcome"] or view["state"],
        XCOM_PARALLELISM: view["parallelism"],
        XCOM_TRANSITIONS: newest_within(view["transitions"][-SHOWN_TRANSITIONS:], TRANSITION_BYTES),
        XCOM_FAILURES: newest_within(view["failures"], FAILURE_BYTES),
        XCOM_DECISIONS: view["decisions"],
        XCOM_RESCALES: {"history": view["rescale_history"], "summary": view["rescale_summary"]},
        **{key: urls[name] or "" for key, name in LINKS.items()},
    }


def parse_requirements(body: Any) -> Mapping[str, tuple[int, int]]:
    """Overrides as the inbox has them: vertex -> (lower bound, upper bound).

    Args:
        body: vertex -> {"parallelism": {"lowerBound": n, "upperBound": n}} (FLIP-291's body).

    Raises:
        ValueError: it is something else.
    """
    try:
        bounds = {vertex: item["parallelism"] for vertex, item in body.items()}
        overrides = {vertex: (found["lowerBound"], found["upperBound"]) for vertex, found in bounds.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{body!r} is not of FLIP-291's form: {error!r}") from error
    odd = [bound for pair in overrides.values() for bound in pair if type(bound) is not int]
    if odd:
        raise ValueError(f"{body!r} has bounds that are no whole numbers: {odd}")
    return overrides


def parse_origin(asked: Any) -> Requester:
    """Who asked for bounds, as the inbox has it; what is not understood is not known."""
    if not isinstance(asked, Mapping):
        return Requester()
    by, via, until = (asked.get(name) for name in ("by", "via", "until"))
    return Requester(by=str(by or ""), via=str(via or ""), until=moment(until))


def moment(text: Any) -> datetime | None:
    """A time with a zone that is written in ISO 8601, None if it is none."""
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo is not None else None
