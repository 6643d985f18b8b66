"""Conditions of the state transition vectors, which are phrases from Flink's tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from tests.lab.conformance.result import NotApplicableError
from tests.lab.scenario import HOPELESS, TRANSIENT

NONE, SUFFICIENT, DESIRED = 0, 2, 4
"""Numbers of slots that are too few, sufficient and desired for a job with the bounds 1 to 4."""


class Phrase(StrEnum):
    """Patterns of the phrases that a condition can contain."""

    NO_PARALLELISM = (
        r"parallelism[^,;(]*(\bnot\b|no longer|absent|missing|unavailable|gone|empty|null|none|cannot)|\bnothing\b"
    )
    NO_RESOURCES = r"neither|not enough|insufficient|(no|without)( any)? (resources|slots)|no (available )?parallelism"
    NOT_DESIRED = r"(not|nor) desired|desired (resources )?(are )?not|\bsufficient"
    DESIRED = r"desired"
    NO_RESTART = r"restart (is )?not possible|not restart|no restart|suppress|forbids|not allow|exhausted"
    RESTART = r"allows? restart|restart (is )?possible|can restart|\brecoverable"
    NOT_RECOVERABLE = r"non-recoverable|not recoverable|unrecoverable|SuppressRestarts"
    NOT_ELAPSED = r"not (yet )?(elapsed|passed|over)|pending|running timer|before"
    ELAPSED = r"(?<!not )(?<!not yet )elapsed|(?<!not )passed|\bafter\b"
    NOT_STABILIZING = r"stabili[sz]ation timeout (of |is )?0\b|no stabili[sz]ation"
    STABILIZING = r"stabili[sz]ation"
    FOREVER = r"negative|for ever|-1"
    COOLDOWN = r"cool-?down"
    UNCHANGED = r"parallelism (is |stays |would be |would stay )?(unchanged|the same)|no change|(does|would) not change"
    CHANGED = r"parallelism (has |would )?changed?\b|other parallelism"
    SLOTS = r"(\d+) (free )?slots? (are |is )?(available|there|free)"
    SAVEPOINT_PENDING = r"(savepoint|outcome)[^,;(]*(pending|\bnot\b|unknown|in progress|still running)|(until|waiting for)[^,;(]*(savepoint|outcome)"
    SAVEPOINT_KNOWN = r"outcome"
    REMEMBERED = r"remembered|fail(ed|ure) (before|meanwhile|in between|while waiting)"
    NOT_FINISHED = r"not (yet )?(FINISHED|terminal|terminated)|still running"
    SAVED = r"savepoint (future )?(is |was )?(already )?(completed|done|ok|succeed)"
    NOT_SAVED = r"savepoint (operation )?(fails|failed)"
    NO_TARGET = r"no target|failure restart"
    TARGET_GONE = r"target[^,;(]*(\bnot\b|differ|no longer|gone|unavailable|missing|lost)|(\bnot\b|differ|no longer|fewer|less|lower|below|!=)[^,;(]*target"
    TARGET_EXCEEDED = r"(more|greater|larger|above)[^,;(]*target"
    TARGET = r"target|rescale restart"
    TARGET_SLOTS = r"target(?: parallelism)?(?: of| is|:| =)? ?(\d+)"
    AVAILABLE_SLOTS = r"(\d+)(?: slots?)?(?: (?:is|are))?(?: now| still| only)? available"
    STALE = r"reject|not accept|unknown (execution|attempt|task)|stale|outdated|(old|earlier|former|previous) (attempt|execution|visit)"
    NOT_DEPLOYED = r"deploy(ing|ment)?\b.*(throws|fails|failed|failure)"
    BACKOFF = r"backoff"
    SLOTS_GONE = r"not available|not free|no longer|gone|taken"
    AVAILABLE = r"available|reserv"
    FINISHED = r"\bFINISHED\b"
    FAILED = r"\bFAILED\b"
    CANCELED = r"\bCANCELED\b"
    SUSPENDED = r"\bSUSPENDED\b"
    BOUNDS = r"\[(\d+), ?(\d+)\] ?-> ?\[(\d+), ?(\d+)\]"
    RUNNING_WITH = r"running (with|at|on) (\d+)"
    ANY = r"\bany\b"
    FAILURE = r"\bfailure\b|\bwaiting\b"


_VOCABULARY = re.compile("|".join(Phrase), re.IGNORECASE)
_BOUNDS = re.compile(Phrase.BOUNDS)
_BETWEEN_CLAUSES = re.compile(r"[,;:()/]|\band\b|\bwhile\b|\bbut\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a vector.

    Attributes:
        text: conditions as written in the vector, "" if there are none.
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse a text with a clause that contains no known phrase. Raises `NotApplicableError`."""
        clauses = filter(None, map(str.strip, _BETWEEN_CLAUSES.split(_BOUNDS.sub("any", self.text))))
        unknown = [clause for clause in clauses if not _VOCABULARY.search(clause)]
        if unknown:
            raise NotApplicableError(f"unknown condition: {'; '.join(unknown)}")

    def mentions(self, *phrases: Phrase) -> bool:
        """Return whether the text contains at least one of the phrases."""
        return any(self.find(phrase) for phrase in phrases)

    def find(self, phrase: Phrase) -> re.Match[str] | None:
        """Return the first match of a phrase, None if the text does not contain the phrase."""
        return re.search(phrase, self.text, re.IGNORECASE)

    @property
    def slots(self) -> int:
        """Number of slots that are available."""
        if self.mentions(Phrase.NO_RESOURCES, Phrase.UNCHANGED):
            return NONE
        if not self.mentions(Phrase.DESIRED, Phrase.NOT_DESIRED):
            return DESIRED if self.mentions(Phrase.CHANGED, Phrase.COOLDOWN) else NONE
        return SUFFICIENT if self.mentions(Phrase.NOT_DESIRED) else DESIRED

    @property
    def failure(self) -> Failure:
        """Failure of the query."""
        return HOPELESS if self.mentions(Phrase.NOT_RECOVERABLE) else TRANSIENT

    @property
    def has_target(self) -> bool:
        """Whether the job restarts for a target parallelism."""
        return self.mentions(Phrase.TARGET) and not self.mentions(Phrase.NO_TARGET)

    @property
    def beyond_target(self) -> int:
        """Number of slots that are available beyond the target, negative if slots are missing."""
        target, available = self.find(Phrase.TARGET_SLOTS), self.find(Phrase.AVAILABLE_SLOTS)
        if target is not None and available is not None:
            return int(available[1]) - int(target[1])
        return self.mentions(Phrase.TARGET_EXCEEDED) - self.mentions(Phrase.TARGET_GONE)

    @property
    def restarts(self) -> bool:
        """Whether the restart strategy allows a restart."""
        return not self.mentions(Phrase.NO_RESTART)
