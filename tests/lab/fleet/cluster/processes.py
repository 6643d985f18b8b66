"""The processes of one driver: the JVM, the Python process of the script, and the watchdog process."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from airflow_adaptive.job.control.watchdog import WATCHDOG_GRACE_S
from airflow_adaptive.job.control.watchdog_process import CHECK_INTERVAL_S
from tests.lab.fleet.kernel.kernel import Action, Event, Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess

Result = TypeVar("Result")

JVM_EXIT_S = 1.0
"""Time in seconds until the JVM ends after the Python process was killed."""


class DriverProcesses:
    """The processes of one driver, which share a host.

    Attributes:
        jvm: process of the session and of the queries.
        python: process of the driver loop.
    """

    def __init__(self, kernel: Kernel, name: str, *, drift: float, on_exit: Callable[[int | None], object]) -> None:
        """Start the processes.

        Args:
            kernel: the kernel.
            name: name of the driver in the history.
            drift: part by which the clocks of the host are fast.
            on_exit: called once when the JVM has ended, with its exit code, None after a signal.
        """
        self.jvm = SimulatedProcess(kernel, f"{name} JVM", drift=drift)
        self.python = SimulatedProcess(kernel, name, drift=drift)
        self._kernel = kernel
        self._on_exit = on_exit

    @property
    def is_alive(self) -> bool:
        """Whether the JVM lives, in which queries may run."""
        return self.jvm.is_alive

    def in_jvm(self, act: Callable[[], Result]) -> Result:
        """Run a function in the JVM, for the current thread of the Python process, which waits for the result (Py4J)."""
        caller = self._kernel.process
        self._continue_in(self.jvm)
        try:
            result = act()
        except Exception:
            self._continue_in(caller)
            raise
        self._continue_in(caller)
        return result

    def _continue_in(self, process: SimulatedProcess | None) -> None:
        """Continue the current thread in a process; if the process is frozen or dead, block until it is resumed."""
        self._kernel.process = process
        if process is not None and (process.is_frozen or not process.is_alive):
            self._kernel.sleep(0.0)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def exit(self, code: int | None) -> None:
        """End both processes, with an exit code, or None after a signal."""
        self.python.kill()
        if self.jvm.is_alive:
            self.jvm.kill()
            self._on_exit(code)

    def kill(self) -> None:
        """Kill both processes."""
        self.exit(None)

    def kill_python(self) -> None:
        """Kill only the Python process. The JVM ends some time later, and its queries run until then."""
        self.python.kill()
        self._kernel.after(JVM_EXIT_S, self.kill, self.jvm)

    # ---- interruptions ----------------------------------------------------------------------------------------------

    def freeze_python(self) -> Action:
        """Freeze the Python process. Return the function that resumes the process."""
        return _freeze(self.python)

    def freeze_jvm(self) -> Action:
        """Freeze the JVM. Return the function that resumes the JVM."""
        return _freeze(self.jvm)

    def freeze(self) -> Action:
        """Freeze the JVM and the Python process. Return the function that resumes both."""
        resume = [_freeze(self.jvm), _freeze(self.python)]
        return lambda: [each() for each in resume]


def _freeze(process: SimulatedProcess) -> Action:
    process.freeze()
    return process.resume


class SimulatedWatchdog:
    """The watchdog of a driver: a process of its own with the rule and the constants of `watchdog_process`.

    Attributes:
        process: watchdog process.
    """

    def __init__(self, kernel: Kernel, processes: DriverProcesses, record: Callable[[str], None]) -> None:
        """Start the watchdog process, which enforces no lease."""
        self.process = SimulatedProcess(kernel, f"{processes.python.name} watchdog")
        self._kernel = kernel
        self._processes = processes
        self._record = record
        self._limit = math.inf
        self._expiry: Event | None = None

    @property
    def is_enforcing(self) -> bool:
        """Whether the lease is enforced, because a query may be running."""
        return self._limit < math.inf

    def enforce(self, lease_end: float) -> None:
        """Enforce a lease until the next call, or no lease if it ends never."""
        self.close()
        self._limit = lease_end + WATCHDOG_GRACE_S
        if self.is_enforcing:
            delay_s = self._limit - self._processes.python.elapsed()
            self._expiry = self._kernel.after(max(delay_s, 0.0), self._expire, self.process)

    def close(self) -> None:
        """Enforce no lease any more."""
        self._limit = math.inf
        if self._expiry is not None:
            self._expiry.cancel()

    def _expire(self) -> None:
        if self._processes.is_alive:
            self._record("the lease has expired: the watchdog kills the driver")
            self._processes.kill()


def suspend(kernel: Kernel, processes: DriverProcesses, watchdog: SimulatedWatchdog) -> Action:
    """Suspend the host of a driver. Return the function that resumes the host; the watchdog checks its clock some time later."""
    resume, resume_watchdog = processes.freeze(), _freeze(watchdog.process)

    def end() -> None:
        resume()
        kernel.after(CHECK_INTERVAL_S, resume_watchdog)

    return end
