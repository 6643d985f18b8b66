"""A storage that remembers when the loops read."""

from __future__ import annotations

from typing import Any

from tests.lab.fleet.storage.simulated_storage import SimulatedStorage


class ObservedStorage(SimulatedStorage):
    """A storage.

    Attributes:
        read_at: path -> time at which a triggerer has read the file last, seconds.
    """

    def __init__(self, *arguments: Any) -> None:
        """See `SimulatedStorage`."""
        super().__init__(*arguments)
        self.read_at: dict[str, float] = {}

    def read(self, path: str) -> bytes:
        """See `SimulatedStorage.read`."""
        try:
            return super().read(path)
        finally:
            process = self._kernel.process
            if process is not None and process.name.startswith("triggerer"):
                self.read_at[path] = self._kernel.now
