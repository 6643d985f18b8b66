"""Which tests run which lines: a recording of all tests, and the selection of the tests for a mutant."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from coverage import CoverageData

from tests.support.mutation.mutations import Mutant
from tests.support.mutation.packages import MutatedPackage
from tests.support.mutation.workspace import COPY, DIRECTORY, RECORD, ForkServer, digest_of

COVERAGE: Final = DIRECTORY / "coverage"
RECORDING: Final = DIRECTORY / "recording.json"
HOURS: Final = 4 * 3600
SECONDS_OF_OTHERS: Final = 60.0
"""Recorded duration of the tests of a mutant that are not unit tests of its module."""


class FailedTestsError(Exception):
    """Some tests fail without a mutant."""


def record(server: ForkServer, package: MutatedPackage) -> Recording:
    """Run the test modules that are new or have changed, and return the recording."""
    known: dict[str, Any] = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    sources, modules, seconds = (known.get(name, {}) for name in ("sources", "modules", "seconds"))
    new_modules = {path: digest_of([COPY / path]) for test in package.folders for path in paths_of(test, "test_*.py")}
    new_sources = {path: digest_of([COPY / path]) for path in paths_of("airflow_adaptive", "*.py")}
    outdated = sorted(path for path, digest in new_modules.items() if modules.get(path) != digest)
    sources = new_sources | sources
    if outdated:
        run = record_modules(server, outdated)
        kept = {test: spent for test, spent in seconds.items() if module_of(test) not in outdated}
        modules, seconds = modules | new_modules, kept | run["seconds"]
        RECORDING.write_text(json.dumps({"sources": sources, "modules": modules, "seconds": seconds}))
    changed = {path for path, digest in new_sources.items() if sources[path] != digest}
    return Recording(seconds, changed)


def paths_of(folder: str, pattern: str) -> list[str]:
    """Return the paths of the files of a folder of the copy, relative to the copy."""
    return [path.relative_to(COPY).as_posix() for path in (COPY / folder).rglob(pattern)]


def record_modules(server: ForkServer, modules: Sequence[str]) -> dict[str, Any]:
    """Run test modules with coverage."""
    print(f"recording {len(modules)} test modules", flush=True)
    options = [
        "-ptests.support.mutation.recorder",
        "--maxfail=1000",
        "--cov",
        "--cov-context=test",
        "--cov-append",
        "--cov-report=",
    ]
    RECORD.unlink(missing_ok=True)
    code = server.run([*options, *modules], HOURS, writes_bytecode=True)
    if not RECORD.exists():
        raise FailedTestsError(f"pytest ended with exit code {code}. See .mutants/pytest.log.")
    run: dict[str, Any] = json.loads(RECORD.read_text())
    if run["failed"]:
        raise FailedTestsError(f"These tests fail without a mutant: {run['failed']}. See .mutants/pytest.log.")
    server.restart(run["libraries"])
    return run


def module_of(test: str) -> str:
    """Return the path of the module of a test."""
    return test.partition("::")[0]


class Recording:
    """The tests of each line, and the duration of each test."""

    def __init__(self, seconds: Mapping[str, float], changed: Collection[str]) -> None:
        """Read the coverage data.

        Args:
            seconds: duration of each test.
            changed: modules whose lines have changed since the first recording.
        """
        self.seconds = seconds
        self._changed = changed
        self._data = CoverageData(str(COVERAGE))
        self._data.read()

    @cache  # noqa: B019  the recording lives as long as the process
    def _tests_by_line(self, module: str) -> Mapping[int, frozenset[str]]:
        contexts = self._data.contexts_by_lineno(str(COPY / module))
        return {line: frozenset(self._known(names)) for line, names in contexts.items()}

    def tests_of(self, module: str) -> set[str]:
        """Return the tests that run any line of a module."""
        return set().union(*self._tests_by_line(module).values())

    def _known(self, contexts: Iterable[str]) -> Iterable[str]:
        return (test for test in (context.rpartition("|")[0] for context in contexts) if test in self.seconds)

    def tests_for(self, mutant: Mutant, directories: tuple[str, ...]) -> Sequence[Sequence[str]]:
        """Return the tests in some directories that can detect a mutant: the unit tests of its module, and then the fastest others.

        All unit tests of the module count, because a test may run the module in another process. A line that runs while the module is imported has
        the tests of the whole module, and the tests of the modules that import it. So has a line of a module that has changed since the first recording.
        """
        by_line = self._tests_by_line(mutant.module)
        found = {test for line in mutant.lines for test in by_line.get(line, ())}
        if not mutant.function or not found or mutant.module in self._changed:
            found = self._tests_of_import(mutant.module)
        found |= self._unit_tests_of(mutant.module)
        tests = sorted((test for test in found if test.startswith(directories)), key=lambda test: self.seconds[test])
        own = [test for test in tests if is_unit_test_of(mutant.module, test)]
        others = self._of_a_minute([test for test in tests if not is_unit_test_of(mutant.module, test)])
        return [group for group in (own, others) if group]

    def _of_a_minute(self, tests: Sequence[str]) -> Sequence[str]:
        """Return the first tests. A mutant that only the hundredth test detects needs a unit test."""
        ends = accumulate(self.seconds[test] for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end < SECONDS_OF_OTHERS]

    def _tests_of_import(self, module: str) -> set[str]:
        users = [module, *importers()[module]]
        return self._unit_tests_of(module).union(*map(self.tests_of, users))

    def _unit_tests_of(self, module: str) -> set[str]:
        return {test for test in self.seconds if is_unit_test_of(module, test)}


def is_unit_test_of(module: str, test: str) -> bool:
    """Return whether the name of a test module begins with the name of a module, or is the beginning of this name.

    For example, `test_watchdog` tests the modules `watchdog` and `watchdog_process`, and `test_loop_kills` tests the module `loop`.
    """
    own = unit_tests_of(module)
    return test.startswith(own) or own.startswith(f"{module_of(test).removesuffix('.py')}_")


def unit_tests_of(module: str) -> str:
    """Return the beginning of the names of the unit tests of a module."""
    path = Path(module)
    return (Path("tests/unit").joinpath(*path.parts[1:-1]) / f"test_{path.stem}").as_posix()


@cache
def importers() -> Mapping[str, Sequence[str]]:
    """Return the modules that import each module."""
    modules = {path: path.relative_to(COPY).as_posix() for path in (COPY / "airflow_adaptive").rglob("*.py")}
    found: dict[str, list[str]] = {module: [] for module in modules.values()}
    for path, importer in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    found.get(f"{name.replace('.', '/')}.py", []).append(importer)
    return found
