"""All drivers of a simulation: they start when a worker launches a submission, and the invariants observe them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from airflow_adaptive._core.protocol.conf import PREFIX
from tests.lab.fleet.cluster import driver as driver_module
from tests.lab.fleet.cluster.cluster import SimulatedCluster
from tests.lab.fleet.cluster.driver import DriverTimes, SimulatedDriver
from tests.lab.fleet.cluster.host import DriverHost
from tests.lab.fleet.cluster.job_model import JobModel, WorkloadShape
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage


class Drivers:
    """The drivers of all jobs on one cluster.

    Attributes:
        cluster: the cluster.
        models: model of the queries of each job, by its id.
        started: all drivers since the start, oldest first.
        violations: violations of exactly-once processing of all jobs.
    """

    def __init__(
        self,
        kernel: Kernel,
        entropy: Entropy,
        record: Callable[[str], None],
        storage: Callable[[str], SimulatedStorage],
        times: DriverTimes | None = None,
    ) -> None:
        """Create an empty cluster.

        Args:
            kernel: the kernel.
            entropy: source of the durations.
            record: records what happens.
            storage: returns the storage of a job directory by its URI.
            times: durations of drivers.
        """
        self.cluster = SimulatedCluster(kernel, entropy, record, self._launch)
        self.cluster.on_kill = self._kill
        self.models: dict[str, JobModel] = {}
        self.started: list[SimulatedDriver] = []
        self.violations: list[str] = []
        self._alive: list[SimulatedDriver] = []
        """Drivers that lived at the last look. The invariants look after each event."""
        self._looked_at = 0
        self._kernel = kernel
        self._entropy = entropy
        self._record = record
        self._storage = storage
        self._times = times or DriverTimes()

    def installed(self) -> AbstractContextManager[None]:
        """Let the real `Driver` of this interpreter run in the simulated processes."""
        return driver_module.installed(self._kernel, self._submission_of, self._record)

    def _submission_of(self, host: DriverHost) -> str:
        return next(driver.submission_id for driver in reversed(self.started) if driver.processes is host)

    def add_job(self, job: str, shape: WorkloadShape) -> JobModel:
        """Define what the script of a job does, before its first driver starts."""
        self.models[job] = JobModel(self._kernel, self._record, job, shape, self.violations)
        return self.models[job]

    def of(self, job: str) -> list[SimulatedDriver]:
        """Return all drivers of a job since the start, oldest first."""
        return [driver for driver in self.started if driver.settings.job == job]

    def alive(self, job: str) -> list[SimulatedDriver]:
        """Return the drivers of a job whose JVM lives."""
        return [driver for driver in self.all_alive() if driver.settings.job == job]

    def all_alive(self) -> list[SimulatedDriver]:
        """Return the drivers of all jobs whose JVM lives."""
        known = self._alive + self.started[self._looked_at :]
        self._alive, self._looked_at = [driver for driver in known if driver.processes.is_alive], len(self.started)
        return self._alive

    def with_queries(self, job: str) -> list[SimulatedDriver]:
        """Return the drivers of a job with a query that can change its output now. There is at most one."""
        return [driver for driver in self.alive(job) if driver.runs_query]

    def lose_host(self, worker_id: str) -> None:
        """Let a host fail: the master loses its worker, and the drivers on the host end."""
        lost = self.cluster.drivers_on(worker_id)
        self.cluster.lose_worker(worker_id)
        for driver in self.started:
            if driver.submission_id in lost:
                driver.processes.kill()

    def _launch(self, submission_id: str) -> None:
        """Start the driver of a submission. A submission of another program has no simulated process."""
        submission = self.cluster.submissions[submission_id]
        self._record(f"{submission_id} of {submission.name} launched")
        if PREFIX + "job" not in submission.conf:
            return
        job, uri = (submission.conf[PREFIX + name] for name in ("job", "directory"))
        driver = SimulatedDriver(
            self._kernel,
            self._entropy.random(f"driver of {job}"),
            self._record,
            self.cluster,
            submission_id,
            storage=self._storage(uri),
            model=self.models[job],
            times=self._times,
        )
        self.started.append(driver)

    def _kill(self, submission_id: str) -> None:
        found = [driver for driver in self.started if driver.submission_id == submission_id]
        for driver in found:
            driver.processes.kill()
        if not found:
            self.cluster.exited(submission_id, None)
