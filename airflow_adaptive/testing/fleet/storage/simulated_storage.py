"""A storage in virtual time: blocking calls that take time, can hang or fail, and have their effect even if the caller is gone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from airflow_adaptive.testing.fleet.kernel.entropy import Entropy
from airflow_adaptive.testing.fleet.kernel.kernel import Action, Kernel
from airflow_adaptive.testing.fleet.storage.faults import Call, Fault, StorageFaults
from airflow_adaptive.testing.fleet.storage.files import Files
from airflow_adaptive.testing.fleet.storage.kinds import KINDS

Answer = TypeVar("Answer")

Record = Callable[[str], None]
"""Records an observable fact in the history."""


class SimulatedStorage:
    """One bucket or file system. All calls block, and raise `OSError` with the subclasses that file systems raise.

    Theory: a request arrives after some time, has its effect in the storage, and the answer takes some time, too. The effect belongs to the
    storage: a caller that is frozen, killed or impatient in the meantime does not prevent it.

    Attributes:
        kind: name of the kind (`kinds.KINDS`).
        protocol: protocol of fsspec.
        files: content of the storage, for the invariants.
        faults: faults of the storage.
    """

    def __init__(self, kernel: Kernel, entropy: Entropy, record: Record, kind: str = "s3") -> None:
        """Create an empty storage.

        Args:
            kernel: the kernel.
            entropy: source of the latencies.
            record: records the effects of writes.
            kind: name of the kind (`kinds.KINDS`).
        """
        self.kind = kind
        self.protocol = KINDS[kind].protocol
        self.files = Files()
        self.faults = StorageFaults(entropy.random(f"faults of storage {kind}"))
        self._kernel = kernel
        self._record = record
        self._kind = KINDS[kind]
        self._entropy = entropy
        self._latencies: dict[str, Random] = {}

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder. Raises `FileNotFoundError`."""
        return self._call("names", folder, lambda host: self.files.names(folder, self._kernel.now))

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `FileNotFoundError`."""
        return self._call("read", path, lambda host: self.files.read(path))

    def create(self, path: str, data: bytes) -> None:
        """Create a file if its name is unused. Raises `FileExistsError`."""
        self._call("create", path, lambda host: self._create(host, path, data))

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file."""
        self._call("write", path, lambda host: self._write(host, path, data, "written"))

    def remove(self, path: str) -> None:
        """Remove a file. Raises `FileNotFoundError`."""
        self._call("remove", path, lambda host: self._remove(host, path))

    def _create(self, host: str, path: str, data: bytes) -> None:
        if self.files.contains(path):
            self._record(f"{path} not created by {host}: the file exists")
            raise FileExistsError(path)
        self._write(host, path, data, "created")

    def _write(self, host: str, path: str, data: bytes, verb: str) -> None:
        lag_s = self._kind.lag_s + self.faults.lag_s
        listed_after = self._random(host).uniform(0.0, lag_s) if lag_s else 0.0
        self.files.write(path, data, self._kernel.now + listed_after)
        self._record(f"{path} {verb} by {host}")

    def _remove(self, host: str, path: str) -> None:
        self.files.remove(path)
        self._record(f"{path} removed by {host}")

    def _call(self, operation: str, path: str, act: Callable[[str], Answer]) -> Answer:
        """Execute a call of the current thread: the request, the effect and the answer."""
        process = self._kernel.process
        call = Call("" if process is None else process.name, operation, path)
        request = _Request(self._kernel, call, act, self.faults, self._random(call.host).uniform(*self._kind.latency_s))
        self._kernel.block(request.send)
        return request.result()

    def _random(self, host: str) -> Random:
        if host not in self._latencies:
            self._latencies[host] = self._entropy.random(f"latency of storage {self.kind} for {host}")
        return self._latencies[host]


class _Request(Generic[Answer]):
    """The request of a call, and its answer."""

    def __init__(
        self, kernel: Kernel, call: Call, act: Callable[[str], Answer], faults: StorageFaults, latency_s: float
    ) -> None:
        self._kernel = kernel
        self._call = call
        self._act = act
        self._faults = faults
        self._half_s = latency_s / 2
        self._answers: list[Answer] = []
        self._error: OSError | None = None

    def send(self, wake_up: Action) -> None:
        self._kernel.after(self._half_s, lambda: self._arrive(wake_up))

    def result(self) -> Answer:
        if self._error is not None:
            raise self._error
        return self._answers[0]

    def _arrive(self, wake_up: Action) -> None:
        """Have the effect, or wait for the end of a fault."""
        faults = self._faults.of(self._call) if self._faults.active else []
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
        except OSError as error:
            self._error = error

    def _respond(self, faults: list[Fault], wake_up: Action) -> None:
        delay_s = self._half_s + sum(fault.delay_s for fault in faults)
        holding = next((fault for fault in faults if fault.holds_responses), None)
        if holding is None:
            self._kernel.after(delay_s, wake_up)
        else:
            holding.held.append(lambda: self._kernel.after(delay_s, wake_up))
