"""Parsing of the values of options: numbers, choices, flags, lists of patterns and names of classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from pkgutil import resolve_name
from typing import TypeVar

from airflow_adaptive._core.scheduler.allocator.load_balancing import LoadBalanceMode
from airflow_adaptive._core.scheduler.errors import ScaleUpControllerError
from airflow_adaptive._core.scheduler.policies.rescaling import (
    CustomController,
    MinimalIncrease,
    ScaleUpController,
    Tier,
)

Choice = TypeVar("Choice", bound=StrEnum)

MINIMAL_INCREASE = "minimal-increase"
"""Name of FLIP-160's default scale-up controller."""

_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

_LOAD_BALANCE_ALIASES = {
    "true": LoadBalanceMode.SLOTS,
    "false": LoadBalanceMode.NONE,
    "task_balanced_preferred": LoadBalanceMode.TASKS,
    "local_input_preferred": LoadBalanceMode.NONE,
}
"""Values of Flink's older options `cluster.evenly-spread-out-slots` and `slot.sharing-strategy`."""


def one_or_more(value: object) -> int:
    """Return a whole number of at least 1. Raises `ValueError`."""
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None
    if number < 1:
        raise ValueError(f"should have a value of 1 or higher, not {value!r}")
    return number


def one_of(choices: type[Choice]) -> Callable[[object], Choice]:
    """Return a function that parses one of the choices, without regard to case, and raises `ValueError` for other values."""

    def parse(value: object) -> Choice:
        try:
            return choices(str(value).lower())
        except ValueError:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}") from None

    return parse


def rescale_tier(value: object) -> Tier:
    """Return the rescale tier with this number or name. Raises `ValueError`."""
    text = str(value).lower()
    for tier in Tier:
        if text in (str(tier.value), tier.name.lower()):
            return tier
    raise ValueError(f"{value!r} is none of {', '.join(f'{tier.value} ({tier.name.lower()})' for tier in Tier)}")


def load_balance_mode(value: object) -> LoadBalanceMode:
    """Return the mode with this name, or the mode for a value of Flink's older options. Raises `ValueError`."""
    name = str(value).lower()
    return _LOAD_BALANCE_ALIASES.get(name) or one_of(LoadBalanceMode)(name)


def flag(value: object) -> bool:
    """Return true or false. Raises `ValueError`."""
    known = _FLAGS.get(str(value).lower())
    if known is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return known


def reactive(value: object) -> bool:
    """Return a flag; `reactive`, the value of Flink's `scheduler-mode`, is true. Raises `ValueError`."""
    return str(value).lower() == "reactive" or flag(value)


def patterns(value: object) -> tuple[str, ...]:
    """Return the patterns of a list, or of a text with commas or spaces between patterns. Raises `ValueError`."""
    if value is None:
        return ()
    items = re.split(r"[,\s]+", value.strip()) if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{value!r} is not a list of patterns: use, for example, 'ValueError, *.MyError'")
    return tuple(item for item in items if item)


def scale_up_controller(value: object) -> str:
    """Return the name of a controller that can be loaded. Raises `ValueError`."""
    load_scale_up_controller(str(value), min_increase=1)
    return str(value)


@cache
def load_scale_up_controller(name: str, min_increase: int) -> ScaleUpController:
    """Return the controller with this name: `minimal-increase`, or an instance of an importable class.

    Args:
        name: `minimal-increase`, or "package.module:Class" for a class without arguments.
        min_increase: smallest increase that `minimal-increase` accepts.

    Raises:
        ScaleUpControllerError: the class cannot be loaded, or is not a `ScaleUpController`.
    """
    if name == MINIMAL_INCREASE:
        return MinimalIncrease(min_increase=min_increase)
    try:
        controller = resolve_name(name)()
    except Exception as error:
        text = f"{name!r} is neither {MINIMAL_INCREASE} nor an importable 'module:Class': {error}"
        raise ScaleUpControllerError(text) from error
    if not callable(getattr(controller, "can_scale_up", None)):
        raise ScaleUpControllerError(f"{name!r} has no method can_scale_up(current, new)")
    return CustomController(name=name, controller=controller)
