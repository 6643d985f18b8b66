"""What can happen: one method for each kind of event in `seeds.KINDS`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from airflow_adaptive._core.ports import MIB
from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.requirements.control_requests import CALENDAR, DESIRED_STATE, REQUIREMENTS
from airflow_adaptive._core.requirements.request_bodies import encode_requirements
from airflow_adaptive._core.scheduler.job_graph import DEFAULT_VERTEX
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.airflow.triggerer import SimulatedTriggerer
from tests.lab.fleet.cluster.driver import SimulatedDriver
from tests.lab.fleet.cluster.masters import MasterFault
from tests.lab.fleet.controller import FleetController
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.kernel.kernel import Action
from tests.lab.fleet.observed_storage import ObservedStorage
from tests.lab.fleet.scenario import PlannedEvent
from tests.lab.simulation.one_job import MEMORY_MB

Item = TypeVar("Item")

QUERY_FAILURE = FailureReport(error_class="SparkException", message="the task failed", causes=("SparkException",))


HALF: Final = 0.5
"""Events with a greater size have one effect, the others have another one."""

RETRY_S: Final = 5.0
"""Interval in seconds at which a user repeats a request that the REST API has refused."""


def nothing() -> None:
    """End a fault that has no end."""


class Faults:
    """Begins the planned events of a scenario. A method returns the function that ends its fault."""

    def __init__(self, environment: Environment) -> None:
        """Refer to an environment; nothing happens yet."""
        self._env = environment

    def plan(self) -> None:
        """Plan all events of the scenario."""
        for event in self._env.scenario.events:
            self._env.kernel.at(event.at, partial(self._begin, event))

    def _begin(self, event: PlannedEvent) -> None:
        self._env.history.record(f"BEGIN {event.kind} for {event.duration:g} s")
        end: Action = getattr(self, event.kind)(event)
        if event.duration:
            self._env.kernel.after(event.duration, lambda: self._end(event, end))

    def _end(self, event: PlannedEvent, end: Action) -> None:
        self._env.history.record(f"END {event.kind}")
        end()

    # ---- the cluster ------------------------------------------------------------------------------------------------

    def master_is_slow(self, event: PlannedEvent) -> Action:
        """The masters answer late."""
        return self._env.masters.begin(MasterFault("slow", delay_s=0.2 + 3 * event.size))

    def master_hangs(self, event: PlannedEvent) -> Action:
        """The masters do not answer."""
        return self._env.masters.hang(with_drivers=event.size > HALF)

    def master_refuses(self, event: PlannedEvent) -> Action:
        """No master listens."""
        return self._env.masters.begin(MasterFault("refuse"))

    def master_answers_nonsense(self, event: PlannedEvent) -> Action:
        """The masters answer with errors or without JSON."""
        return self._env.masters.begin(MasterFault("fail" if event.size > HALF else "garbage"))

    def master_loses_responses(self, event: PlannedEvent) -> Action:
        """The masters execute requests, and the responses are lost."""
        return self._env.masters.begin(MasterFault("lose"))

    def master_is_stale(self, event: PlannedEvent) -> Action:
        """The masters report an old state."""
        return self._env.masters.begin(MasterFault("stale"))

    def token_rotates(self, event: PlannedEvent) -> Action:
        """The masters require a new token, which is in the connections some seconds later."""
        self._env.masters.token = f"token of {event.at:g} s"
        self._env.kernel.after(5 * event.size, self._env.publish_token)
        return nothing

    def worker_is_lost(self, event: PlannedEvent) -> Action:
        """A worker disappears for a time."""
        cluster = self._env.drivers.cluster
        worker = _select([worker for worker in cluster.workers if len(cluster.workers) > 1], event)
        if worker is None:
            return nothing
        cluster.lose_worker(worker.worker_id)
        return lambda: cluster.add_worker(worker.total.cpu_millicores // 1000, worker.total.memory_bytes // MIB)

    def executors_are_late(self, event: PlannedEvent) -> Action:
        """New executors register late, for example because their images must be loaded."""
        return self._env.drivers.cluster.late_executors(10 + 70 * event.size)

    def worker_joins(self, event: PlannedEvent) -> Action:
        """There is one more worker for a time."""
        cluster, cores = self._env.drivers.cluster, 2 + round(4 * event.size)
        worker_id = cluster.add_worker(cores, cores * MEMORY_MB)

        def end() -> None:
            if worker_id in {worker.worker_id for worker in cluster.workers}:
                cluster.lose_worker(worker_id)

        return end

    # ---- storages ---------------------------------------------------------------------------------------------------

    def storage_is_slow(self, event: PlannedEvent) -> Action:
        """A storage answers late."""
        return self._storage(event).faults.slow(0.1 + event.size)

    def storage_hangs(self, event: PlannedEvent) -> Action:
        """A storage does not answer; some calls have their effect."""
        faults = self._storage(event).faults
        return faults.hang() if event.size > HALF else faults.hold_responses()

    def storage_fails(self, event: PlannedEvent) -> Action:
        """Some calls to a storage fail."""
        return self._storage(event).faults.fail(share=0.2 + event.size)

    def storage_loses_responses(self, event: PlannedEvent) -> Action:
        """Some writes have their effect, and the callers see an error."""
        return self._storage(event).faults.lose_responses(share=0.2 + event.size)

    def listing_lags(self, event: PlannedEvent) -> Action:
        """Listings do not contain new files for some seconds."""
        return self._storage(event).faults.lag(1 + 5 * event.size)

    def directory_hangs(self, event: PlannedEvent) -> Action:
        """The directory of one job does not answer."""
        job = self._job(event)
        return self._env.storage(job).faults.hang(f"{self._env.directory(job)}/*")

    # ---- Airflow ----------------------------------------------------------------------------------------------------

    def airflow_hangs(self, event: PlannedEvent) -> Action:
        """The API server of Airflow does not answer."""
        return self._env.airflow.api.faults.hang()

    def airflow_is_slow(self, event: PlannedEvent) -> Action:
        """The API server of Airflow answers late."""
        return self._env.airflow.api.faults.slow(0.1 + event.size)

    def airflow_fails(self, event: PlannedEvent) -> Action:
        """Some operations of Airflow's API server fail, or their responses are lost."""
        faults = self._env.airflow.api.faults
        return faults.fail(share=event.size) if event.size > HALF else faults.lose_responses(share=event.size / HALF)

    def airflow_empties_stores(self, event: PlannedEvent) -> Action:
        """Airflow removes the state store of a job."""
        job = self._job(event)
        self._env.airflow.users.empty_store(job)
        self._env.emptied.append((job, event.at))
        return nothing

    def triggerer_is_killed(self, event: PlannedEvent) -> Action:
        """A triggerer is killed; another one starts later."""
        triggerer = self._triggerer(event)
        if triggerer is None:
            return self._env.start_triggerer
        triggerer.process.kill()
        return self._env.start_triggerer

    def triggerer_is_stopped(self, event: PlannedEvent) -> Action:
        """A triggerer gets SIGTERM, as during an upgrade of Airflow; another one starts later."""
        triggerer = self._triggerer(event)
        if triggerer is not None:
            triggerer.stop()
        return self._env.start_triggerer

    def triggerer_is_frozen(self, event: PlannedEvent) -> Action:
        """A triggerer is frozen for a time."""
        triggerer = self._triggerer(event)
        if triggerer is None:
            return nothing
        triggerer.process.freeze()
        return triggerer.process.resume

    def clock_steps(self, event: PlannedEvent) -> Action:
        """The time of day of the host of a triggerer is set, by seconds or by an hour."""
        triggerer = self._triggerer(event)
        if triggerer is not None:
            size_s = 3600.0 if event.size > HALF else 10.0
            triggerer.process.wall_offset += timedelta(seconds=size_s if event.target % 2 else -size_s)
        return nothing

    def trigger_is_moved(self, event: PlannedEvent) -> Action:
        """Airflow assigns the trigger of a job to another triggerer."""
        triggers = self._env.airflow.api.database.triggers.values()
        trigger = next((it for it in triggers if it.task.task_id == self._job(event)), None)
        triggerer = self._triggerer(event)
        if trigger is not None and triggerer is not None:
            trigger.triggerer = triggerer.process.name
        return nothing

    # ---- drivers ----------------------------------------------------------------------------------------------------

    def driver_is_killed(self, event: PlannedEvent) -> Action:
        """The processes of a driver are killed, or its Python process only."""
        driver = self._driver(event)
        if driver is not None:
            (driver.processes.kill if event.size > HALF else driver.processes.kill_python)()
        return nothing

    def driver_is_frozen(self, event: PlannedEvent) -> Action:
        """The host of a driver is suspended."""
        driver = self._driver(event)
        return nothing if driver is None else driver.suspend()

    def driver_python_is_frozen(self, event: PlannedEvent) -> Action:
        """The Python process of a driver is frozen, and its queries continue."""
        driver = self._driver(event)
        return nothing if driver is None else driver.processes.freeze_python()

    def driver_loses_storage(self, event: PlannedEvent) -> Action:
        """A driver does not reach its storage."""
        driver = self._driver(event)
        if driver is None:
            return nothing
        return self._env.storage(driver.settings.job).faults.disconnect(hosts=driver.hosts)

    def query_fails(self, event: PlannedEvent) -> Action:
        """The queries of a job fail for some seconds."""
        end = self._env.drivers.models[self._job(event)].fail_queries(QUERY_FAILURE)
        self._env.kernel.after(1 + 5 * event.size, end)
        return nothing

    # ---- users ------------------------------------------------------------------------------------------------------

    def user_sets_requirements(self, event: PlannedEvent) -> Action:
        """A user sets the bounds of a job."""
        return self._request(event, REQUIREMENTS)

    def calendar_sets_requirements(self, event: PlannedEvent) -> Action:
        """The DAG of a calendar sets the bounds of a job."""
        return self._request(event, CALENDAR)

    def user_and_calendar_set_requirements(self, event: PlannedEvent) -> Action:
        """A user and the DAG of a calendar set the bounds of a job at the same time."""
        self._request(event, CALENDAR)
        return self._request(event, REQUIREMENTS)

    def user_requests_too_much(self, event: PlannedEvent) -> Action:
        """A user requires the greatest parallelism of a job. If the cluster lacks the slots, the job stops and waits."""
        job = self._job(event)
        upper = self._env.jobs[job].bounds[1]
        bounds = {DEFAULT_VERTEX: ParallelismRange(upper, upper)}
        self._env.airflow.users.request(job, REQUIREMENTS, encode_requirements(bounds))
        self._env.waiting.add(job)
        return nothing

    def user_suspends(self, event: PlannedEvent) -> Action:
        """A user suspends a job, and resumes it later. The REST API refuses both for an unknown job, and a resume while the job stops."""
        job, users = self._job(event), self._env.airflow.users
        if not self._env.summary(job):
            return nothing
        users.request(job, DESIRED_STATE, "suspended")

        def resume() -> None:
            is_over = self._env.task_state(job) in (TaskState.SUCCESS, TaskState.FAILED)
            summary = self._env.summary(job)
            if not is_over and (summary.get("state") == "StopWithSavepoint" or summary.get("outcome")):
                self._env.kernel.after(RETRY_S, resume)
                return
            users.request(job, DESIRED_STATE, "running")
            if is_over:
                self._clear(job)

        return resume

    def user_cancels(self, event: PlannedEvent) -> Action:
        """A user cancels a job. The REST API refuses that for a job that has published nothing, and for a job that has ended."""
        job = self._job(event)
        summary = self._env.summary(job)
        if summary and not summary.get("outcome"):
            self._env.airflow.users.request(job, DESIRED_STATE, "canceled")
        return nothing

    def task_is_marked_failed(self, event: PlannedEvent) -> Action:
        """A user marks the task of a job as failed."""
        job = self._job(event)
        if self._has_run(job):
            if not self._env.has_loop(job):
                self._env.orphaned.add(job)
            self._env.airflow.users.end_task(job, TaskState.FAILED)
            self._env.marked_failed[job] = event.at
        return nothing

    def task_is_cleared(self, event: PlannedEvent) -> Action:
        """A user clears the task of a job."""
        job = self._job(event)
        if self._has_run(job):
            self._clear(job)
        return nothing

    def controller_fails(self, event: PlannedEvent) -> Action:
        """The scale-up controller of the user raises exceptions."""
        FleetController.is_broken = True

        def end() -> None:
            FleetController.is_broken = False

        return end

    def _has_run(self, job: str) -> bool:
        """Return whether the task of a job exists; a DAG run may begin later than an event."""
        return job in self._env.airflow.scheduler.tasks

    def _clear(self, job: str) -> None:
        self._env.airflow.users.clear_task(job)
        self._env.cleared[job] = self._env.kernel.now
        self._env.marked_failed.pop(job, None)
        self._env.orphaned.discard(job)

    # ---- targets ----------------------------------------------------------------------------------------------------

    def _job(self, event: PlannedEvent) -> str:
        return self._env.scenario.jobs[event.target % len(self._env.scenario.jobs)].name

    def _storage(self, event: PlannedEvent) -> ObservedStorage:
        storages = list(self._env.storages.values())
        return storages[event.target % len(storages)]

    def _triggerer(self, event: PlannedEvent) -> SimulatedTriggerer | None:
        return _select([it for it in self._env.triggerers if not it.process.is_frozen], event)

    def _driver(self, event: PlannedEvent) -> SimulatedDriver | None:
        return _select(self._env.drivers.alive(self._job(event)), event)

    def _request(self, event: PlannedEvent, key: str) -> Action:
        job = self._job(event)
        upper = 1 + round(event.size * (self._env.jobs[job].bounds[1] - 1))
        bounds = {DEFAULT_VERTEX: ParallelismRange(1 + event.target % min(upper, 2), upper)}
        self._env.airflow.users.request(job, key, encode_requirements(bounds))
        return nothing


def _select(items: Sequence[Item], event: PlannedEvent) -> Item | None:
    return items[event.target % len(items)] if items else None
