"""The host of one driver: its JVM, its Python process and its watchdog process, and the calls of an operating system that the watchdog makes.

The real `LeaseWatchdog` and the real program of the watchdog process run on it, with pipes, signals and `select` in virtual time. A host can be suspended. Its
boot clock then continues, and the timeouts of `select` and `sleep` do not.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

from airflow_adaptive.job.control import fence, watchdog_process
from tests.lab.fleet.kernel.kernel import Action, Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess

Result = TypeVar("Result")

JVM_EXIT_S = 1.0
"""Time in seconds until the JVM ends after the Python process was killed."""

INIT = 1
"""Parent of a process whose parent has ended."""

ROUNDING_S = 1e-9
"""Part of a sleep that rounding may leave over, in seconds."""

SHORTEST_S = 1e-6
"""Shortest wait for input, in seconds, so that time passes."""


class Pipe:
    """A pipe from one process to another.

    Attributes:
        wake_reader: continues the reader if it waits.
    """

    def __init__(self, writer: SimulatedProcess) -> None:
        self.writer = writer
        self.data = b""
        self.is_closed = False
        self.wake_reader: Action = lambda: None

    @property
    def is_readable(self) -> bool:
        """Whether there are data, or no process can write any more."""
        return bool(self.data) or self.is_closed or not self.writer.is_alive


class HostProcess(SimulatedProcess):
    """A process with a host, an id, a parent and a standard input."""

    def __init__(self, host: DriverHost, name: str, drift: float, parent: HostProcess | None, stdin: Pipe) -> None:
        super().__init__(host.kernel, name, drift=drift)
        self.host = host
        self.pid = 100 + len(host.processes)
        self.parent = parent
        self.stdin = stdin


class DriverHost:
    """A host that runs the processes of one driver.

    Attributes:
        jvm: process of the session and of the queries.
        python: process of the driver loop; its parent is the JVM, as `spark-submit` starts them.
        processes: all processes by their ids, the watchdog process among them.
    """

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        *,
        drift: float,
        record: Callable[[str], None],
        on_exit: Callable[[int | None], object],
    ) -> None:
        """Start the JVM and the Python process.

        Args:
            kernel: the kernel.
            name: name of the driver in the history.
            drift: part by which the clocks of the host are fast.
            record: records what happens.
            on_exit: called once when the JVM has ended, with its exit code, None after a signal.
        """
        self.kernel = kernel
        self.processes: dict[int, HostProcess] = {}
        self._drift = drift
        self._record = record
        self._on_exit = on_exit
        self._pipes: dict[int, Pipe] = {}
        self._suspended_s = 0.0
        self.jvm = self._start(f"{name} JVM")
        self.python = self._start(name, parent=self.jvm)

    @property
    def is_alive(self) -> bool:
        """Whether the JVM lives, in which queries may run."""
        return self.jvm.is_alive

    def in_jvm(self, act: Callable[[], Result]) -> Result:
        """Run a function in the JVM, for the current thread of the Python process, which waits for the result (Py4J)."""
        caller = self.kernel.process
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
        self.kernel.process = process
        if process is not None and (process.is_frozen or not process.is_alive):
            self.kernel.sleep(0.0)

    def sleep(self, seconds: float, begin: Callable[[Action], object] = lambda wake: None) -> None:
        """Block the current thread for a time of the clock that stops while the host is suspended, or until something wakes the thread up.

        Args:
            seconds: the time.
            begin: gets the function that wakes the thread up.
        """
        end, is_woken = self.kernel.now - self._suspended_s + seconds, False
        process = self.kernel.process

        def plan(wake_up: Action) -> None:
            def wake() -> None:
                nonlocal is_woken
                is_woken = True
                wake_up()

            begin(wake)
            self.kernel.at(end + self._suspended_s, wake_up, process)

        while not is_woken and self.kernel.now - self._suspended_s < end - ROUNDING_S:
            self.kernel.block(plan)

    # ---- ends and interruptions -------------------------------------------------------------------------------------

    def exit(self, code: int | None) -> None:
        """End the JVM and the Python process, with an exit code, or None after a signal."""
        self._end(self.python)
        if self.jvm.is_alive:
            self._end(self.jvm)
            self._on_exit(code)

    def kill(self) -> None:
        """Kill the JVM and the Python process."""
        self.exit(None)

    def kill_python(self) -> None:
        """Kill only the Python process. The JVM ends some time later, and its queries run until then."""
        self._end(self.python)
        self.kernel.after(JVM_EXIT_S, self.kill, self.jvm)

    def freeze_python(self) -> Action:
        """Freeze the Python process. Return the function that resumes the process."""
        return _freeze([self.python])

    def freeze(self) -> Action:
        """Freeze the JVM and the Python process. Return the function that resumes both."""
        return _freeze([self.jvm, self.python])

    def suspend(self) -> Action:
        """Suspend the host, with all its processes. Return the function that resumes the host; processes that were frozen before stay frozen."""
        suspended_at = self.kernel.now
        resume = _freeze([process for process in self.processes.values() if not process.is_frozen])

        def end() -> None:
            self._suspended_s += self.kernel.now - suspended_at
            resume()

        return end

    def _start(self, name: str, *, parent: HostProcess | None = None, stdin: Pipe | None = None) -> HostProcess:
        process = HostProcess(self, name, self._drift, parent, stdin or Pipe(SimulatedProcess(self.kernel, "terminal")))
        self.processes[process.pid] = process
        return process

    def _end(self, process: HostProcess) -> None:
        """End a process; the readers of its pipes see their end."""
        process.kill()
        for pipe in self._pipes.values():
            pipe.wake_reader()

    # ---- the calls of the watchdog ----------------------------------------------------------------------------------

    def pipe(self) -> tuple[int, int]:
        """See `os.pipe`."""
        number = 10 * (1 + len(self._pipes))
        self._pipes[number] = Pipe(_current(self.kernel))
        return number, number + 1

    def write(self, descriptor: int, data: bytes) -> None:
        """See `os.write`."""
        pipe = self._pipes[descriptor - 1]
        if not any(process.stdin is pipe and process.is_alive for process in self.processes.values()):
            raise BrokenPipeError
        pipe.data += data
        pipe.wake_reader()

    def close(self, descriptor: int) -> None:
        """See `os.close`; the end of the reader is not closed."""
        if (pipe := self._pipes.get(descriptor - 1)) is not None:
            pipe.is_closed = True
            pipe.wake_reader()

    def read(self, descriptor: int, size: int) -> bytes:
        """See `os.read`, from the standard input."""
        pipe = _current(self.kernel).stdin
        data, pipe.data = pipe.data, b""
        return data

    def select(
        self, inputs: Sequence[int], _: object, __: object, seconds: float
    ) -> tuple[list[int], list[int], list[int]]:
        """See `select.select`, for the standard input."""
        pipe = _current(self.kernel).stdin
        if not (inputs and pipe.is_readable):
            self.sleep(
                max(seconds, SHORTEST_S), lambda wake: setattr(pipe, "wake_reader", wake if inputs else lambda: None)
            )
        return list(inputs) if inputs and pipe.is_readable else [], [], []

    def popen(self, command: Sequence[str], *, stdin: int, **options: object) -> Any:
        """See `subprocess.Popen`: start the program of the watchdog process."""
        child = self._start(f"{self.python.name} watchdog", parent=_current(self.kernel), stdin=self._pipes[stdin])
        jvm, python, output = command[-3:]
        child.soon(lambda: self.kernel.start_thread(lambda: watchdog_process.main(int(jvm), int(python), output)))
        return SimpleNamespace(kill=lambda: self._end(child), wait=lambda timeout_s: 0)

    def send_signal(self, pid: int, number: int) -> None:
        """See `os.kill`."""
        process = self.processes[pid]
        if not process.is_alive:
            raise ProcessLookupError
        if number == signal.SIGKILL:
            self._end(process)
            if process is self.jvm:
                self._record("the lease has expired: the watchdog kills the driver")
                self._on_exit(None)

    def pid_of_current(self) -> int:
        """See `os.getpid`."""
        return _current(self.kernel).pid

    def parent_of_current(self) -> int:
        """See `os.getppid`."""
        parent = _current(self.kernel).parent
        return parent.pid if parent is not None and parent.is_alive else INIT


def _freeze(processes: Sequence[SimulatedProcess]) -> Action:
    for process in processes:
        process.freeze()

    def resume() -> None:
        for process in processes:
            process.resume()

    return resume


def _current(kernel: Kernel) -> HostProcess:
    process = kernel.process
    assert isinstance(process, HostProcess)
    return process


def current_host(kernel: Kernel) -> DriverHost:
    """Return the host of the current process."""
    return _current(kernel).host


@contextmanager
def installed(kernel: Kernel) -> Iterator[None]:
    """Let the watchdog and its process call the host of the current process instead of the operating system."""

    def calls(**methods: str) -> SimpleNamespace:
        def call(method: str) -> Callable[..., Any]:
            def on_current(*args: Any, **options: Any) -> Any:
                return getattr(current_host(kernel), method)(*args, **options)

            return on_current

        return SimpleNamespace(**{name: call(method) for name, method in methods.items()})

    of_driver = calls(pipe="pipe", write="write", close="close", getpid="pid_of_current")
    of_driver.set_blocking = lambda descriptor, is_blocking: None
    of_watchdog = calls(read="read", kill="send_signal", getppid="parent_of_current")
    of_watchdog.path = SimpleNamespace(isfile=lambda path: False)
    subprocess = calls(Popen="popen")
    subprocess.DEVNULL, subprocess.TimeoutExpired = os.devnull, TimeoutExpired
    with ExitStack() as stack:
        for module, name, replacement in (
            (fence, "os", of_driver),
            (fence, "subprocess", subprocess),
            (watchdog_process, "os", of_watchdog),
            (watchdog_process, "select", calls(select="select")),
        ):
            stack.enter_context(patch.object(module, name, replacement))
        yield
