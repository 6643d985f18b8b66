"""Measures how long a rescale keeps all queries from running."""

from __future__ import annotations

from collections.abc import Callable


class Downtime:
    """How long no query could run because of a rescale.

    Attributes:
        ms: of the last rescale; None before the first, while one is under way, and once the query has failed or was held.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nothing is measured yet; the clock is monotonic, seconds."""
        self._clock = clock
        self._since: float | None = None
        self.ms: int | None = None

    @property
    def is_measuring(self) -> bool:
        """Whether it is being measured."""
        return self._since is not None

    def begin(self) -> None:
        """The old query has ended."""
        self._since = self._clock()
        self.ms = None

    def end(self) -> None:
        """The new one has begun its first trigger."""
        if self._since is not None:
            self.ms = round((self._clock() - self._since) * 1000)
        self._since = None

    def record(self, seconds: float) -> None:
        """A rescale ended no query, but held all of them for so long. One that is measured still goes on to be."""
        if self._since is None:
            self.ms = round(seconds * 1000)

    def abandon(self) -> None:
        """There is no new one: what comes later is no rescale."""
        self._since = self.ms = None
