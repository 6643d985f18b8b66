"""The tests run on the database that the option --database selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.databases.fixtures import SQLITE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a real database, run none of these tests. Pytest counts them as deselected."""
    if config.getoption("database") != SQLITE:
        return
    deselected = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]
