"""The kernel of the simulator: one queue of events in virtual time.

Theory: a discrete-event simulation. Everything that the simulated processes do happens in an event: a callback of an event loop, or a
part of a thread between two blocking calls. The kernel executes the events one after the other, in the order of their times, and events
of the same time in the order in which they were planned. A thread is a greenlet: a blocking call of the simulated environment switches
back to the kernel, which continues the thread at a later time. Nothing else runs at the same time, so the same seed gives the same
history. Source: the simulators of FoundationDB and TigerBeetle.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from tests.lab.fleet.kernel.process import SimulatedProcess

Action = Callable[[], object]


class WakeUp(Protocol):
    """Wakes a blocked thread up. Only the first call has an effect."""

    def __call__(self, after_s: float = 0.0) -> None:
        """Continue the thread after a time, in seconds."""


class BlockedEventLoopError(AssertionError):
    """Code in an event loop has made a blocking call, so no other loop of the process could run."""


class Event(list[Any]):
    """An action that the kernel executes at its time, unless the event is canceled or its process has ended.

    The items are the time, a number that orders events of the same time, the action (None if the event is canceled), and the process. The
    queue compares lists faster than objects of other classes, and a simulation has hundreds of thousands of events.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """Do not execute the action."""
        self[2] = None


class Kernel:
    """Executes events in virtual time.

    Attributes:
        now: virtual time, in seconds since the start of the simulation.
        process: process whose event is being executed, None during an event of the environment.
    """

    def __init__(self) -> None:
        """Create a kernel without events."""
        self.now = 0.0
        self.process: SimulatedProcess | None = None
        self._events: list[Event] = []
        self._numbers = count()
        self._main = getcurrent()

    def at(self, when: float, action: Action, process: SimulatedProcess | None = None) -> Event:
        """Plan an action for a time; a time in the past means now. The action belongs to a process, or to the environment."""
        event = Event((when if when > self.now else self.now, next(self._numbers), action, process))
        heapq.heappush(self._events, event)
        return event

    def after(self, seconds: float, action: Action, process: SimulatedProcess | None = None) -> Event:
        """Plan an action for a time after now, in seconds."""
        return self.at(self.now + seconds, action, process)

    def run(self, until: float, check: Action = lambda: None) -> None:
        """Execute all events up to a time.

        Args:
            until: time, in seconds.
            check: called after each event.
        """
        events = self._events
        try:
            while events and events[0][0] <= until:
                event = heapq.heappop(events)
                self.now, _, action, process = event
                if action is None:
                    continue
                if process is None or process.is_running:
                    self.process = process
                    action()
                    self.process = None
                    check()
                else:
                    process.postpone(event)
        finally:
            self.process = None
        self.now = max(self.now, until)

    def postponed(self, events: list[Event]) -> None:
        """Execute events now that a frozen process has kept, in their order."""
        for event in events:
            event[:2] = self.now, next(self._numbers)
            heapq.heappush(self._events, event)

    # ---- threads ----------------------------------------------------------------------------------------------------

    def start_thread(self, run: Action) -> None:
        """Run a function in a new thread of the current process, or of the environment."""
        thread = greenlet(run, self._main)
        self.at(self.now, thread.switch, self.process)

    def block(self, plan_wakeup: Callable[[WakeUp], object]) -> None:
        """Block the current thread until it is woken up.

        Args:
            plan_wakeup: gets the function that wakes the thread up, to be called in an event or by another thread.

        Raises:
            BlockedEventLoopError: the caller is not a thread.
        """
        thread, process = getcurrent(), self.process
        if thread is self._main:
            raise BlockedEventLoopError("a blocking call in the event loop")
        is_woken = False

        def wake_up(after_s: float = 0.0) -> None:
            nonlocal is_woken
            if not is_woken:
                is_woken = True
                self.at(self.now + after_s, thread.switch, process)

        plan_wakeup(wake_up)
        self._main.switch()

    def sleep(self, seconds: float) -> None:
        """Block the current thread for a time, in seconds. Raises as `block`."""
        self.block(lambda wake_up: wake_up(seconds))

    def hang(self) -> None:
        """Block the current thread forever. Raises as `block`."""
        self.block(lambda wake_up: None)
