"""Jobs with their real loops over the simulated cluster and a simulated storage, without Airflow: for tests of one job, or of a few.

A test starts, freezes and kills the processes of the loops, begins faults, and lets virtual time pass. After each event, no job may have two drivers with
queries, and no driver may run a query for longer than the lease and its margin after the beginning of its newest read of the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports, RunLimits
from airflow_adaptive._engine.observation.driver_events import LEASE_MARGIN
from airflow_adaptive._engine.rate_limit import FILE_POLLS_PER_SECOND, RateLimiter
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fleet import seams
from tests.lab.fleet.cluster import transport
from tests.lab.fleet.cluster.driver import DriverTimes, SimulatedDriver
from tests.lab.fleet.cluster.drivers import Drivers
from tests.lab.fleet.cluster.job_model import WorkloadShape
from tests.lab.fleet.cluster.masters import SimulatedMasters
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.storage.filesystem import SimulatedFileSystem
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage
from tests.lab.simulation.one_job import MEMORY_MB, small_job

LEASE_S: Final = 15
JOB: Final = "job"
ROOT: Final = "bucket/jobs"
OPTIONS: Final[dict[str, Any]] = {
    "resource_wait_timeout": "60 s",
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "5 s",
    "deploy_timeout": "60 s",
    "stop_timeout": "20 s",
    "driver_heartbeat_timeout": f"{LEASE_S} s",
    "driver_lease_timeout": f"{LEASE_S} s",
    "local_recovery_timeout": "10 s",
}

Call = partial[Awaitable[Any]]
"""A call to a port that is about to be made."""

Interceptor = Callable[[str, Call], Awaitable[Any]]
"""Decides what becomes of a call to a port: `(method, call) -> answer`."""


class InterceptedPort:
    """A port whose every call passes an interceptor."""

    def __init__(self, port: Any, intercept: Interceptor) -> None:
        self._port = port
        self._intercept = intercept

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def call(*args: Any, **named: Any) -> Any:
            return await self._intercept(name, partial(method, *args, **named))

        return call


class TwoDriversError(AssertionError):
    """Two drivers of a job ran queries at the same time, or a driver ran a query after its lease."""


class Triggerer(SimulatedProcess):
    """A process whose loops share a client, a snapshot of the cluster and a rate limit.

    Attributes:
        event_loop: event loop of the process.
    """

    def __init__(self, kernel: Kernel, name: str, masters: SimulatedMasters) -> None:
        super().__init__(kernel, name)
        self.event_loop = SimulatedEventLoop(self)  # type: ignore[abstract]  # it has no methods for networks
        self._masters = masters
        self._shared: dict[str, Any] = {}

    def shared(self) -> dict[str, Any]:
        """Return the ports that all loops of the process share; called in the event loop."""
        if not self._shared:
            clock = SystemClock()
            self._shared = {
                "cluster": StandaloneCluster(self._masters.address, renew=self._renew),
                "shared": SharedCluster(clock),
                "files": RateLimiter(FILE_POLLS_PER_SECOND, clock),
            }
        return self._shared

    async def _renew(self) -> ClusterAddress:
        return self._masters.address


class FleetJob:
    """One of the jobs, and its loops.

    Attributes:
        loop: the newest loop, None before the first one.
        ends: what each loop that has ended has returned or raised, oldest first.
    """

    def __init__(
        self, fleet: JobFleet, name: str, parallelism: tuple[int, int], shape: WorkloadShape, **options: object
    ) -> None:
        spec = small_job(name, parallelism, options)
        conf = {"spark.airflow.adaptive.pollInterval": "1.0"}
        self.name = name
        self.spec = replace(spec, directory=f"s3a://{ROOT}/{name}", conf=conf)
        self.model = fleet.drivers.add_job(name, shape)
        self.store = FakeStore()
        self.loop: Loop | None = None
        self.ends: list[SchedulerState | BaseException] = []
        self._fleet = fleet

    def start_loop(
        self, triggerer: Triggerer | None = None, intercept: Interceptor | None = None, lifetime_s: float | None = None
    ) -> Triggerer:
        """Start a loop in a new process, or in one that runs already.

        Args:
            triggerer: the process.
            intercept: gets all calls to ports.
            lifetime_s: time after which the loop returns, seconds.
        """
        process = triggerer or self._fleet.add_triggerer()
        process.soon(lambda: process.event_loop.create_task(self._run(process, intercept, lifetime_s)))
        return process

    async def _run(self, process: Triggerer, intercept: Interceptor | None, lifetime_s: float | None) -> None:
        clock = SystemClock()
        directory = FsspecJobDirectory(Storage(SimulatedFileSystem(self._fleet.storage), ROOT), self.name)
        ports = Ports(directory=directory, store=self.store, clock=clock, **process.shared())
        if intercept is not None:
            cluster: Any = InterceptedPort(ports.cluster, intercept)
            ports = replace(ports, cluster=cluster, directory=InterceptedPort(directory, intercept))
        limits = None if lifetime_s is None else RunLimits(recycle_at=clock.now() + timedelta(seconds=lifetime_s))
        self.loop = loop = Loop(self.spec, ports, limits)
        try:
            self.ends.append(await loop.run())
        except Exception as error:  # noqa: BLE001  the test judges it
            self.ends.append(error)
        self._fleet.record(f"loop of {self.name} ended: {getattr(self.ends[-1], 'name', self.ends[-1])}")

    @property
    def state(self) -> str:
        """Name of the state of the scheduler, "" before the first loop."""
        return "" if self.loop is None else self.loop.state.name

    @property
    def plan_slots(self) -> int:
        """Slots of the plan, 0 without one."""
        plan = None if self.loop is None else self.loop.state.plan
        return 0 if plan is None else plan.slots

    @property
    def runs_on(self) -> int:
        """Slots of the running queries, 0 if no query runs."""
        return self.plan_slots if self.state == "Executing" else 0

    @property
    def path(self) -> list[str]:
        """States that the job has entered, from the published views."""
        return [] if not self.store.views else [it.target for it in self.store.views[-1].history.transitions]

    def request(self, desired_state: DesiredState) -> None:
        """Request a desired state, as a user does."""
        self.store.requests = ControlRequests(desired_state=desired_state)

    def set_upper_bound(self, upper: int) -> None:
        """Set requirements, as a user does."""
        vertex = self.spec.graph.vertices[0]
        bounds = ParallelismRange(vertex.parallelism.lower, upper)
        self.store.requests = ControlRequests(requirements={vertex.name: bounds})


class JobFleet:
    """A cluster, and jobs that compete for it.

    Attributes:
        history: all recorded facts, with the virtual time and the process.
    """

    def __init__(self, seed: int = 1, times: DriverTimes | None = None, storage: str = "s3") -> None:
        """Create a cluster without workers and jobs.

        Args:
            seed: seed of all random values.
            times: durations of drivers.
            storage: kind of the storage.
        """
        self.kernel = Kernel()
        self.entropy = Entropy(seed)
        self.history: list[str] = []
        self.storage = SimulatedStorage(self.kernel, self.entropy, self.record, storage)
        self.drivers = Drivers(self.kernel, self.entropy, self.record, lambda uri: self.storage, times)
        self.cluster = self.drivers.cluster
        self.masters = SimulatedMasters(
            self.kernel, self.entropy, self.record, self.cluster, hosts=("master-1", "master-2"), token="first"
        )
        self.jobs: dict[str, FleetJob] = {}
        self.triggerers: list[Triggerer] = []
        self.checks: list[Callable[[], object]] = []
        """Functions that are called after each event, and raise an error if a check fails."""

    def record(self, text: str) -> None:
        """Record a fact."""
        process = self.kernel.process
        self.history.append(f"{self.kernel.now:9.3f} {'-' if process is None else process.name}  {text}")

    def add_triggerer(self) -> Triggerer:
        """Start a process for loops."""
        self.triggerers.append(Triggerer(self.kernel, f"triggerer-{len(self.triggerers) + 1}", self.masters))
        return self.triggerers[-1]

    def add_workers(self, *cores: int) -> list[str]:
        """Add workers; returns their ids."""
        return [self.cluster.add_worker(each, each * MEMORY_MB) for each in cores]

    def add_job(
        self,
        name: str,
        parallelism: tuple[int, int],
        *,
        triggerer: Triggerer | None = None,
        starts_s: float = 0.0,
        priority: int = 1,
        shape: WorkloadShape | None = None,
        **options: object,
    ) -> FleetJob:
        """Add a job, whose loop starts in a process, the first triggerer by default."""
        job = FleetJob(self, name, parallelism, shape or WorkloadShape(), **options)
        job.spec = replace(job.spec, priority=priority)
        process = triggerer or (self.triggerers[0] if self.triggerers else self.add_triggerer())
        self.jobs[name] = job
        self.kernel.at(starts_s, lambda: job.start_loop(process))
        return job

    def run(self, seconds: float) -> None:
        """Run for a virtual time."""
        with self.installed():
            self._run(seconds)

    def _run(self, seconds: float) -> None:
        self.kernel.run(self.kernel.now + seconds, self._check)
        alive = [triggerer for triggerer in self.triggerers if triggerer.is_alive]
        assert [failure for triggerer in alive for failure in triggerer.event_loop.failures] == []
        assert self.drivers.violations == []
        assert self.cluster.excesses == []

    def run_until(self, is_reached: Callable[[], object], limit_s: float = 300) -> None:
        """Run until a condition holds."""
        with self.installed():
            for _ in range(round(limit_s)):
                if is_reached():
                    return
                self._run(1)
        raise AssertionError(f"not reached within {limit_s} s: {self.history[-20:]}")

    def has(self, text: str) -> bool:
        """Whether the history contains a text."""
        return self.count(text) > 0

    def count(self, text: str) -> int:
        """Number of the facts that contain a text."""
        return sum(text in line for line in self.history)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the product of this interpreter run in the fleet."""
        with (
            seams.installed(self.kernel, self.entropy),
            self.drivers.installed(),
            transport.installed(self.kernel, lambda host: self.masters),
        ):
            yield

    def _check(self) -> None:
        running: dict[str, SimulatedDriver] = {}
        for driver in self.drivers.all_alive():
            if driver.runs_query and not driver.is_resuming:
                name = driver.settings.job
                if name in running:
                    raise TwoDriversError(
                        f"after {self.kernel.now:g} s {running[name].name} and {driver.name} run queries"
                    )
                running[name] = driver
                age_s = self.kernel.now - driver.read_began_at
                if age_s > driver.settings.lease_timeout_s + LEASE_MARGIN.total_seconds():
                    raise TwoDriversError(f"{driver.name} runs a query {age_s:g} s after it began to read the journal")
        for check in self.checks:
            check()


class OneJobFleet(JobFleet):
    """One job, whose loop has started unless a test starts it later."""

    def __init__(
        self,
        seed: int = 1,
        shape: WorkloadShape | None = None,
        parallelism: tuple[int, int] = (1, 4),
        times: DriverTimes | None = None,
        storage: str = "s3",
        *,
        starts: bool = True,
        **options: object,
    ) -> None:
        super().__init__(seed, times, storage)
        self.job = FleetJob(self, JOB, parallelism, shape or WorkloadShape(), **{**OPTIONS, **options})
        self.jobs[JOB] = self.job
        self.model, self.store = self.job.model, self.job.store
        if starts:
            self.job.start_loop()

    @property
    def driver(self) -> SimulatedDriver:
        """The newest driver."""
        return self.drivers.started[-1]

    @property
    def state(self) -> str:
        """Name of the state of the scheduler."""
        return self.job.state

    def runs_with(self, executors: int) -> Callable[[], bool]:
        """Return a condition: queries run on that number of slots, and the scheduler knows it."""
        return lambda: (
            self.job.runs_on == executors
            and len(self.drivers.with_queries(JOB)) == 1
            and len(self.cluster.executors(self.drivers.with_queries(JOB)[0].submission_id)) == executors
        )

    def lose_worker_of_driver(self) -> None:
        """The worker of the newest driver loses its connection to the master. Its processes continue to run."""
        worker = self.cluster._drivers[self.driver.submission_id].worker
        assert worker is not None
        self.cluster.lose_worker(worker.worker_id)
