"""The packages that are mutated, and the tests that must detect their mutants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.repository import ROOT

PACKAGE: Final = "airflow_adaptive"
TESTS: Final = "tests/unit"
SAMPLE: Final = 150
"""Number of mutants of the sample of a package."""

MAX_SURVIVORS: Final = 0.05
"""Largest part of a sample that may survive, including the survivors with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedPackage:
    """A row of the table.

    Attributes:
        name: name of the row.
        modules: patterns of the modules, relative to `airflow_adaptive`.
        tests: directories of the tests, relative to `tests/unit`: those of the package and of the packages that use it most.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """The directories of the tests, relative to the root of the project."""
        return tuple(f"{TESTS}/{folder}" for folder in self.tests)

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
        tests=("scheduler", "../lab/unit/conformance", "../lab/unit/replay"),
    ),
    # The modules of the job that a Python without pyspark can import.
    MutatedPackage(
        name="job",
        modules=(
            "job/control/*.py",
            "job/protocol/*.py",
            "job/python_version.py",
            "job/spark_internals.py",
            "job/entry/driver_output.py",
            "job/entry/launcher.py",
            "job/entry/method_hooks.py",
            "job/entry/packages.py",
            "job/queries/real_time/gang.py",
            "job/queries/sources/end_offsets.py",
            "job/queries/sources/input_limit.py",
            "job/queries/sources/offsets.py",
            "job/queries/sources/query_plan.py",
            "job/state/damage.py",
        ),
        tests=("job", "runtime", "launch", "../lab/unit/contracts"),
    ),
    MutatedPackage(name="runtime", modules=("runtime/**/*.py",), tests=("runtime", "../lab/unit/contracts")),
    MutatedPackage(name="spark", modules=("spark/**/*.py",), tests=("spark", "hooks", "../lab/unit/contracts")),
    MutatedPackage(name="stores", modules=("stores/**/*.py",), tests=("stores", "launch", "triggers", "plugin/data")),
    MutatedPackage(
        name="launch", modules=("launch/**/*.py",), tests=("launch", "hooks", "operators", "sensors", "triggers")
    ),
    MutatedPackage(
        name="declaration", modules=("declaration/**/*.py",), tests=("declaration", "hooks", "launch", "operators")
    ),
    MutatedPackage(
        name="security",
        modules=(
            "plugin/api/security.py",
            "plugin/api/request_body.py",
            "plugin/api/problems.py",
            "plugin/data/errors.py",
        ),
        tests=("plugin",),
    ),
)
