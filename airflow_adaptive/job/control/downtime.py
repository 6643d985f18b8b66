"""Measures the downtime of a rescale: the time during which no query can run because of it."""

from __future__ import annotations

from collections.abc import Callable


class Downtime:
    """The downtime of the last rescale.

    Attributes:
        ms: downtime in milliseconds; None before the first rescale, during a measurement, and after a failure or HOLD.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create a measurement that has not begun; `clock` is monotonic and returns seconds."""
        self._clock = clock
        self._since: float | None = None
        self.ms: int | None = None

    @property
    def is_measuring(self) -> bool:
        """Whether a measurement has begun and not ended."""
        return self._since is not None

    def begin(self) -> None:
        """Begin the measurement: the old query has ended."""
        self._since = self._clock()
        self.ms = None

    def end(self) -> None:
        """End the measurement: the first trigger of the new query has begun."""
        if self._since is not None:
            self.ms = round((self._clock() - self._since) * 1000)
        self._since = None

    def record(self, seconds: float) -> None:
        """Record the downtime of a rescale that blocked all queries without ending them.

        Does not affect a running measurement.
        """
        if self._since is None:
            self.ms = round(seconds * 1000)

    def abandon(self) -> None:
        """Abandon the measurement: no new query starts, and a later start is not part of the rescale."""
        self._since = self.ms = None
