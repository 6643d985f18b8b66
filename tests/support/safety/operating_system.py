"""The part of an operating system that the watchdog uses, in virtual time: processes, pipes, signals and `select`.

The real `LeaseWatchdog` and the real program of the watchdog process run on it. A host can be suspended. Its boot clock then continues, and the timeouts
of `select` and `sleep` do not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow_adaptive.job.control import watchdog, watchdog_process
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess

ROUNDING_S = 1e-9

INIT = 1
"""Parent of a process whose parent has ended."""


class Pipe:
    """A pipe from one process to another."""

    def __init__(self, writer: SimulatedProcess) -> None:
        self.writer = writer
        self.data = b""
        self.is_closed = False
        self.wake_reader: Callable[[], object] = lambda: None

    @property
    def is_readable(self) -> bool:
        return bool(self.data) or self.is_at_end

    @property
    def is_at_end(self) -> bool:
        return self.is_closed or not self.writer.is_alive


class HostProcess(SimulatedProcess):
    """A process with an id, a parent and a standard input."""

    def __init__(self, kernel: Kernel, name: str, pid: int, parent: HostProcess | None, stdin: Pipe | None) -> None:
        super().__init__(kernel, name)
        self.pid = pid
        self.parent = parent
        self.stdin = stdin


class OperatingSystem:
    """One host, which runs the processes of one driver."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.processes: dict[int, HostProcess] = {}
        self.pipes: dict[int, Pipe] = {}
        self.suspended_s = 0.0

    def start(self, name: str, *, stdin: Pipe | None = None, parent: HostProcess | None = None) -> HostProcess:
        pid = 100 + len(self.processes)
        self.processes[pid] = HostProcess(self.kernel, f"{name} on {self.name}", pid, parent, stdin)
        return self.processes[pid]

    def kill(self, pid: int) -> None:
        """Kill a process; the readers of its pipes see their end."""
        self.processes[pid].kill()
        for pipe in self.pipes.values():
            pipe.wake_reader()

    def suspend(self, seconds: float) -> None:
        """Suspend the host now, and resume it later. Frozen processes stay frozen."""
        running = [process for process in self.processes.values() if not process.is_frozen]
        for process in running:
            process.freeze()

        def resume() -> None:
            self.suspended_s += seconds
            for process in running:
                process.resume()

        self.kernel.after(seconds, resume)

    def monotonic(self) -> float:
        """The clock that stops while the host is suspended."""
        return self.kernel.now - self.suspended_s

    def wait(self, seconds: float, begin: Callable[[Callable[[], object]], object] = lambda wake: None) -> None:
        """Block the current thread for a time of the monotonic clock, or until something wakes the thread up."""
        end, is_woken = self.monotonic() + seconds, False
        process = self.kernel.process

        def plan(wake_up: Callable[[], object]) -> None:
            def wake() -> None:
                nonlocal is_woken
                is_woken = True
                wake_up()

            begin(wake)
            self.kernel.after(end - self.monotonic(), wake_up, process)

        while not is_woken and self.monotonic() < end - ROUNDING_S:
            self.kernel.block(plan)

    # ---- the calls of the watchdog ----------------------------------------------------------------------------------

    def pipe(self) -> tuple[int, int]:
        number = 10 * (1 + len(self.pipes))
        self.pipes[number] = Pipe(self.current)
        return number, number + 1

    def write(self, descriptor: int, data: bytes) -> None:
        pipe = self.pipes[descriptor - 1]
        if not any(process.stdin is pipe and process.is_alive for process in self.processes.values()):
            raise BrokenPipeError
        pipe.data += data
        pipe.wake_reader()

    def close(self, descriptor: int) -> None:
        if (pipe := self.pipes.get(descriptor - 1)) is not None:  # not the end of the reader
            pipe.is_closed = True
            pipe.wake_reader()

    def read(self, descriptor: int, size: int) -> bytes:
        pipe = self._stdin
        data, pipe.data = pipe.data, b""
        return data

    def select(self, inputs: Sequence[int], seconds: float) -> list[int]:
        if not inputs:
            self.wait(seconds)
            return []
        pipe = self._stdin

        def begin(wake: Callable[[], object]) -> None:
            pipe.wake_reader = wake

        if not pipe.is_readable:
            self.wait(seconds, begin)
        return list(inputs) if pipe.is_readable else []

    def popen(self, command: Sequence[str], stdin: int) -> Any:
        """Start the program of the watchdog process."""
        child = self.start("watchdog", stdin=self.pipes[stdin], parent=self.current)
        jvm, python, output = command[-3:]
        child.soon(lambda: self.kernel.start_thread(lambda: watchdog_process.main(int(jvm), int(python), output)))
        return SimpleNamespace(kill=lambda: self.kill(child.pid), wait=lambda timeout_s: 0)

    def send_signal(self, pid: int, number: int) -> None:
        if not self.processes[pid].is_alive:
            raise ProcessLookupError
        if number:
            self.kill(pid)

    def pid_of_current(self) -> int:
        return self.current.pid

    def parent_of_current(self) -> int:
        parent = self.current.parent
        return parent.pid if parent is not None and parent.is_alive else INIT

    @property
    def current(self) -> HostProcess:
        process = self.kernel.process
        assert isinstance(process, HostProcess)
        return process

    @property
    def _stdin(self) -> Pipe:
        assert self.current.stdin is not None
        return self.current.stdin


class Hosts:
    """The hosts of all drivers. A call reaches the host of the process that makes the call."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._hosts: list[OperatingSystem] = []

    def add(self, name: str) -> OperatingSystem:
        self._hosts.append(OperatingSystem(self.kernel, name))
        return self._hosts[-1]

    @property
    def current(self) -> OperatingSystem:
        return next(host for host in self._hosts if self.kernel.process in host.processes.values())

    def boot_time(self) -> float:
        return self.kernel.now

    def sleep(self, seconds: float) -> None:
        self.current.wait(seconds)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the watchdog and its process call these hosts instead of the operating system."""
        of_driver = self._calls({"pipe": "pipe", "write": "write", "close": "close", "getpid": "pid_of_current"})
        of_driver.set_blocking = lambda descriptor, is_blocking: None
        of_watchdog = self._calls({"read": "read", "kill": "send_signal", "getppid": "parent_of_current"})
        of_watchdog.path = SimpleNamespace(isfile=lambda path: False)
        popen = SimpleNamespace(
            Popen=lambda command, stdin, **_: self.current.popen(command, stdin),
            DEVNULL=os.devnull,
            TimeoutExpired=TimeoutExpired,
        )
        selects = SimpleNamespace(select=lambda inputs, _, __, timeout: [self.current.select(inputs, timeout), [], []])
        clock = SimpleNamespace(clock_gettime=lambda _: self.boot_time(), CLOCK_MONOTONIC=time.CLOCK_MONOTONIC)
        seams = [(watchdog, "os", of_driver), (watchdog, "subprocess", popen), (watchdog_process, "os", of_watchdog)]
        seams += [(watchdog_process, "select", selects), (watchdog_process, "time", clock)]
        with ExitStack() as stack:
            for module, name, replacement in seams:
                stack.enter_context(patch.object(module, name, replacement))
            yield

    def _calls(self, names: dict[str, str]) -> SimpleNamespace:
        """Return functions that call the methods of the current host, by their names in the module `os`."""

        def call(method: str) -> Callable[..., Any]:
            def on_current(*args: Any) -> Any:
                return getattr(self.current, method)(*args)

            return on_current

        return SimpleNamespace(**{name: call(method) for name, method in names.items()})
