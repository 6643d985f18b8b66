"""Whether a failure can be recovered from at all.

Theory: a restart helps against the world (lost processes, time-outs, a full disk) and never against the job itself
(code that does not compile, a query that can't be analysed, a checkpoint of another query). The class names of the
failure and of all its causes decide, and Spark's error conditions where they say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

NON_RECOVERABLE = (
    "SyntaxError",
    "IndentationError",
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "AdaptiveJobError",
    "*.AdaptiveJobError",
    "SCRIPT_WITHOUT_JOB",
    "AnalysisException",
    "*.AnalysisException",
    "ParseException",
    "*.ParseException",
    "STREAMING_STATEFUL_OPERATOR_*",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "INCOMPATIBLE_*CHECKPOINT*",
)
"""Patterns of exception classes and Spark error conditions that no restart can mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job failed.

    Attributes:
        error_class: Spark's error condition, or the exception's class.
        message: what it said.
        causes: class names of the exception and of its causes, outermost first.
    """

    error_class: str
    message: str
    causes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line for people."""
        return f"{self.error_class}: {self.message}"


def is_recoverable(failure: Failure, non_recoverable: Sequence[str] = NON_RECOVERABLE) -> bool:
    """Whether a restart may help: no pattern fits the failure or any of its causes."""
    names = (failure.error_class, *failure.causes)
    return not any(fnmatchcase(name, pattern) for name in names for pattern in non_recoverable)
