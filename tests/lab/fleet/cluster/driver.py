"""One simulated driver: the real driver loop with its fence, journal reader and status reporter, over simulated processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from airflow_adaptive._core.protocol.conf import DriverSettings, read_settings
from airflow_adaptive._core.protocol.documents import FORMATS, DriverState, DriverStatus
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED, run_driver
from airflow_adaptive.job.control.driver_status import FileStatusReporter
from airflow_adaptive.job.control.interfaces import DriverInterfaces
from airflow_adaptive.job.control.journal_reader import JournalReader
from tests.lab.fleet.cluster.checkpoint import SimulatedCheckpoint
from tests.lab.fleet.cluster.cluster import SimulatedCluster
from tests.lab.fleet.cluster.executors import SimulatedBalancer, SimulatedExecutors
from tests.lab.fleet.cluster.job_model import JobModel
from tests.lab.fleet.cluster.processes import DriverProcesses, SimulatedWatchdog, suspend
from tests.lab.fleet.cluster.workload import SimulatedOperation, SimulatedWorkload
from tests.lab.fleet.kernel.kernel import Action, Kernel
from tests.lab.fleet.storage.driver_directory import SimulatedDriverDirectory
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage

Result = TypeVar("Result")

REGISTRATION_ATTEMPTS = 3
REGISTRATION_INTERVAL_S = 20.0
"""Attempts of an application to register with the master (`StandaloneAppClient`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTimes:
    """Bounds of durations, in seconds, from which each driver draws its own.

    Attributes:
        boot_s: from the launch of the driver by a worker to its session.
        registration_s: from the grant of an executor to its registration.
        exit_s: from the end of the driver loop to the end of the processes.
        drift: part by which the clocks of the host are fast or slow.
    """

    boot_s: tuple[float, float] = (2.0, 6.0)
    registration_s: tuple[float, float] = (0.5, 3.0)
    exit_s: tuple[float, float] = (0.2, 2.0)
    drift: float = 1e-4


class JvmDirectory:
    """A job directory that the Python process reaches through its JVM."""

    def __init__(self, directory: SimulatedDriverDirectory, processes: DriverProcesses) -> None:
        """Refer to the directory."""
        self._directory = directory
        self._in_jvm = processes.in_jvm

    def journal_numbers(self) -> list[int]:
        """See `HadoopJobDirectory`."""
        return self._in_jvm(self._directory.journal_numbers)

    def read_journal(self, number: int) -> bytes | None:
        """See `HadoopJobDirectory`."""
        return self._in_jvm(lambda: self._directory.read_journal(number))

    def read_status(self) -> bytes | None:
        """See `HadoopJobDirectory`."""
        return self._in_jvm(self._directory.read_status)

    def write_status(self, data: bytes) -> None:
        """See `HadoopJobDirectory`."""
        self._in_jvm(lambda: self._directory.write_status(data))


class SimulatedDriver:
    """The processes of one driver, and what runs in them.

    Attributes:
        submission_id: id of the submission.
        settings: settings from the submission.
        processes: JVM and Python process, which a scenario can freeze and kill.
        watchdog: watchdog process.
        end: state in which the driver loop has ended, None before.
        launched_at: virtual time of the launch by the worker, in seconds.
        ended_at: virtual time of the end of the JVM, in seconds, None before.
    """

    def __init__(
        self,
        kernel: Kernel,
        random: Random,
        record: Callable[[str], None],
        cluster: SimulatedCluster,
        submission_id: str,
        *,
        storage: SimulatedStorage,
        model: JobModel,
        times: DriverTimes,
    ) -> None:
        """Start the processes of a submission that a worker has launched."""
        self.submission_id = submission_id
        self.settings: DriverSettings = read_settings(cluster.submissions[submission_id].conf.get)
        drift = random.uniform(-times.drift, times.drift)
        name = f"driver-{self.settings.epoch}@{self.settings.job}"
        self.processes = DriverProcesses(kernel, name, drift=drift, on_exit=self._exited)
        self.watchdog = SimulatedWatchdog(kernel, self.processes, record)
        self.end: DriverState | None = None
        self.launched_at = kernel.now
        self.ended_at: float | None = None
        self._kernel = kernel
        self._random = random
        self._record = record
        self._cluster = cluster
        self._storage = storage
        self._model = model
        self._times = times
        self._directory = SimulatedDriverDirectory(storage, self.settings.directory)
        self._executors = SimulatedExecutors(
            kernel, cluster, submission_id, lambda: random.uniform(*times.registration_s)
        )
        checkpoint = SimulatedCheckpoint(storage, self._directory.checkpoint(self.settings.job))
        self._workload = SimulatedWorkload(kernel, model, self.processes, checkpoint, self._executors)
        kernel.after(random.uniform(*times.boot_s), lambda: kernel.start_thread(self._run), self.processes.python)

    @property
    def name(self) -> str:
        """Name of the driver in the history."""
        return self.processes.python.name

    @property
    def hosts(self) -> str:
        """Pattern of the names of the processes, for faults of the storage."""
        return f"{self.name}*"

    @property
    def runs_query(self) -> bool:
        """Whether a query can change its output now."""
        return self._workload.is_query_active

    @property
    def slots(self) -> int:
        """Slots of the executors that have registered."""
        return self._executors.slots()

    def suspend(self) -> Action:
        """Suspend the host of the driver. Return the function that resumes the host."""
        resume = suspend(self._kernel, self.processes, self.watchdog)

        def end() -> None:
            self._model.resumed_at = self._kernel.now
            resume()

        return end

    # ---- the Python process -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Run the script."""
        application_id = self._register_application()
        if application_id is None:
            self._exit(EXIT_FAILED, "no master has accepted the application")
            return
        self._record("session started")
        try:
            self.end = run_driver(
                self._identity(application_id),
                self._interfaces(),
                self.settings,
                watchdog=self.watchdog,
                exit_process=self._exit,
            )
        except Exception as error:  # noqa: BLE001  The script ends with the exception.
            self._exit(EXIT_FAILED, f"the driver loop failed: {error!r}")
        else:
            self._kernel.sleep(self._random.uniform(*self._times.exit_s))
            self._exit(EXIT_FAILED if self.end is DriverState.FAILED else 0, f"{self.end}")

    def _register_application(self) -> str | None:
        for _ in range(REGISTRATION_ATTEMPTS):
            application_id = self._executors.register_application()
            if application_id is not None:
                return application_id
            self._kernel.sleep(REGISTRATION_INTERVAL_S)
        return None

    def _interfaces(self) -> DriverInterfaces:
        clock = self.processes.python.elapsed
        directory = JvmDirectory(self._directory, self.processes)
        settings = self.settings
        return DriverInterfaces(
            journal=JournalReader(
                directory,
                job=settings.job,
                clock=clock,
                report=self._record,
                orphan_timeout_s=settings.orphan_timeout_s,
            ),
            workload=self._workload,
            executors=self._executors,
            balancer=SimulatedBalancer(),
            start_operation=lambda act: SimulatedOperation(self._kernel, act),
            reporter=FileStatusReporter(
                directory, heartbeat_interval_s=settings.heartbeat_interval_s, clock=clock, warn=self._record
            ),
            clock=clock,
            sleep=self._kernel.sleep,
            warn=self._record,
        )

    def _identity(self, application_id: str) -> DriverStatus:
        settings = self.settings
        return DriverStatus(
            job=settings.job,
            epoch=settings.epoch,
            nonce=settings.nonce,
            sequence=0,
            at="",
            state=DriverState.STARTING,
            submission_id=self.submission_id,
            application_id=application_id,
            formats=FORMATS,
        )

    def _exit(self, code: int, message: str) -> None:
        """End the processes. Does not return."""
        self._record(f"exit {code}: {message}")
        self.processes.exit(code)
        self._kernel.hang()

    def _exited(self, code: int | None) -> None:
        self.watchdog.close()
        self.ended_at = self._kernel.now
        self._record(f"{self.name} has ended" if code is not None else f"{self.name} was killed")
        self._kernel.after(0.1, lambda: self._cluster.exited(self.submission_id, code))
