"""A storage in virtual time: blocking calls that take time, and can hang or fail."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.service import Service
from tests.lab.fleet.storage.faults import StorageFaults
from tests.lab.fleet.storage.files import Files
from tests.lab.fleet.storage.kinds import KINDS

Record = Callable[[str], None]
"""Records an observable fact in the history."""


class SimulatedStorage:
    """One bucket or file system. All calls block, and raise `OSError` with the subclasses that file systems raise.

    Attributes:
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
        self._kind = KINDS[kind]
        self._kernel = kernel
        self._record = record
        self.protocol = self._kind.protocol
        self.files = Files()
        self.faults = StorageFaults(entropy.random(f"faults of storage {kind}"))
        self._service = Service(kernel, entropy, f"storage {kind}", self._kind.latency_s, self.faults)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder. Raises `FileNotFoundError`."""
        return self._service.call("names", folder, lambda host: self.files.names(folder, self._kernel.now))

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `FileNotFoundError`."""
        return self._service.call("read", path, lambda host: self.files.read(path))

    def create(self, path: str, data: bytes) -> None:
        """Create a file if its name is unused. Raises `FileExistsError`."""
        self._service.call("create", path, lambda host: self._create(host, path, data))

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file."""
        self._service.call("write", path, lambda host: self._write(host, path, data, "written"))

    def remove(self, path: str) -> None:
        """Remove a file. Raises `FileNotFoundError`."""
        self._service.call("remove", path, lambda host: self._remove(host, path))

    def _create(self, host: str, path: str, data: bytes) -> None:
        if self.files.contains(path):
            self._record(f"{path} not created by {host}: the file exists")
            raise FileExistsError(path)
        self._write(host, path, data, "created")

    def _write(self, host: str, path: str, data: bytes, verb: str) -> None:
        lag_s = self._kind.lag_s + self.faults.lag_s
        listed_after = self._service.random(host).uniform(0.0, lag_s) if lag_s else 0.0
        self.files.write(path, data, self._kernel.now + listed_after)
        self._record(f"{path} {verb} by {host}")

    def _remove(self, host: str, path: str) -> None:
        self.files.remove(path)
        self._record(f"{path} removed by {host}")
