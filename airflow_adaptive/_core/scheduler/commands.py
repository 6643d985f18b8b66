"""Commands of the scheduler to the cluster, in the imperative. Each command is idempotent within its epoch.

A running driver needs no command: the driver reads its directive from the journal (`_engine.directive`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitDriver:
    """Start the driver of this epoch.

    Attributes:
        epoch: epoch of the driver; the driver may run queries only while the journal names this epoch.
        slots: number of executor cores that the driver starts with.
        cause: name of the event that led to the command.
    """

    epoch: int
    slots: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDriver:
    """Kill the driver of this epoch.

    Attributes:
        epoch: epoch of the driver.
        submission_id: id of the submission, None if the cluster manager never reported the id.
        cause: name of the event that led to the command.
    """

    epoch: int
    submission_id: str | None
    cause: str


Command = SubmitDriver | KillDriver
