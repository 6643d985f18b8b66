"""A logger for conditions that last: a text that repeats with every cycle of a loop is logged once."""

from __future__ import annotations

import logging


class OnceLogger:
    """Logs a text when the text differs from the previous one."""

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._previous: str | None = None

    def report(self, text: str | None) -> None:
        """Log the text unless it repeats; None means that the condition is over, so that the next text is logged again."""
        if text is not None and text != self._previous:
            self._log.log(self._level, "%s", text)
        self._previous = text
