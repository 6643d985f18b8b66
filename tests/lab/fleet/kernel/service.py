"""A service outside of the processes that call it: a storage or a database."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.faults import Call, Fault, Faults
from tests.lab.fleet.kernel.kernel import Kernel, WakeUp

Answer = TypeVar("Answer")


class Service:
    """Executes blocking calls, which take time and can fail.

    Theory: a request arrives after some time, has its effect in the service, and the answer takes some time, too. The effect belongs to the
    service: a caller that is frozen, killed or impatient in the meantime does not prevent it.

    Attributes:
        faults: faults of the service.
    """

    def __init__(
        self, kernel: Kernel, entropy: Entropy, name: str, latency_s: tuple[float, float], faults: Faults
    ) -> None:
        """Create a service.

        Args:
            kernel: the kernel.
            entropy: source of the latencies.
            name: name of the service.
            latency_s: shortest and longest time of a call, in seconds.
            faults: faults of the service.
        """
        self.faults = faults
        self._kernel = kernel
        self._entropy = entropy
        self._name = name
        self._latency_s = latency_s
        self._randoms: dict[str, Random] = {}

    def call(self, operation: str, path: str, act: Callable[[str], Answer]) -> Answer:
        """Execute a call of the current thread.

        Args:
            operation: what the call does, for the faults.
            path: what the call concerns, for the faults.
            act: has the effect, and returns the answer or raises an exception; gets the name of the process that calls.
        """
        process = self._kernel.process
        call = Call("" if process is None else process.name, operation, path)
        latency_s = self.random(call.host).uniform(*self._latency_s)
        request = _Request(self._kernel, call, act, self.faults, latency_s)
        self._kernel.block(request.send)
        return request.result()

    def random(self, host: str) -> Random:
        """Return the random values for the calls of a process."""
        if host not in self._randoms:
            self._randoms[host] = self._entropy.random(f"{self._name} for {host}")
        return self._randoms[host]


class _Request(Generic[Answer]):
    """The request of a call, and its answer."""

    def __init__(
        self, kernel: Kernel, call: Call, act: Callable[[str], Answer], faults: Faults, latency_s: float
    ) -> None:
        self._kernel = kernel
        self._call = call
        self._act = act
        self._faults = faults
        self._half_s = latency_s / 2
        self._answers: list[Answer] = []
        self._error: Exception | None = None

    def send(self, wake_up: WakeUp) -> None:
        self._kernel.after(self._half_s, lambda: self._arrive(wake_up))

    def result(self) -> Answer:
        if self._error is not None:
            raise self._error
        return self._answers[0]

    def _arrive(self, wake_up: WakeUp) -> None:
        """Have the effect, or wait for the end of a fault."""
        faults = self._faults.of(self._call)
        for fault in faults:
            if fault.holds_requests:
                fault.held.append(lambda: self.send(wake_up))
                return
        self._execute(faults)
        self._respond(faults, wake_up)

    def _execute(self, faults: list[Fault]) -> None:
        try:
            for fault in faults:
                fault.refuse()
            self._answers.append(self._act(self._call.host))
            for fault in faults:
                fault.lose()
        except Exception as error:  # noqa: BLE001  the caller raises the error
            self._error = error

    def _respond(self, faults: list[Fault], wake_up: WakeUp) -> None:
        delay_s = self._half_s + sum(fault.delay_s for fault in faults)
        holding = next((fault for fault in faults if fault.holds_responses), None)
        if holding is None:
            wake_up(delay_s)
        else:
            holding.held.append(lambda: wake_up(delay_s))
