"""Faults of a simulated service: switches that a scenario turns on for an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random
from typing import NamedTuple

from tests.lab.fleet.kernel.kernel import Action

MakeError = Callable[[], Exception]


class Call(NamedTuple):
    """A call to a service.

    Attributes:
        host: name of the process that calls.
        operation: what the call does.
        path: what the call concerns.
    """

    host: str
    operation: str
    path: str


@dataclass(eq=False, slots=True, kw_only=True)
class Fault:
    """A fault, and the calls that it concerns.

    Attributes:
        path: pattern of the paths (`fnmatch`), for example "*/job-3/*".
        hosts: pattern of the processes whose calls are concerned.
        operations: operations that are concerned; all if empty.
        share: part of these calls that is concerned.
        delay_s: additional time of a call, in seconds.
        holds_requests: calls wait for the end of the fault before they have an effect.
        holds_responses: answers wait for the end of the fault.
        error: returns the error of a call that has no effect.
        response_error: returns the error of a call that has its effect, and whose answer is lost.
        held: actions that wait for the end of the fault.
    """

    path: str = "*"
    hosts: str = "*"
    operations: frozenset[str] = frozenset()
    share: float = 1.0
    delay_s: float = 0.0
    holds_requests: bool = False
    holds_responses: bool = False
    error: MakeError | None = None
    response_error: MakeError | None = None
    held: list[Action] = field(default_factory=list)

    def concerns(self, call: Call, random: Random) -> bool:
        """Return whether a call is concerned."""
        return (
            (not self.operations or call.operation in self.operations)
            and fnmatchcase(call.host, self.hosts)
            and fnmatchcase(call.path, self.path)
            and (self.share >= 1.0 or random.random() < self.share)
        )

    def refuse(self) -> None:
        """Raise the error of a call that has no effect."""
        if self.error is not None:
            raise self.error()

    def lose(self) -> None:
        """Raise the error of a call whose answer is lost."""
        if self.response_error is not None:
            raise self.response_error()


class Faults:
    """The faults of one service. Each method begins a fault, and returns the function that ends it.

    `path` and `hosts` are patterns of the paths, and of the names of the processes, that a fault concerns.
    """

    def __init__(self, random: Random, error: MakeError, writes: frozenset[str]) -> None:
        """Begin no fault.

        Args:
            random: determines which calls a fault concerns that concerns a part of the calls.
            error: returns the error of a service that fails.
            writes: operations that change something.
        """
        self.active: list[Fault] = []
        self._random = random
        self._error = error
        self._writes = writes

    def of(self, call: Call) -> list[Fault]:
        """Return the faults that concern a call."""
        active = self.active
        return [fault for fault in active if fault.concerns(call, self._random)] if active else []

    def slow(self, seconds: float, path: str = "*", hosts: str = "*") -> Action:
        """Answer later by a number of seconds."""
        return self.begin(Fault(path=path, hosts=hosts, delay_s=seconds))

    def hang(self, path: str = "*", hosts: str = "*", operations: frozenset[str] = frozenset()) -> Action:
        """Do nothing until the fault ends. Then the calls have their effects, also those that their callers have abandoned."""
        return self.begin(Fault(path=path, hosts=hosts, operations=operations, holds_requests=True))

    def hold_responses(self, path: str = "*", hosts: str = "*") -> Action:
        """Execute the calls, and answer when the fault ends."""
        return self.begin(Fault(path=path, hosts=hosts, holds_responses=True))

    def disconnect(self, path: str = "*", hosts: str = "*") -> Action:
        """Lose the calls of some hosts. The callers get an error when the fault ends."""
        return self.begin(Fault(path=path, hosts=hosts, holds_responses=True, error=self._error))

    def fail(self, path: str = "*", hosts: str = "*", share: float = 1.0) -> Action:
        """Answer with errors, without an effect."""
        return self.begin(Fault(path=path, hosts=hosts, share=share, error=self._error))

    def lose_responses(self, path: str = "*", hosts: str = "*", share: float = 1.0) -> Action:
        """Execute the writes, and lose the answers: the callers see an error."""
        return self.begin(
            Fault(path=path, hosts=hosts, operations=self._writes, share=share, response_error=self._error)
        )

    def begin(self, fault: Fault) -> Action:
        """Begin a fault; return the function that ends it."""
        self.active.append(fault)

        def end() -> None:
            self.active.remove(fault)
            for action in fault.held:
                action()

        return end
