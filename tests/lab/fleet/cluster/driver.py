"""One simulated driver: the real `Driver` with its driver loop, fence, journal reader, status reporter and watchdog, over simulated processes.

Only Spark is replaced: the session, the executors and the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow_adaptive._core.protocol.conf import DriverSettings, read_settings
from airflow_adaptive._core.protocol.documents import Directive, DriverState
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED
from airflow_adaptive.job.control.fence import boot_time
from airflow_adaptive.job.control.interfaces import DirectiveSource
from airflow_adaptive.job.entry import driver as driver_module
from airflow_adaptive.job.entry.driver import OUTPUT_TIMEOUT_S, DriverRuntime
from tests.lab.fleet.cluster import host
from tests.lab.fleet.cluster.checkpoint import SimulatedCheckpoint
from tests.lab.fleet.cluster.cluster import SimulatedCluster
from tests.lab.fleet.cluster.executors import SimulatedBalancer, SimulatedExecutors
from tests.lab.fleet.cluster.host import DriverHost, current_host
from tests.lab.fleet.cluster.job_model import JobModel
from tests.lab.fleet.cluster.workload import SimulatedOperation, SimulatedWorkload
from tests.lab.fleet.kernel.kernel import Action, Kernel
from tests.lab.fleet.storage.driver_directory import SimulatedDriverDirectory
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage

SPARK_VERSION = "4.3.0"

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

    def __init__(self, directory: SimulatedDriverDirectory, processes: DriverHost) -> None:
        """Refer to the directory."""
        self._directory = directory
        self._processes = processes
        self._in_jvm = processes.in_jvm

    def of_standby(self) -> JvmDirectory:
        """See `HadoopJobDirectory`."""
        return JvmDirectory(self._directory.of_standby(), self._processes)

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


class ObservedJournal:
    """A journal that records when its newest successful read began."""

    def __init__(self, journal: DirectiveSource, driver: SimulatedDriver, kernel: Kernel) -> None:
        """Observe a journal for a driver."""
        self._journal = journal
        self._driver = driver
        self._kernel = kernel

    def newest(self) -> Directive | None:
        """See `DirectiveSource`."""
        began_at = self._kernel.now
        directive = self._journal.newest()
        if directive is not None:
            self._driver.read_began_at = began_at
        return directive


class SimulatedDriver:
    """The processes of one driver, and what runs in them.

    Attributes:
        submission_id: id of the submission.
        settings: settings from the submission.
        processes: host of the JVM, the Python process and the watchdog, which a scenario can freeze, suspend and kill.
        read_began_at: virtual time at which the newest read of the journal that has named a driver began, in seconds.
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
        self.processes = DriverHost(kernel, name, drift=drift, record=record, on_exit=self._exited)
        self.read_began_at = kernel.now
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
    def is_resuming(self) -> bool:
        """Whether the host has just been resumed, so that the driver may not have noticed the end of its lease."""
        return self._model.is_resuming

    @property
    def slots(self) -> int:
        """Slots of the executors that have registered."""
        return self._executors.slots()

    def suspend(self) -> Action:
        """Suspend the host of the driver. Return the function that resumes the host."""
        resume = self.processes.suspend()

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
        session: Any = SimpleNamespace(
            version=SPARK_VERSION,
            sparkContext=SimpleNamespace(applicationId=application_id, uiWebUrl=None),
            process=SimpleNamespace(jvm=self.processes.jvm.pid, exit=self._exit_at_once),
            directory=JvmDirectory(self._directory, self.processes),
            executors=self._executors,
        )
        try:
            driver = DriverRuntime(session, self.settings)
            driver.journal = ObservedJournal(driver.journal, self, self._kernel)
            self.end = driver.run(self._workload)
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

    def _exit_at_once(self, code: int, message: str) -> None:
        """End the processes like `DriverProcess.exit`, which waits as long as it may. Does not return."""
        self._kernel.sleep(OUTPUT_TIMEOUT_S)
        self._exit(code, message)

    def _exit(self, code: int, message: str) -> None:
        """End the processes. Does not return."""
        self._record(f"exit {code}: {message}")
        self.processes.exit(code)
        self._kernel.hang()

    def _exited(self, code: int | None) -> None:
        self.ended_at = self._kernel.now
        self._record(f"{self.name} has ended" if code is not None else f"{self.name} was killed")
        self._kernel.after(0.1, lambda: self._cluster.exited(self.submission_id, code))


@contextmanager
def installed(
    kernel: Kernel, submissions: Callable[[DriverHost], str], record: Callable[[str], None]
) -> Iterator[None]:
    """Let the real `Driver` use the simulated processes of the current host.

    Args:
        kernel: the kernel.
        submissions: returns the submission id of the driver of a host.
        record: records the warnings.
    """
    environ = SimpleNamespace(get=lambda name: submissions(current_host(kernel)))
    clock = SimpleNamespace(sleep=lambda seconds: current_host(kernel).sleep(seconds), monotonic=boot_time)
    replacements: dict[str, Any] = {
        "DriverProcess": lambda spark: spark.process,
        "HadoopJobDirectory": lambda spark, _: spark.directory,
        "JournalFolder": lambda directory, clock: SimpleNamespace(wait=lambda seconds, sleep: sleep(seconds)),
        "SparkExecutorPool": lambda spark, **_: spark.executors,
        "SparkPlacement": lambda spark, **_: None,
        "LocalityBalancer": lambda placement, clock: SimulatedBalancer(),
        "Sigterm": lambda spark: SimpleNamespace(catch=list, let_pass=list, is_requested=lambda: False),
        "separate_task_ids": lambda spark, epoch: None,
        "unused_archive": lambda spark: None,
        "OperationThread": partial(SimulatedOperation, kernel),
        "os": SimpleNamespace(environ=environ),
        "time": clock,
        "log": SimpleNamespace(warning=record),
    }
    with ExitStack() as stack:
        stack.enter_context(host.installed(kernel))
        for name, replacement in replacements.items():
            stack.enter_context(patch.object(driver_module, name, replacement))
        yield
