"""Faults of a storage."""

from __future__ import annotations

import errno
import os
from functools import partial
from random import Random

from tests.lab.fleet.kernel.faults import Fault, Faults
from tests.lab.fleet.kernel.kernel import Action

ADDITIONS = frozenset({"create", "write"})
WRITES = ADDITIONS | {"remove"}


class StorageFaults(Faults):
    """The faults of one storage, see `Faults`. The paths are those of files and folders.

    Attributes:
        lag_s: additional time after which listings contain a new file, in seconds.
    """

    def __init__(self, random: Random) -> None:
        """Begin no fault."""
        super().__init__(random, partial(OSError, errno.EBUSY, "503 Slow Down"), WRITES)
        self.lag_s = 0.0

    def forbid(self, path: str = "*", hosts: str = "*") -> Action:
        """Refuse all calls."""
        return self._refuse(errno.EACCES, path, hosts)

    def fill(self, path: str = "*", hosts: str = "*") -> Action:
        """Refuse new content: the storage is full. Files can be removed."""
        return self._refuse(errno.ENOSPC, path, hosts, ADDITIONS)

    def lag(self, seconds: float) -> Action:
        """Let listings miss files that are new, for at most a number of seconds."""
        self.lag_s += seconds

        def end() -> None:
            self.lag_s -= seconds

        return end

    def _refuse(self, number: int, path: str, hosts: str, operations: frozenset[str] = frozenset()) -> Action:
        error = partial(OSError, number, os.strerror(number))
        return self.begin(Fault(path=path, hosts=hosts, operations=operations, error=error))
