"""A simulated operating-system process, with its clocks. It can be frozen and killed at any moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.lab.fleet.kernel.kernel import Action, Event, Kernel

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of day at the start of a simulation."""


class SimulatedProcess:
    """A process: the owner of events, of which it executes one at a time.

    Attributes:
        name: name of the process in the history.
        is_alive: whether the process has not been killed and has not ended.
        is_frozen: whether the process executes nothing now (SIGSTOP).
        is_running: whether the process is alive and not frozen.
        wall_offset: time by which the time of day of the host is ahead. A step of the clock changes it.
    """

    def __init__(self, kernel: Kernel, name: str, *, drift: float = 0.0, wall_offset: timedelta = timedelta(0)) -> None:
        """Start the process.

        Args:
            kernel: the kernel.
            name: name of the process in the history.
            drift: part by which the clocks of the host are fast, for example 1e-4 for 0.1 ms per second.
            wall_offset: time by which the time of day of the host is ahead.
        """
        self.kernel = kernel
        self.name = name
        self.is_alive = True
        self.is_frozen = False
        self.is_running = True
        self.wall_offset = wall_offset
        self._rate = 1.0 + drift
        self._postponed: list[Event] = []

    def elapsed(self) -> float:
        """Return the time of the clock of the host that cannot be set, in seconds. The clock continues while the process is frozen."""
        return self.kernel.now * self._rate

    def wall_time(self) -> datetime:
        """Return the time of day of the host, with the time zone UTC."""
        return START + self.wall_offset + timedelta(seconds=self.elapsed())

    def at(self, elapsed: float, action: Action) -> Event:
        """Plan an action of this process for a time of its clock, in seconds."""
        return self.kernel.at(elapsed / self._rate, action, self)

    def soon(self, action: Action) -> Event:
        """Plan an action of this process for now."""
        return self.kernel.at(self.kernel.now, action, self)

    def postpone(self, event: Event) -> None:
        """Keep an event until the process is resumed. A process that has ended drops the event."""
        if self.is_alive:
            self._postponed.append(event)

    def freeze(self) -> None:
        """Execute nothing until `resume`."""
        self.is_frozen, self.is_running = True, False

    def resume(self) -> None:
        """Execute the events that were due while the process was frozen, then the later ones."""
        self.is_frozen, self.is_running = False, self.is_alive
        postponed, self._postponed = self._postponed, []
        self.kernel.postponed(postponed)

    def kill(self) -> None:
        """End the process now, without any of its handlers (SIGKILL)."""
        self.is_alive = self.is_running = False
        self._postponed = []
