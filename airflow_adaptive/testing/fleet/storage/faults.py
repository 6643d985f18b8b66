"""Faults of a storage: switches that a scenario turns on for an interval."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random

from airflow_adaptive.testing.fleet.kernel.kernel import Action

WRITES = frozenset({"create", "write", "remove"})


@dataclass(frozen=True, slots=True)
class Call:
    """A call to a storage.

    Attributes:
        host: name of the process that calls.
        operation: `names`, `read`, `create`, `write` or `remove`.
        path: path of the file or folder.
    """

    host: str
    operation: str
    path: str


@dataclass(eq=False, slots=True, kw_only=True)
class Fault:
    """A fault, and the calls that it concerns.

    Attributes:
        folder: pattern of the paths (`fnmatch`), for example "*/job-3/*".
        hosts: pattern of the processes whose calls are concerned.
        operations: operations that are concerned; all if empty.
        share: part of these calls that is concerned.
        delay_s: additional time of a call, in seconds.
        holds_requests: calls wait for the end of the fault before they have an effect.
        holds_responses: answers wait for the end of the fault.
        error: number and text of the error of a call that has no effect.
        response_error: likewise, of a call that has its effect, but whose answer is lost.
        held: actions that wait for the end of the fault.
    """

    folder: str
    hosts: str
    operations: frozenset[str] = frozenset()
    share: float = 1.0
    delay_s: float = 0.0
    holds_requests: bool = False
    holds_responses: bool = False
    error: tuple[int, str] | None = None
    response_error: tuple[int, str] | None = None
    held: list[Action] = field(default_factory=list)

    def concerns(self, call: Call, random: Random) -> bool:
        """Return whether a call is concerned."""
        return (
            (not self.operations or call.operation in self.operations)
            and fnmatchcase(call.host, self.hosts)
            and fnmatchcase(call.path, self.folder)
            and (self.share >= 1.0 or random.random() < self.share)
        )

    def refuse(self) -> None:
        """Raise the error of a call that has no effect."""
        if self.error is not None:
            raise OSError(*self.error)

    def lose(self) -> None:
        """Raise the error of a call whose answer is lost."""
        if self.response_error is not None:
            raise OSError(*self.response_error)


class StorageFaults:
    """The faults of one storage. Each method begins a fault, and returns the function that ends it.

    `folder` and `hosts` are patterns of the paths, and of the names of the processes, that a fault concerns.
    """

    def __init__(self, random: Random) -> None:
        """Begin no fault."""
        self.active: list[Fault] = []
        self.lag_s = 0.0
        """Additional time after which listings contain a new file."""
        self._random = random

    def of(self, call: Call) -> list[Fault]:
        """Return the faults that concern a call."""
        return [fault for fault in self.active if fault.concerns(call, self._random)]

    def slow(self, seconds: float, folder: str = "*", hosts: str = "*") -> Action:
        """Answer later by a number of seconds."""
        return self._begin(Fault(folder=folder, hosts=hosts, delay_s=seconds))

    def hang(self, folder: str = "*", hosts: str = "*", operations: frozenset[str] = frozenset()) -> Action:
        """Do nothing until the fault ends. Then the calls have their effects, also those that their callers have abandoned."""
        return self._begin(Fault(folder=folder, hosts=hosts, operations=operations, holds_requests=True))

    def hold_responses(self, folder: str = "*", hosts: str = "*") -> Action:
        """Execute the calls, and answer when the fault ends."""
        return self._begin(Fault(folder=folder, hosts=hosts, holds_responses=True))

    def disconnect(self, folder: str = "*", hosts: str = "*") -> Action:
        """Lose the calls of some hosts. The callers get an error when the fault ends."""
        error = (errno.ETIMEDOUT, "no route to the storage")
        return self._begin(Fault(folder=folder, hosts=hosts, holds_responses=True, error=error))

    def fail(self, folder: str = "*", hosts: str = "*", share: float = 1.0) -> Action:
        """Answer with errors, without an effect."""
        error = (errno.EBUSY, "503 Slow Down")
        return self._begin(Fault(folder=folder, hosts=hosts, share=share, error=error))

    def lose_responses(self, folder: str = "*", hosts: str = "*", share: float = 1.0) -> Action:
        """Execute the writes, and lose the answers: the callers see an error."""
        error = (errno.ECONNRESET, "the storage has closed the connection")
        return self._begin(Fault(folder=folder, hosts=hosts, operations=WRITES, share=share, response_error=error))

    def forbid(self, folder: str = "*", hosts: str = "*") -> Action:
        """Refuse all calls."""
        return self._begin(Fault(folder=folder, hosts=hosts, error=_system_error(errno.EACCES)))

    def make_read_only(self, folder: str = "*", hosts: str = "*") -> Action:
        """Refuse writes."""
        return self._begin(Fault(folder=folder, hosts=hosts, operations=WRITES, error=_system_error(errno.EROFS)))

    def fill(self, folder: str = "*", hosts: str = "*") -> Action:
        """Refuse new content: the storage is full. Files can be removed."""
        operations = WRITES - {"remove"}
        return self._begin(Fault(folder=folder, hosts=hosts, operations=operations, error=_system_error(errno.ENOSPC)))

    def lag(self, seconds: float) -> Action:
        """Let listings miss files that are new, for a number of seconds."""
        self.lag_s += seconds

        def end() -> None:
            self.lag_s -= seconds

        return end

    def _begin(self, fault: Fault) -> Action:
        self.active.append(fault)

        def end() -> None:
            self.active.remove(fault)
            for action in fault.held:
                action()

        return end


def _system_error(number: int) -> tuple[int, str]:
    return number, os.strerror(number)
