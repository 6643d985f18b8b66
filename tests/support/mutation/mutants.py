"""Mutation testing: change the scheduler in small ways, and check that the tests detect each change.

    python tests/support/mutation/mutants.py [SCOPE_OR_MODULE ...]   # for example policies, core, states/executing.py; all by default

Runs mutmut on a copy of the project. A mutant that no test detects is a gap in the tests, unless no test can detect it:
`equivalent_mutants.json` lists these mutants with the reason. The exit code is 0 if there is no gap.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.repository import ROOT

PROJECT = ROOT
PACKAGE = "airflow_adaptive"
SCHEDULER = f"{PACKAGE}/scheduler"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Modules, relative to the scheduler, and the tests that must detect their mutants."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


SCOPES = {
    "policies": Scope(
        modules=(
            "policies/failure_handling.py",
            "policies/jitter.py",
            "allocator/load_balancing.py",
            "policies/rescaling.py",
            "policies/restart_backoff.py",
            "allocator/slot_sharing.py",
            "allocator/task_placement.py",
            "policies/transition_manager.py",
            "job_graph.py",
            "requirements.py",
        ),
        tests=(
            "tests/unit/scheduler/policies",
            "tests/unit/scheduler/allocator",
            "tests/unit/testing/conformance",
            "tests/unit/scheduler/test_requirements.py",
            "tests/unit/scheduler/test_job_graph.py",
        ),
    ),
    "core": Scope(
        modules=(
            "machine.py",
            "state_transitions/steps.py",
            "state_transitions/start.py",
            "state_transitions/restart.py",
            "state_transitions/recovery.py",
            "state_transitions/stop.py",
            "resource_checks.py",
            "states/created.py",
            "states/deploying.py",
            "states/ending.py",
            "states/executing.py",
            "states/restarting.py",
            "states/restarting_locally.py",
            "states/running.py",
            "states/stop_with_savepoint.py",
            "states/waiting_for_resources.py",
        ),
        tests=(
            "tests/unit/scheduler/states",
            "tests/unit/testing/conformance",
            "tests/unit/scheduler/test_machine_declarations.py",
            "tests/unit/scheduler/test_machine_flip322.py",
            "tests/unit/scheduler/test_machine.py",
            "tests/unit/testing/replay/test_histories.py",
            "tests/unit/scheduler/test_transition_table.py",
        ),
    ),
}

CONFIGURATION = """
[tool.mutmut]
source_paths = ["{package}"]
only_mutate = {modules}
also_copy = ["tests", "docs"]
do_not_mutate_patterns = ["assert_never"]
pytest_add_cli_args = ["-p", "no:cov"]
pytest_add_cli_args_test_selection = {tests}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantResult:
    """The result of one mutant.

    Attributes:
        name: name of the mutant in mutmut.
        module: changed module, as in `SCOPES`.
        status: status in mutmut, for example "killed" or "survived".
        change: removed and added lines; empty if a test has detected the mutant.
        reason: why no test can detect the mutant, None without a reason.
    """

    name: str
    module: str
    status: str
    change: str = ""
    reason: str | None = None

    @property
    def noticed(self) -> bool:
        """Whether a test failed, or did not end."""
        return self.status in NOTICED

    @property
    def gap(self) -> bool:
        """Whether a test is missing."""
        return not self.noticed and self.reason is None


NOTICED = ("killed", "timeout", "segfault", "caught by type check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return the exit code."""
    parser = argparse.ArgumentParser(prog="tests/support/mutation/mutants.py", description=__doc__)
    parser.add_argument("chosen", nargs="*", default=list(SCOPES), metavar="SCOPE_OR_MODULE")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    found_results = [
        result
        for name, scope in SCOPES.items()
        for result in judged(scope, scope.modules if name in options.chosen else options.chosen, options.processes)
    ]
    print_results(found_results)
    return 1 if not found_results or any(result.gap for result in found_results) else 0


def judged(scope: Scope, chosen: Sequence[str], processes: int) -> list[MutantResult]:
    """Return the results of the mutants of the chosen modules of the scope."""
    modules = [module for module in scope.modules if module in chosen]
    if not modules:
        return []
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-mutants-") as directory:
        copy = Path(directory)
        prepare(copy, modules, scope.tests)
        mutmut(copy, "run", "--max-children", str(processes), to_screen=True)
        return list(results(copy, modules))


# ---- the copy -------------------------------------------------------------------------------------------------------


def prepare(copy: Path, modules: Sequence[str], tests: Sequence[str]) -> None:
    """Copy the files that the tests need, with properties that mutmut can change."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (PACKAGE, "tests", "docs"):
        shutil.copytree(PROJECT / name, copy / name, ignore=ignored)
    paths = [f"{SCHEDULER}/{module}" for module in modules]
    for path in paths:
        (copy / path).write_text(with_plain_properties((copy / path).read_text()))
    configuration = CONFIGURATION.format(package=PACKAGE, modules=json.dumps(paths), tests=json.dumps(tests))
    (copy / "pyproject.toml").write_text((PROJECT / "pyproject.toml").read_text() + configuration)


def with_plain_properties(source: str) -> str:
    """Return the source with `name = property(_get_name)` after plain functions, because mutmut skips decorated functions."""
    lines = source.splitlines()
    for node in sorted(_properties(ast.parse(source)), key=lambda node: -node.lineno):
        indent = " " * node.col_offset
        lines.insert(node.end_lineno or node.lineno, f"{indent}{node.name} = property(_get_{node.name})")
        lines[node.lineno - 1] = lines[node.lineno - 1].replace(f"def {node.name}(", f"def _get_{node.name}(", 1)
        del lines[node.decorator_list[0].lineno - 1]
    return "\n".join(lines) + "\n"


def _properties(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and [ast.unparse(d) for d in node.decorator_list] == ["property"]:
            yield node


# ---- mutmut ---------------------------------------------------------------------------------------------------------


def mutmut(copy: Path, *arguments: str, to_screen: bool = False) -> str:
    """Run mutmut in the copy, and return its output."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    output = None if to_screen else subprocess.PIPE
    done = subprocess.run(command, cwd=copy, check=False, text=True, stdin=subprocess.DEVNULL, stdout=output)
    return done.stdout or ""


def results(copy: Path, modules: Sequence[str]) -> Iterator[MutantResult]:
    """Yield the results of all mutants, in the order of mutmut."""
    module_of = {f"{SCHEDULER}/{module}".removesuffix(".py").replace("/", "."): module for module in modules}
    reasons = {(entry["module"], _change(entry["from"], entry["to"])): entry["why"] for entry in _equivalent()}
    for line in mutmut(copy, "results", "--all", "true").splitlines():
        name, separator, status = line.strip().rpartition(": ")
        module = module_of.get(name.rpartition(".")[0])
        if separator and module is not None:
            change = "" if status in NOTICED else diff_of(copy, name)
            reason = reasons.get((module, change))
            yield MutantResult(name=name, module=module, status=status, change=change, reason=reason)


def diff_of(copy: Path, name: str) -> str:
    """What a mutant takes out, and what it puts in."""
    lines = mutmut(copy, "show", name).splitlines()
    removed = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    added = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    return _change("\n".join(removed), "\n".join(added))


def _change(removed: str, added: str) -> str:
    return f"- {removed}\n+ {added}"


def _equivalent() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads(EQUIVALENT.read_text())
    return entries


# ---- the report -----------------------------------------------------------------------------------------------------


def print_results(found_results: Sequence[MutantResult]) -> None:
    """Print the table, the gaps, and what is listed as equivalent for nothing."""
    modules = list(dict.fromkeys(result.module for result in found_results))
    print(f"\n{'module':34} mutants noticed equivalent gaps")
    for module in modules:
        print(_row(module, [result for result in found_results if result.module == module]))
    print(_row("all", found_results))
    for result in found_results:
        if result.gap:
            print(f"\n{result.module} ({result.status}: {result.name})\n{result.change}")
    seen = {(result.module, result.change) for result in found_results}
    for entry in _equivalent():
        change = _change(entry["from"], entry["to"])
        if entry["module"] in modules and (entry["module"], change) not in seen:
            print(f"\nlisted as equivalent, but noticed or not there: {entry['module']}\n{change}")


def _row(title: str, found_results: Sequence[MutantResult]) -> str:
    noticed, gaps = sum(v.noticed for v in found_results), sum(v.gap for v in found_results)
    return f"{title:34} {len(found_results):7} {noticed:7} {len(found_results) - noticed - gaps:10} {gaps:4}"


if __name__ == "__main__":
    sys.exit(main())
