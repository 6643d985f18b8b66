"""Errors of the scheduler.

AdaptiveSchedulerError
├── JobGraphError       the job as declared can't run; lists everything that is wrong
├── RequirementsError   resource requirements that no plan can satisfy; lists everything that is wrong
├── OptionError         an option's name or value
├── SnapshotError       a saved state that can't be read
└── SchedulerUsageError our own bug: the caller broke a rule; the state is unchanged
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class AdaptiveSchedulerError(Exception):
    """Root of the scheduler's errors."""


class _ListedError(AdaptiveSchedulerError, ValueError):
    """An error that carries every finding, not only the first."""

    def __init__(self, subject: str, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"{subject}: " + "; ".join(self.violations))


class JobGraphError(_ListedError):
    """The job as declared can't run."""


class RequirementsError(_ListedError):
    """Resource requirements that the job can't have (FLIP-291)."""


class OptionError(AdaptiveSchedulerError, ValueError):
    """An unknown option or an impossible value; the message names both and what is possible."""


class SnapshotError(AdaptiveSchedulerError, ValueError):
    """A saved state that is damaged or of a newer version."""


class SchedulerUsageError(AdaptiveSchedulerError, RuntimeError):
    """The caller broke a rule of the machine; the state is unchanged."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: the known one that it resembles most, "" if it resembles none."""
    close = get_close_matches(name, list(known), n=1)
    return f": did you mean {close[0]!r}?" if close else ""
