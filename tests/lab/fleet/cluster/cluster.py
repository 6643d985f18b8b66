"""The cluster of the fleet simulator: a fake cluster whose drivers are processes that start and end in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from airflow_adaptive._core.ports import DriverSubmission, SubmissionState
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.coroutines import result_of
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Action, Kernel

KILL_S = (0.1, 2.0)


class SimulatedCluster(FakeCluster):
    """Workers, drivers and executors, as the leading master knows them.

    Attributes:
        kill_s: bounds of the time from the request to kill a driver to the end of its processes, in seconds.
        on_kill: kills the processes of a driver, whose submission ID is the argument; set by `Drivers`.
        registration_delay_s: additional time from the grant of an executor to its registration, in seconds.
        excesses: uses of slots that do not exist.
    """

    def __init__(
        self, kernel: Kernel, entropy: Entropy, record: Callable[[str], None], on_launch: Callable[[str], object]
    ) -> None:
        """Create a cluster without workers.

        Args:
            kernel: the kernel.
            entropy: source of the durations.
            record: records what happens.
            on_launch: called when a driver starts on a worker, with the submission ID.
        """
        super().__init__(worker_url=lambda number: f"http://worker-{number + 1}:8081", on_launch=on_launch)
        self.on_kill: Callable[[str], object] = lambda submission_id: None
        self.kill_s = KILL_S
        self.registration_delay_s = 0.0
        self.excesses: list[str] = []
        self._without_worker: set[str] = set()
        """Submission IDs of the drivers that run although the master has lost their workers."""
        self._kernel = kernel
        self._random = entropy.random("kills of drivers")
        self._record = record
        self._disconnections = 0
        self._addresses: dict[str, str] = {}

    # ---- the view of the drivers ------------------------------------------------------------------------------------

    def is_known(self, submission_id: str) -> bool:
        """Return whether the master knows that a driver runs."""
        return self.states.get(submission_id) is SubmissionState.RUNNING

    def serves(self, submission_id: str) -> bool:
        """Return whether the master gives executors to a driver that runs, also after the loss of the worker of the driver."""
        return self.is_known(submission_id) or submission_id in self._without_worker

    def is_connected(self, submission_id: str) -> bool:
        """Return whether a driver reaches the master."""
        return not self._disconnections and self.serves(submission_id)

    def address_of(self, worker_id: str) -> str:
        """Return the address of a worker, also after its loss."""
        return self._addresses[worker_id]

    def exited(self, submission_id: str, code: int | None) -> None:
        """A driver has ended, with its exit code, None after a signal. A worker reports it, or the master loses the application."""
        if submission_id in self._without_worker:
            self._without_worker.remove(submission_id)
            self._end_application(submission_id)
            self._schedule()
        elif code == 0:
            self.finish_driver(submission_id)
        elif code is not None:
            self.kill_driver(submission_id)
        else:
            self._end(submission_id, SubmissionState.KILLED)

    # ---- requests and faults ----------------------------------------------------------------------------------------

    async def kill(self, submission_id: str) -> None:
        """Kill a driver some time later; see `ClusterClient`."""
        if self.is_known(submission_id):
            self._kernel.after(self._random.uniform(*self.kill_s), lambda: self.on_kill(submission_id))
        else:
            await super().kill(submission_id)

    def add_worker(self, cores: int = 1, memory_mb: int = 1024) -> str:
        """See `FakeCluster`."""
        worker_id = super().add_worker(cores, memory_mb)
        self._addresses[worker_id] = self.worker_address(worker_id)
        self._record(f"{worker_id} added with {cores} cores")
        return worker_id

    def lose_worker(self, worker_id: str) -> None:
        """The master loses a worker. The executors on the worker end; a driver on the worker keeps its application until it ends."""
        self._record(f"{worker_id} lost")
        self._without_worker |= self.drivers_on(worker_id)
        self.kill_worker(worker_id)

    def drivers_on(self, worker_id: str) -> set[str]:
        """Return the submission IDs of the running drivers on a worker."""
        running = {name: driver.worker for name, driver in self._drivers.items() if self.is_known(name)}
        return {name for name, worker in running.items() if worker is not None and worker.worker_id == worker_id}

    def add_foreign_load(self, cores: int, memory_mb: int) -> Action:
        """Submit a driver of another program. Return the function that ends the driver."""
        submission = DriverSubmission(
            name="foreign", epoch=0, nonce="", script="foreign.py", driver_cores=cores, driver_memory_mb=memory_mb
        )
        submission_id = result_of(self.create_driver(submission))
        return lambda: self.kill_driver(submission_id)

    def disconnect_drivers(self) -> Action:
        """Let no driver reach the master. Return the function that ends the fault."""
        self._disconnections += 1

        def end() -> None:
            self._disconnections -= 1

        return end

    def late_executors(self, seconds: float) -> Action:
        """Let new executors register some seconds later, for example because their containers start slowly. Return the end of the fault."""
        self.registration_delay_s += seconds

        def end() -> None:
            self.registration_delay_s -= seconds

        return end

    def _schedule(self) -> None:
        super()._schedule()
        for worker in self._workers.values():
            used, cores = self._used_cores(worker.worker_id), worker.total.cpu_millicores // 1000
            if used > cores:
                self.excesses.append(f"drivers and executors use {used} of {cores} cores of {worker.worker_id}")

    def _used_cores(self, worker_id: str) -> int:
        """Return the cores of the drivers and executors on a worker."""
        drivers = sum(self.submissions[name].driver_cores for name in self.drivers_on(worker_id))
        placed = ((it.cores, list(it.placed.values()).count(worker_id)) for it in self._applications())
        return drivers + sum(cores * count for cores, count in placed)

    def _end_application(self, submission_id: str) -> None:
        if submission_id not in self._without_worker:
            super()._end_application(submission_id)
