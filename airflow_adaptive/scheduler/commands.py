"""What the scheduler wants done to the world, in the imperative; each is idempotent under its epoch.

What a living driver is to do needs no command: it reads the state from the job's log (`runtime.directive`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitDriver:
    """Start the driver of this epoch.

    Attributes:
        epoch: it may run queries only while the log names this epoch.
        slots: executor cores that it starts with.
        cause: the event that led to this.
    """

    epoch: int
    slots: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDriver:
    """See that the driver of this epoch dies.

    Attributes:
        epoch: of the driver.
        submission_id: None if the cluster never told it.
        cause: the event that led to this.
    """

    epoch: int
    submission_id: str | None
    cause: str


Command = SubmitDriver | KillDriver
