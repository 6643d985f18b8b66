"""Conversion of rendered templates, which are text, to the numbers that the parameters of a job need."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from typing import Any, Final

NUMBERS: Final = ("parallelism", "max_parallelism", "driver_cores", "executor_cores")
"""Templated parameters that are numbers, pairs of numbers or None."""


def with_numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with numbers instead of text. The validation rejects other text."""
    return {name: _number(value) if name in NUMBERS else value for name, value in parameters.items()}


def _number(value: Any) -> Any:
    """Return "4" as 4, and "(1, 8)", "[1, 8]" and ("1", "8") as pairs of numbers."""
    if isinstance(value, list | tuple):
        return tuple(_number(item) for item in value)
    try:
        return literal_eval(value.strip()) if isinstance(value, str) else value
    except (SyntaxError, ValueError):
        return value
