"""The history of a simulation: one line for each observable fact."""

from __future__ import annotations

from hashlib import sha256

from tests.lab.fleet.kernel.kernel import Kernel


class History:
    """Collects the lines of a history. The same seed gives the same lines, byte for byte."""

    def __init__(self, kernel: Kernel) -> None:
        """Start an empty history."""
        self._kernel = kernel
        self.lines: list[str] = []

    def record(self, fact: str) -> None:
        """Add a fact, with the virtual time in seconds and the process that causes the fact."""
        process = self._kernel.process
        name = "environment" if process is None else process.name
        self.lines.append(f"{self._kernel.now:10.3f}  {name:<18} {fact}")

    @property
    def digest(self) -> str:
        """Hash of all lines."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]
