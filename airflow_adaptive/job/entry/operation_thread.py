"""Runs a long operation of the driver loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from pyspark import InheritableThread

Result = TypeVar("Result")


class OperationThread(Future[Result]):
    """An operation in a thread with the Spark properties of the thread that starts the operation; see `interfaces.Operation`."""

    def __init__(self, act: Callable[[], Result]) -> None:
        super().__init__()
        InheritableThread(target=self._run, args=(act,), name="long-operation", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the operation up to the timeout, and return whether the operation has ended."""
        return not wait([self], timeout_s).not_done

    def _run(self, act: Callable[[], Result]) -> None:
        try:
            self.set_result(act())
        except BaseException as error:  # noqa: BLE001  (raised by the waiting thread)
            self.set_exception(error)
