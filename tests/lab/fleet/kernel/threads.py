"""Threads and queues in virtual time, with the interfaces of `threading.Thread` and `queue.SimpleQueue`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tests.lab.fleet.kernel.kernel import Action, Kernel

Item = TypeVar("Item")

DEFAULT_THREADS = 6
"""Threads of the default executor of asyncio on a host with two cores."""


class SimulatedThread:
    """A thread of the process that starts it, like `threading.Thread`."""

    def __init__(self, kernel: Kernel, target: Callable[..., object], args: Sequence[Any] = (), **options: Any) -> None:
        """Create a thread; the name and other options have no meaning in a simulation."""
        del options
        self._kernel = kernel
        self._run = lambda: target(*args)

    def start(self) -> None:
        """Start the thread."""
        self._kernel.start_thread(self._run)


class SimulatedQueue(Generic[Item]):
    """A queue that blocks its readers in virtual time, like `queue.SimpleQueue`."""

    def __init__(self, kernel: Kernel) -> None:
        """Create an empty queue."""
        self._kernel = kernel
        self._items: deque[Item] = deque()
        self._readers: deque[Action] = deque()

    def put(self, item: Item) -> None:
        """Add an item, and wake one reader up."""
        self._items.append(item)
        if self._readers:
            self._readers.popleft()()

    def get(self) -> Item:
        """Remove the oldest item; block while the queue is empty."""
        while not self._items:
            self._kernel.block(self._readers.append)
        return self._items.popleft()


class SimulatedExecutor:
    """The default executor of an event loop: a few threads, which calls that hang occupy."""

    def __init__(self, kernel: Kernel) -> None:
        """Start no thread before the first call."""
        self._kernel = kernel
        self._calls: SimulatedQueue[Action] = SimulatedQueue(kernel)
        self._threads = 0

    def submit(self, call: Action) -> None:
        """Run a call in a thread as soon as one is free."""
        if self._threads < DEFAULT_THREADS:
            self._threads += 1
            self._kernel.start_thread(self._serve)
        self._calls.put(call)

    def _serve(self) -> None:
        while True:
            self._calls.get()()


class SimulatedLock:
    """A lock that threads get in the order in which they ask for it, like `threading.Lock`."""

    def __init__(self, kernel: Kernel) -> None:
        """Create a lock that is free."""
        self._kernel = kernel
        self._is_held = False
        self._waiting: deque[Action] = deque()

    def __enter__(self) -> None:
        """Block until the lock is free, and take it."""
        if self._is_held:
            self._kernel.block(self._waiting.append)
        self._is_held = True

    def __exit__(self, *error: object) -> None:
        """Give the lock to the thread that has waited longest, or leave it free."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._is_held = False
