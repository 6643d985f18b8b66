"""Lets answers that go on for minutes end when the server is told to stop.

A server tells its apps that it stops only when all answers have ended, and waits for them: Airflow's for two minutes. So the signal
that stops it is listened to here as well, and then given to whoever listened before.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def call_when_stopped(work: Callable[[], object]) -> None:
    """Have something done in the running event loop when this process is told to stop.

    Nothing is done where signals can't be listened to: outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        signal.signal(number, _after(signal.getsignal(number), loop, work))


def _after(before: Any, loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> Any:
    """A handler that has the work done, and then does what was done before."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(work)
        if callable(before):
            before(number, frame)
        elif before is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handle
