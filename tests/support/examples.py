"""How much the unit tests try: a part of it in `make check` and `make test`, and all of it in the nightly run (`make lab TASK=unit`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

CHECK: Final = "check"
NIGHTLY: Final = "nightly"
"""Profiles of Hypothesis; its option `--hypothesis-profile` selects one."""

ALL: Final = 100
"""Examples of a test that states no number, in the nightly run."""


def register_profiles() -> None:
    """Load `CHECK` unless the option selects another profile. Examples have no time limit, because other programs may use the machine."""
    for name, number in ((NIGHTLY, ALL), (CHECK, ALL // 5)):
        settings.register_profile(
            name, max_examples=number, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
    settings.load_profile(CHECK)


def is_nightly() -> bool:
    """Return whether this run tries everything."""
    return settings.get_current_profile_name() == NIGHTLY


def examples(number: int) -> int:
    """Return how many of a number of examples this run tries."""
    return number * settings().max_examples // ALL


def long_except(values: Iterable[Any], *kept: object) -> list[Any]:
    """Return the values of a parameter. `make check` tries those that are kept, and the nightly run the others, too."""
    return [value if value in kept else _long(value) for value in values]


def _long(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
