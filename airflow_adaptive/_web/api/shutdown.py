"""Ends long-running responses when the server receives a signal to stop.

A server notifies its apps of the shutdown only after all responses have ended, and Airflow's API server waits two minutes for them.
Therefore this module also handles the signal, and then calls the previous handler of the signal.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def call_when_stopped(callback: Callable[[], object]) -> None:
    """Call a function in the running event loop when this process receives a signal to stop.

    Does nothing outside the main thread, where Python cannot handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        signal.signal(number, _after(signal.getsignal(number), loop, callback))


def _after(previous: Any, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> Any:
    """Return a handler that calls the function, and then the previous handler."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)
        if callable(previous):
            previous(number, frame)
        elif previous is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handle
