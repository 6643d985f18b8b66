"""A pytest plugin that records the duration of each test, the tests that fail, and the libraries that the tests import."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

OUTPUT: Final = "MUTATION_RECORDING"
"""Environment variable: file that the plugin writes."""

SKIPPED: Final = ("airflow_adaptive", "dags", "tests", "__main__")

_seconds: Counter[str] = Counter()
_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the duration of a phase of a test."""
    _seconds[report.nodeid] += report.duration  # type: ignore[assignment]  # a counter may count fractions
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the record."""
    libraries = [
        name
        for name, module in sys.modules.items()
        if getattr(module, "__spec__", None) and name.partition(".")[0] not in SKIPPED
    ]
    record = {"seconds": dict(_seconds), "failed": sorted(_failed), "libraries": libraries}
    Path(os.environ[OUTPUT]).write_text(json.dumps(record))
