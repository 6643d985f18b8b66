"""The packages that are mutated, and the tests that must detect their mutants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.repository import ROOT

PACKAGE: Final = "airflow_adaptive"
SAMPLE: Final = 150
"""Number of mutants of the sample of a package."""

MAX_SURVIVORS: Final = 0.05
"""Largest part of a sample that may survive, including the survivors with a reason."""

SCHEDULER_TESTS: Final = ("tests/unit/scheduler", "tests/unit/testing/conformance", "tests/unit/testing/replay")
"""The tests of the scheduler. The tests of the other packages run without them, because they never leave the scheduler."""

OTHER_TESTS: Final = tuple(
    f"tests/unit/{folder.name}"
    for folder in sorted((ROOT / "tests/unit").iterdir())
    if folder.is_dir() and folder.name not in ("scheduler", "__pycache__")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedPackage:
    """A row of the table.

    Attributes:
        name: name of the row.
        modules: patterns of the modules, relative to `airflow_adaptive`.
        tests: directories of the tests.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...] = OTHER_TESTS

    def paths(self) -> Iterator[str]:
        """Yield the paths of the modules, relative to the root of the project."""
        for pattern in self.modules:
            for path in sorted((ROOT / PACKAGE).glob(pattern)):
                yield path.relative_to(ROOT).as_posix()


PACKAGES: Final = (
    MutatedPackage(
        name="policies",
        modules=(
            "scheduler/policies/*.py",
            "scheduler/allocator/*.py",
            "scheduler/job_graph.py",
            "scheduler/requirements.py",
        ),
        tests=SCHEDULER_TESTS,
    ),
    # The modules of the job that a Python without pyspark can import.
    MutatedPackage(name="job", modules=("job/control/*.py", "job/protocol/*.py", "job/entry/driver_output.py")),
    MutatedPackage(name="runtime", modules=("runtime/**/*.py",)),
    MutatedPackage(name="spark", modules=("spark/**/*.py",)),
    MutatedPackage(name="stores", modules=("stores/**/*.py",)),
    MutatedPackage(name="launch", modules=("launch/**/*.py",)),
    MutatedPackage(name="declaration", modules=("declaration/**/*.py",)),
    MutatedPackage(
        name="security",
        modules=(
            "plugin/api/security.py",
            "plugin/api/request_body.py",
            "plugin/api/problems.py",
            "plugin/data/errors.py",
        ),
    ),
)
