"""What must hold at the end, after a time without faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive._airflow.store.store_access import CONNECTION_STORE
from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.requirements.control_requests import (
    CALENDAR,
    DESIRED_STATE,
    REQUIREMENTS,
    DesiredState,
    requested_value,
    with_restored,
)
from airflow_adaptive._core.requirements.request_bodies import decode_bounds
from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.airflow.users import MadeRequest
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.violation import ViolationError

HANDOVER_S: Final = 60.0
"""Longest time for which a loop continues after its trigger, until the next loop takes over, seconds."""

MAX_LOWER_BOUND: Final = 2
"""Greatest lower bound of a job."""

NOTICE_S: Final = 60.0
"""Longest time until a loop knows that its task has ended, also while some responses of Airflow are lost, seconds."""

EMPTIED_S: Final = 60.0
"""Time before Airflow empties a store in which a request may be unknown to the loop, seconds."""


class Recovery:
    """Checks at the end that each job is in the state that its users and its input require, and that nothing is left of ended jobs."""

    def __init__(self, environment: Environment) -> None:
        """Check an environment at its end."""
        self._env = environment

    def check(self) -> None:
        """Check all jobs. Raises `ViolationError`."""
        for job in self._env.jobs:
            self._check_job(job)
        for triggerer in self._env.triggerers:
            if triggerer.loop.failures:
                raise ViolationError("exceptions", f"{triggerer.process.name}: {triggerer.loop.failures[0]}")
            if triggerer.idle_s > HANDOVER_S and (leaks := triggerer.leaks()):
                raise ViolationError("released", f"{triggerer.process.name} holds {', '.join(leaks)}")

    def _check_job(self, job: str) -> None:
        if self._needs_retry(job) or self._is_request_uncertain(job):
            return
        if self._must_be_over(job):
            if self._env.drivers.alive(job) and not self._is_orphaned(job):
                raise ViolationError("recovery", f"{job} has ended, and a driver runs")
        elif self._env.drivers.with_queries(job):
            self._check_requests(job)
        elif not self._are_slots_reserved() and self._free_slots() > max(
            self._env.jobs[job].bounds[0], MAX_LOWER_BOUND
        ):
            state = self._env.summary(job).get("state")
            raise ViolationError(
                "recovery",
                f"no driver of {job} runs queries; its state is {state}, its task is {self._env.task_state(job)}",
            )

    def _must_be_over(self, job: str) -> bool:
        """Return whether the job has ended because of its input or its users, or because a task could not reach Airflow."""
        if self._env.drivers.models[job].is_complete or self._is_stopped(job) or job in self._env.marked_failed:
            return True
        if self._env.task_state(job) is not TaskState.FAILED:
            return False
        if self._env.airflow.scheduler.has_lost_airflow(job) or self._was_refused(job):
            return True
        raise ViolationError("recovery", f"the task of {job} has failed: {self._env.airflow.scheduler.errors.get(job)}")

    def _is_orphaned(self, job: str) -> bool:
        """Return whether no loop could know that a user has marked the task of a job as failed: none ran, or its triggerer ended too soon."""
        marked_at = self._env.marked_failed.get(job)
        return job in self._env.orphaned or (
            marked_at is not None
            and any(
                event.kind in ("triggerer_is_killed", "triggerer_is_stopped") and 0 <= event.at - marked_at <= NOTICE_S
                for event in self._env.scenario.events
            )
        )

    def _was_refused(self, job: str) -> bool:
        """Return whether no driver of a job was started, because the masters refused it, or Airflow did not return the connections.

        A refusal is final, because the address or the token may be wrong. The connections are read again for `deploy_timeout`. A task that was
        cleared starts the job again, so earlier drivers do not count.
        """
        cleared_at = self._cleared_at(job)
        has_run = any(it.settings.job == job and it.launched_at >= cleared_at for it in self._env.drivers.started)
        error = str(self._env.airflow.scheduler.errors.get(job))
        return not has_run and (FailureCode.SUBMISSION_REFUSED in error or CONNECTION_STORE in error)

    def _needs_retry(self, job: str) -> bool:
        """Return whether the task of a job failed before it was deferred, because the storage or a store did not answer, and has no retry left.

        A driver that an earlier run of the task started continues until `orphan_timeout`.
        """
        is_failed = self._env.task_state(job) is TaskState.FAILED
        return is_failed and job in self._env.airflow.scheduler.failed_starts

    def _is_stopped(self, job: str) -> bool:
        """Return whether users have suspended or canceled a job. A task that is cleared afterwards runs the job again."""
        newest = self._newest_desired_state(job)
        if newest is None or newest.accepted_at is None or newest.accepted_at < self._cleared_at(job):
            return False
        return newest.request.value in (DesiredState.SUSPENDED, DesiredState.CANCELED)

    def _cleared_at(self, job: str) -> float:
        return self._env.cleared.get(job, 0.0)

    def _is_request_uncertain(self, job: str) -> bool:
        """Return whether the job may not know the newest request for a desired state: it got an error, or Airflow emptied the store."""
        newest = self._newest_desired_state(job)
        return newest is not None and (newest.accepted_at is None or self._was_emptied(job, newest.accepted_at))

    def _newest_desired_state(self, job: str) -> MadeRequest | None:
        made = [it for it in self._env.airflow.users.requests if (it.job, it.request.key) == (job, DESIRED_STATE)]
        return made[-1] if made else None

    def _check_requests(self, job: str) -> None:
        for made in self._lost_requests(job):
            raise ViolationError("requests", f"the request of {made} for {job} is lost")
        expected, found = self._requested(job), self._env.summary(job).get("requirements")
        if expected and expected != found and job not in self._env.waiting:
            raise ViolationError("requests", f"{job} must have {expected}, and has {found}")

    def _are_slots_reserved(self) -> bool:
        """Return whether a job may keep slots free: it waits for more slots, or its driver has lost its worker and gets none."""
        drivers = (driver for job in self._env.jobs for driver in self._env.drivers.alive(job))
        return bool(self._env.waiting) or any(
            not self._env.drivers.cluster.is_known(driver.submission_id) for driver in drivers
        )

    def _free_slots(self) -> int:
        """Return the cores that no driver and no executor has."""
        return sum(worker.free.cpu_millicores // 1000 for worker in self._env.drivers.cluster.workers)

    def _lost_requests(self, job: str) -> Iterator[str]:
        """Return the requesters of accepted requests that no newer request has replaced, and that the store does not contain."""
        for key in (REQUIREMENTS, CALENDAR):
            made = [it for it in self._env.airflow.users.requests if (it.job, it.request.key) == (job, key)]
            newest = made[-1] if made else None
            if newest is None or newest.accepted_at is None or self._was_emptied(job, newest.accepted_at):
                continue
            requester = newest.request.requester.requested_by
            if self._document(job, key).get("by") != requester:
                yield requester

    def _was_emptied(self, job: str, accepted_at: float) -> bool:
        """Return whether Airflow emptied the store before the loop knew the request, or before a loop that knew it could restore it."""
        emptied = [at for name, at in self._env.emptied if name == job and at >= accepted_at]
        return any(at <= accepted_at + EMPTIED_S or self._is_interrupted(at) for at in emptied)

    def _is_interrupted(self, emptied_at: float) -> bool:
        """Return whether loops may have ended, or may not have reached Airflow, soon after Airflow emptied a store."""
        return any(
            event.kind.startswith(("trigger", "airflow"))
            and event.at - EMPTIED_S <= emptied_at <= event.at + event.duration + EMPTIED_S
            for event in self._env.scenario.events
            if event.kind != "airflow_empties_stores"
        )

    def _requested(self, job: str) -> Mapping[str, Any]:
        keys = (REQUIREMENTS,) if self._env.jobs[job].has_policy else (REQUIREMENTS, CALENDAR)  # by precedence
        documents = (self._document(job, key) for key in keys)
        value = next((value for document in documents if (value := requested_value(document))), None)
        bounds = {} if value is None else decode_bounds(value)
        return {vertex: asdict(it) for vertex, it in bounds.items()}

    def _document(self, job: str, key: str) -> Mapping[str, Any]:
        stored = self._env.airflow.api.database.asset_states[job_asset(job).name]
        found: Mapping[str, Any] = with_restored(stored).get(key, {})
        return found
