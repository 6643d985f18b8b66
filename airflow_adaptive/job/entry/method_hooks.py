"""Replaces methods and properties of pyspark in this process, so that the runtime handles the calls of the script."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def replace_methods(owner: Any, names: tuple[str, ...], around: Callable[..., Any]) -> None:
    """Replace methods of a class, or functions of a module: a call becomes `around(original, *args, **options)`."""
    for name in names:
        setattr(owner, name, replacement(getattr(owner, name), around))


def replace_properties(owner: type, names: tuple[str, ...], around: Callable[..., Any]) -> None:
    """Replace properties of a class: a read becomes `around(original, object)`."""
    for name in names:
        read = owner.__dict__[name].fget
        setattr(owner, name, property(replacement(read, around), doc=read.__doc__))


def replacement(original: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `around` with the original function and the arguments."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return around(original, *args, **options)

    return call
