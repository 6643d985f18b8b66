"""Errors of the scheduler.

AdaptiveSchedulerError
├── JobGraphError       the declared graph is invalid; contains all violations
├── RequirementsError   the resource requirements are invalid; contains all violations
├── OptionError         the name or the value of an option is invalid
├── ScaleUpControllerError a scale-up controller of a DAG author cannot be loaded, or has failed
├── SnapshotError       a saved state cannot be read
└── SchedulerUsageError a bug in this package: the caller violated a precondition
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class AdaptiveSchedulerError(Exception):
    """Base class of the errors of the scheduler."""


class _ListedError(AdaptiveSchedulerError, ValueError):
    """An error that contains all violations.

    Attributes:
        violations: messages of all violations.
    """

    def __init__(self, subject: str, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"{subject}: " + "; ".join(self.violations))


class JobGraphError(_ListedError):
    """The declared graph is invalid."""


class RequirementsError(_ListedError):
    """The resource requirements are invalid for the job (FLIP-291)."""


class OptionError(AdaptiveSchedulerError, ValueError):
    """An option is unknown or has an invalid value. The message contains the option, the value and the valid values."""


class ScaleUpControllerError(AdaptiveSchedulerError, ValueError):
    """A scale-up controller of a DAG author cannot be loaded, or has failed."""


class SnapshotError(AdaptiveSchedulerError, ValueError):
    """A saved state is damaged or has another version."""


class SchedulerUsageError(AdaptiveSchedulerError, RuntimeError):
    """The caller violated a precondition of the state machine. The state is unchanged."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for the message about an unknown name: the most similar known name, "" without a similar name."""
    close = get_close_matches(name, list(known), n=1)
    return f": did you mean {close[0]!r}?" if close else ""
