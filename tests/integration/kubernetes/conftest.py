"""Selects the tests that an existing cluster allows."""

from __future__ import annotations

import os

import pytest

from tests.support.kubernetes.fixtures import stays_in_namespace
from tests.support.kubernetes.requirements import CONTEXT_VARIABLE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On an existing cluster, run only the tests that stay in a namespace of their own. Pytest counts the others as deselected."""
    if not os.environ.get(CONTEXT_VARIABLE):
        return
    here = [item for item in items if item.path.is_relative_to(os.path.dirname(__file__))]
    deselected = [item for item in here if not stays_in_namespace(item)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]
