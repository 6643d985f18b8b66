"""Airflow's scheduler and its workers: they start, resume, retry and end the tasks of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive._airflow.internals import AirflowFailException
from tests.lab.fleet.airflow.api_server import ApiServer, Record
from tests.lab.fleet.airflow.job_operator import JobOperator, JobTask, WorkerTaskInstance
from tests.lab.fleet.airflow.tables import TaskInstance, TaskState
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Action, Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.support.airflow.airflow_versions import TaskDeferred

START_DELAY_S = (0.5, 4.0)
"""Shortest and longest time from the moment when a task can run to its start in a worker."""

REPORT_INTERVAL_S = 5.0
"""Interval between two attempts of a worker to report the end of its task."""


class Scheduler:
    """Runs tasks. Each run of a task has a worker process of its own.

    Attributes:
        tasks: job -> task.
        workers: processes of all runs, in order.
        errors: job -> newest exception of its task.
    """

    def __init__(self, kernel: Kernel, entropy: Entropy, record: Record, api: ApiServer) -> None:
        """Create a scheduler without tasks."""
        self.tasks: dict[str, JobTask] = {}
        self.workers: list[SimulatedProcess] = []
        self.errors: dict[str, Exception] = {}
        self.failed_starts: set[str] = set()
        """Jobs whose newest error was raised before the task was deferred, and in which a retry may succeed."""
        self._kernel = kernel
        self._entropy = entropy
        self._record = record
        self._api = api
        self._waiting: list[Action] | None = None
        """Starts of tasks that wait for the end of an outage; None if the scheduler works."""

    def add(self, task: JobTask) -> None:
        """Run a new task."""
        self.tasks[task.job] = task
        self._api.database.tasks[task.key] = TaskInstance(key=task.key, max_tries=task.retries)
        self._api.database.active_runs.add(task.key.run_id)
        self.queue(task)

    def queue(
        self,
        task: JobTask,
        state: TaskState = TaskState.QUEUED,
        delay_s: float = 0.0,
        event: Mapping[str, Any] | None = None,
    ) -> None:
        """Start or resume a task after a delay. An earlier run of the task has no effect any more.

        Args:
            task: the task.
            state: state of the task until then.
            delay_s: delay in addition to the time that Airflow needs, in seconds.
            event: event with which the task resumes, None if it starts.
        """
        instance = self.instance(task)
        instance.run += 1
        instance.state, instance.trigger_id, instance.event = state, None, event
        run, start_s = instance.run, self._entropy.random(f"start of {task.job}").uniform(*START_DELAY_S)
        self._kernel.after(delay_s + start_s, lambda: self._start(task, run))

    def instance(self, task: JobTask) -> TaskInstance:
        """Return the task instance of a task."""
        return self._api.database.tasks[task.key]

    def stop(self) -> Action:
        """Start no task until the returned function is called."""
        self._waiting = []

        def end() -> None:
            waiting, self._waiting = self._waiting or [], None
            for start in waiting:
                start()

        return end

    def _start(self, task: JobTask, run: int) -> None:
        instance = self.instance(task)
        if self._waiting is not None:
            self._waiting.append(lambda: self._start(task, run))
        elif instance.run == run:
            worker = SimulatedProcess(self._kernel, f"worker of {task.job}")
            self.workers.append(worker)
            self._begin_try(instance)
            worker.soon(lambda: self._kernel.start_thread(_Run(self, task, instance, worker, run).execute))

    def _begin_try(self, instance: TaskInstance) -> None:
        instance.state = TaskState.RUNNING
        if instance.event is None:
            instance.try_number += 1
            instance.xcoms.clear()

    def report(self, task: JobTask, run: int, end: Callable[[TaskInstance], None]) -> None:
        """Change the task instance at the end of its run, unless it was cleared since; blocks."""

        def act(host: str) -> None:
            instance = self.instance(task)
            if instance.run == run:
                end(instance)
                self._record(f"{task.job}: task {instance.state}")

        while True:
            try:
                return self._api.execute("UpdateTask", task.job, act)
            except AirflowRuntimeError:
                self._kernel.sleep(REPORT_INTERVAL_S)

    def record_error(self, task: JobTask, error: Exception) -> None:
        """Record why a run of a task fails."""
        self.errors[task.job] = error
        self.failed_starts.discard(task.job)
        self._record(f"{task.job}: {type(error).__name__}: {error}")

    def has_lost_airflow(self, job: str) -> bool:
        """Return whether the newest exception of a task is an error of Airflow's API server."""
        return isinstance(self.errors.get(job), AirflowRuntimeError)

    def end(self, task: JobTask, instance: TaskInstance, state: TaskState) -> None:
        """End a task instance, or plan its next try."""
        if state is TaskState.UP_FOR_RETRY:
            self.queue(task, state, task.retry_delay_s)
        else:
            instance.state = state
            self._api.database.active_runs.discard(instance.key.run_id)

    def defer(self, instance: TaskInstance, arguments: Mapping[str, Any]) -> None:
        """Let a task instance wait for a new trigger."""
        self._api.database.add_trigger(instance, arguments)


class _Run:
    """One run of a task, in the only thread of its worker."""

    def __init__(
        self, scheduler: Scheduler, task: JobTask, instance: TaskInstance, worker: SimulatedProcess, run: int
    ) -> None:
        self._scheduler = scheduler
        self._task = task
        self._event = instance.event
        self._worker = worker
        self._run = run
        self._instance = WorkerTaskInstance(instance.key, instance.try_number, instance.max_tries)

    def execute(self) -> None:
        report, task = self._scheduler.report, self._task
        try:
            self._call_operator()
        except TaskDeferred as deferral:
            _, arguments = deferral.trigger.serialize()
            report(task, self._run, lambda instance: self._scheduler.defer(instance, arguments))
        except AirflowFailException as error:
            self._scheduler.record_error(task, error)
            report(task, self._run, lambda instance: self._scheduler.end(task, instance, TaskState.FAILED))
        except Exception as error:  # noqa: BLE001  Airflow retries the task after any exception.
            self._scheduler.record_error(task, error)
            if self._event is None:
                self._scheduler.failed_starts.add(task.job)
            state = TaskState.UP_FOR_RETRY if self._has_retries else TaskState.FAILED
            report(task, self._run, lambda instance: self._scheduler.end(task, instance, state))
        else:
            report(task, self._run, lambda instance: self._scheduler.end(task, instance, TaskState.SUCCESS))
        self._worker.kill()

    @property
    def _has_retries(self) -> bool:
        return self._instance.try_number <= self._instance.max_tries

    def _call_operator(self) -> None:
        operator = JobOperator(task=self._task)
        context: Any = {"ti": self._instance}
        ExecutorSafeguard.tracker.set(operator)
        if self._event is None:
            operator.execute(context)
        elif "error" in self._event:
            raise RuntimeError(self._event["error"])
        else:
            operator.execute_complete(context, dict(self._event))
