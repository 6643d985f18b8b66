"""Calls of the coroutines of a fake from synchronous code."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def result_of(call: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine of a fake, which never yields to the event loop."""
    try:
        call.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise RuntimeError("the coroutine of a fake yielded to the event loop")
