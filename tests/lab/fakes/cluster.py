"""A Spark standalone cluster in memory. It places drivers and executors as a real cluster does, but without delay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_adaptive._clusters.properties import check_submission
from airflow_adaptive._clusters.standalone.client import SentSubmissions
from airflow_adaptive._clusters.standalone.rest import LOST_WORKER, log_pages
from airflow_adaptive._core.ports import (
    MIB,
    ActiveDriver,
    ClusterRefusedError,
    ClusterSnapshot,
    ClusterUnreachableError,
    DriverLog,
    DriverSubmission,
    Limit,
    NotSubmittedError,
    Request,
    Resources,
    SubmissionState,
    SubmissionStatus,
    Worker,
)

MASTER_URL = "spark://fake:7077"
UI_URL = "http://fake:8080"
FIRST_UI_PORT = 8081


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeScript:
    """Behavior of a driver that runs a certain script.

    Attributes:
        ends: state in which the driver ends immediately, None if the driver runs until a test ends it.
        executors: number of executors that the driver's application requests, 0 for no application.
        executor_cores: cores of each executor.
        executor_memory_mb: memory of each executor, MiB.
        log: output of the driver.
    """

    ends: SubmissionState | None = None
    executors: int = 0
    executor_cores: int = 1
    executor_memory_mb: int = 1024
    log: DriverLog = DriverLog()


@dataclass(slots=True, kw_only=True)
class _Application:
    """An application: the executors that it requests, and the workers of the executors that were granted, by executor ID."""

    application_id: str
    executors: int
    cores: int
    memory_mb: int
    granted: int = 0
    placed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Driver:
    """A driver; `worker` runs or ran the driver, None before its start."""

    submission: DriverSubmission
    state: SubmissionState = SubmissionState.SUBMITTED
    worker: Worker | None = None
    message: str = ""
    application: _Application | None = None
    log: DriverLog = DriverLog()


class FakeCluster:
    """A `ClusterClient`, and the cluster behind it.

    Attributes:
        reachable: False makes each call raise `ClusterUnreachableError`.
        submits: False makes submissions raise `NotSubmittedError`, as if the REST server were down.
        answers: False makes a completed call raise `ClusterUnreachableError`, as if its answer were lost.
        submissions: accepted submissions by submission id, in order.
        repeated: submissions that were sent again, in order.
        limits: limits of the empty cluster. The snapshots report what drivers and executors leave. The cluster does not enforce the limits.
        cleaned_up: jobs for which `clean_up` was called, in order.
        start_error: why drivers cannot start; "" if they can.
        refusal: why the cluster accepts no driver of this client; "" if it does.
    """

    def __init__(
        self,
        scripts: Mapping[str, FakeScript] | None = None,
        worker_url: Callable[[int], str] | None = None,
        on_launch: Callable[[str], object] = lambda submission_id: None,
    ) -> None:
        """An empty cluster.

        Args:
            scripts: behavior of scripts; the drivers of other scripts run without an application until a test ends them.
            worker_url: address of the web UI of the nth worker.
            on_launch: called when a driver starts on a worker, with the submission ID.
        """
        self.reachable = True
        self.submits = True
        self.answers = True
        self.submissions: dict[str, DriverSubmission] = {}
        self.repeated: list[DriverSubmission] = []
        self.limits: Sequence[Limit] = ()
        self.cleaned_up: list[str] = []
        self.start_error = ""
        self.refusal = ""
        self._scripts = dict(scripts or {})
        self._on_launch = on_launch
        self._worker_url = worker_url or (lambda number: f"http://fake:{FIRST_UI_PORT + number}")
        self._workers: dict[str, Worker] = {}
        self._free: dict[str, Resources] = {}
        self._worker_count = 0
        self._drivers: dict[str, _Driver] = {}
        self._driver_count = 0
        self._sent = SentSubmissions()

    # ---- ClusterClient ----------------------------------------------------------------------------------------------

    async def snapshot(self) -> ClusterSnapshot:
        """See `ClusterClient`."""
        self._receive()
        workers = self.workers
        granted = {app.application_id: len(app.placed) * app.cores for app in self._applications()}
        placed = {name: driver.worker for name, driver in self._drivers.items() if driver.worker is not None}
        living = {name: worker for name, worker in placed.items() if worker.worker_id in self._workers}
        pages = {name: log_pages(worker.address, name) for name, worker in living.items()}
        self._answer()
        names = {it.application.application_id: it.submission.name for it in self._drivers.values() if it.application}
        return ClusterSnapshot(
            workers=workers,
            granted=granted,
            master_url=MASTER_URL,
            ui_url=UI_URL,
            log_pages=pages,
            names=names,
            drivers=self._living(),
            limits=[self._left(limit) for limit in self.limits],
        )

    async def check(self, driver: Request | None = None, executor: Request | None = None) -> None:
        """See `ClusterClient`."""
        self._receive()
        if self.refusal:
            raise ClusterRefusedError(self.refusal)

    async def submit(self, submission: DriverSubmission) -> str:
        """See `ClusterClient`."""
        if self._sent.is_repeated(submission):
            self.repeated.append(submission)
        return await self._sent.send_once(submission, lambda: self.create_driver(submission))

    async def status(self, submission_id: str) -> SubmissionStatus:
        """See `ClusterClient`."""
        self._receive()
        self._answer()
        driver = self._drivers.get(submission_id)
        if driver is None:
            return SubmissionStatus(state=SubmissionState.UNKNOWN)
        address = "" if driver.worker is None else driver.worker.address.removeprefix("http://")
        return SubmissionStatus(state=driver.state, message=driver.message, worker_address=address)

    async def driver_log(self, submission_id: str) -> DriverLog:
        """See `ClusterClient`."""
        readable = submission_id in (await self.snapshot()).log_pages
        return self._drivers[submission_id].log if readable else DriverLog()

    async def kill(self, submission_id: str) -> None:
        """See `ClusterClient`."""
        self._receive()
        if submission_id in self._drivers:
            self._end(submission_id, SubmissionState.KILLED)
        self._answer()

    async def kill_epochs(self, job: str, nonce: str, epochs: Collection[int]) -> None:
        """See `ClusterClient`."""
        self._receive()
        for name, driver in self._drivers.items():
            it = driver.submission
            if (it.name, it.nonce) == (job, nonce) and it.epoch in epochs:
                self._end(name, SubmissionState.KILLED)
        self._answer()

    async def clean_up(self, job: str) -> None:
        """See `ClusterClient`."""
        self._receive()
        self._sent.forget(job)
        self.cleaned_up.append(job)
        self._answer()

    async def close(self) -> None:
        """See `ClusterClient`."""

    # ---- the cluster ------------------------------------------------------------------------------------------------

    async def create_driver(self, submission: DriverSubmission) -> str:
        """Create a driver for each request, as a master does. Otherwise like `submit`."""
        if not (self.reachable and self.submits):
            raise NotSubmittedError(f"no master of {MASTER_URL} accepts requests: it was made unreachable")
        check_submission(submission)
        submission_id = f"driver-20130101000000-{self._driver_count:04d}"
        self._driver_count += 1
        self.submissions[submission_id] = submission
        self._drivers[submission_id] = _Driver(submission=submission)
        self._schedule()
        self._answer()
        return submission_id

    def add_worker(self, cores: int = 1, memory_mb: int = 1024) -> str:
        """Add a worker to the cluster. Return the ID of the worker."""
        number = self._worker_count
        self._worker_count += 1
        worker = Worker(
            worker_id=f"worker-20130101000000-fake-{number:04d}",
            address=self._worker_url(number),
            total=_resources(cores, memory_mb),
            free=_resources(cores, memory_mb),
        )
        self._workers[worker.worker_id] = worker
        self._free[worker.worker_id] = worker.total
        self._schedule()
        return worker.worker_id

    def kill_worker(self, worker_id: str) -> None:
        """Kill a worker. Its executors end, and the state of its drivers becomes UNKNOWN."""
        worker = self._workers.pop(worker_id)
        del self._free[worker_id]
        for application in self._applications():
            application.placed = {name: placed for name, placed in application.placed.items() if placed != worker_id}
        for submission_id, driver in self._drivers.items():
            if driver.worker == worker:
                self._end(submission_id, SubmissionState.UNKNOWN, LOST_WORKER)
        self._schedule()

    def kill_driver(self, submission_id: str, message: str = "") -> None:
        """Kill the process of a driver. A message simulates a failed launch, for which the worker reports the reason."""
        self._end(submission_id, SubmissionState.FAILED, message)

    def lose_driver(self, submission_id: str, message: str) -> None:
        """Let the cluster manager lose a driver, for example because its node does not answer or its pod is being deleted."""
        self._end(submission_id, SubmissionState.UNKNOWN, message)

    def confirm_end(self, submission_id: str, message: str) -> None:
        """Confirm the end of a driver that was lost."""
        driver = self._drivers[submission_id]
        driver.state, driver.message = SubmissionState.FAILED, message

    def forget_driver(self, submission_id: str) -> None:
        """Remove an ended driver, like a master with more than `spark.deploy.retainedDrivers` ended drivers."""
        del self._drivers[submission_id], self.submissions[submission_id]

    def write(self, submission_id: str, *, stdout: str = "", stderr: str = "") -> None:
        """Append to the output of a driver."""
        log = self._drivers[submission_id].log
        self._drivers[submission_id].log = DriverLog(stdout=log.stdout + stdout, stderr=log.stderr + stderr)

    def finish_driver(self, submission_id: str) -> None:
        """End the script of a driver without an error."""
        self._end(submission_id, SubmissionState.FINISHED)

    def request_executors(self, submission_id: str, executors: int, cores: int = 1, memory_mb: int = 1024) -> str:
        """Request a total number of executors for a running driver, and end the newest executors above that number.

        Return the ID of the driver's application.
        """
        application_id = self.set_executor_limit(submission_id, executors, cores, memory_mb)
        self.release_executors(submission_id, list(self.executors_by_id(submission_id))[executors:])
        return application_id

    def set_executor_limit(self, submission_id: str, executors: int, cores: int = 1, memory_mb: int = 1024) -> str:
        """Request a total number of executors for a running driver, like `SparkContext.requestTotalExecutors`.

        The cluster grants executors when workers have free capacity. If the number decreases, the executors remain.
        Return the ID of the driver's application.
        """
        driver = self._drivers[submission_id]
        if driver.application is None:
            name = submission_id.replace("driver", "app")
            driver.application = _Application(application_id=name, executors=0, cores=cores, memory_mb=memory_mb)
        if driver.application.executors != executors:
            driver.application.executors = executors
            self._schedule()
        return driver.application.application_id

    def release_executors(self, submission_id: str, executor_ids: Iterable[str]) -> None:
        """End executors of a driver, like `SparkContext.killExecutors`."""
        application = self._drivers[submission_id].application
        if application is not None:
            self._release(application, executor_ids)
            self._schedule()

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The running workers, with their free resources."""
        return tuple(self._as_listed(worker) for worker in self._workers.values())

    @property
    def states(self) -> dict[str, SubmissionState]:
        """State of each driver, also while the master cannot be reached."""
        return {name: driver.state for name, driver in self._drivers.items()}

    def worker_address(self, worker_id: str) -> str:
        """Return the address of the web UI of a worker."""
        return self._workers[worker_id].address

    def executors(self, submission_id: str) -> tuple[str, ...]:
        """Return the worker IDs of the executors of a driver, oldest executor first."""
        return tuple(self.executors_by_id(submission_id).values())

    def executors_by_id(self, submission_id: str) -> Mapping[str, str]:
        """Return the worker ID of each executor of a driver by the ID of the executor, oldest executor first."""
        application = self._drivers[submission_id].application
        return {} if application is None else application.placed

    # ---- implementation ---------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        if not self.reachable:
            raise ClusterUnreachableError(f"no master of {MASTER_URL} leads: it was made unreachable")

    def _answer(self) -> None:
        if not self.answers:
            raise ClusterUnreachableError(f"{MASTER_URL}: no response, as the test requires")

    def _living(self) -> dict[str, ActiveDriver]:
        states = (SubmissionState.SUBMITTED, SubmissionState.RUNNING)
        return {name: self._active(driver) for name, driver in self._drivers.items() if driver.state in states}

    def _active(self, driver: _Driver) -> ActiveDriver:
        error = self.start_error if driver.state is SubmissionState.SUBMITTED else ""
        return ActiveDriver(state=driver.state, request=_request_of(driver), message=error, can_start=not error)

    def _left(self, limit: Limit) -> Limit:
        """Return what a limit allows beside the drivers and the executors."""
        held = [driver.request for driver in self._living().values()]
        for application in self._applications():
            held += len(application.placed) * [_resources(application.cores, application.memory_mb)]
        used = sum(held, Resources())
        return replace(
            limit,
            cpu_millicores=None if limit.cpu_millicores is None else limit.cpu_millicores - used.cpu_millicores,
            memory_bytes=None if limit.memory_bytes is None else limit.memory_bytes - used.memory_bytes,
            count=None if limit.count is None else limit.count - len(held),
        )

    def _applications(self) -> list[_Application]:
        return [driver.application for driver in self._drivers.values() if driver.application is not None]

    def _end(self, submission_id: str, state: SubmissionState, message: str = "") -> None:
        driver = self._drivers[submission_id]
        if driver.state in (SubmissionState.SUBMITTED, SubmissionState.RUNNING):
            if driver.state is SubmissionState.RUNNING and driver.worker is not None:
                self._free_again(driver.worker.worker_id, _request_of(driver))
            driver.state, driver.message = state, message
            self._end_application(submission_id)
            self._schedule()

    def _end_application(self, submission_id: str) -> None:
        driver = self._drivers[submission_id]
        if driver.application is not None:
            self._release(driver.application, list(driver.application.placed))
            driver.application = None

    def _as_listed(self, worker: Worker) -> Worker:
        """Return the worker with its current free resources."""
        return replace(worker, free=self._free[worker.worker_id])

    def _with_capacity(self, request: Resources) -> list[str]:
        return [name for name, free in self._free.items() if request.count_in(free)]

    def _take(self, worker_id: str, request: Resources) -> None:
        """Reserve resources of a worker."""
        self._free[worker_id] -= request

    def _free_again(self, worker_id: str, request: Resources) -> None:
        """Release resources of a worker. Ignore a dead worker."""
        if worker_id in self._free:
            self._free[worker_id] += request

    def _release(self, application: _Application, executor_ids: Iterable[str]) -> None:
        for worker_id in [application.placed.pop(name) for name in executor_ids if name in application.placed]:
            self._free_again(worker_id, _resources(application.cores, application.memory_mb))

    def _schedule(self) -> None:
        """Start the waiting drivers, oldest first, then the executors of the applications (`Master.schedule`)."""
        for submission_id, driver in self._drivers.items():
            if driver.state is SubmissionState.SUBMITTED:
                self._launch(submission_id, driver)
        for application in self._applications():
            while len(application.placed) < application.executors and self._place(application):
                pass

    def _launch(self, submission_id: str, driver: _Driver) -> None:
        workers = self._with_capacity(_request_of(driver))
        if not workers or self.start_error:
            return
        driver.state, driver.worker = SubmissionState.RUNNING, self._workers[workers[0]]
        self._take(workers[0], _request_of(driver))
        script = self._scripts.get(driver.submission.script, FakeScript())
        driver.log = script.log
        self._on_launch(submission_id)
        if script.executors:
            self.request_executors(submission_id, script.executors, script.executor_cores, script.executor_memory_mb)
        if script.ends is not None:
            self._end(submission_id, script.ends)

    def _place(self, application: _Application) -> bool:
        """Place one executor on the worker with the fewest executors (`spark.deploy.spreadOutApps`)."""
        request = _resources(application.cores, application.memory_mb)
        workers = self._with_capacity(request)
        if workers:
            used = Counter(application.placed.values())
            worker_id = min(workers, key=lambda name: used[name])
            application.placed[str(application.granted)] = worker_id
            application.granted += 1
            self._take(worker_id, request)
        return bool(workers)


def _request_of(driver: _Driver) -> Resources:
    return _resources(driver.submission.driver_cores, driver.submission.driver_memory_mb)


def _resources(cores: int, memory_mb: int) -> Resources:
    return Resources(1000 * cores, memory_mb * MIB)
