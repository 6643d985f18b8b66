"""Mutation testing: break the scheduler in small ways and see whether the tests notice.

    python scripts/mutants.py [MODULE ...]   # policies/rescaling.py, say; all of MODULES by default

Runs mutmut on a copy of the project. A mutant that no test notices is a gap in the tests, unless it can't be noticed: such
ones are listed with the reason in `equivalent_mutants.json`. The exit code is 0 if there is no gap.
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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = "airflow_adaptive"
SCHEDULER = f"{PACKAGE}/scheduler"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")

MODULES = (
    "policies/failure_handling.py",
    "policies/load_balancing.py",
    "policies/rescaling.py",
    "policies/restart_backoff.py",
    "policies/slot_allocation.py",
    "policies/task_placement.py",
    "policies/transition_manager.py",
    "job_graph.py",
    "requirements.py",
)
"""What is mutated, as seen from the scheduler."""

TESTS = (
    "tests/scheduler/policies",
    "tests/scheduler/conformance",
    "tests/scheduler/test_requirements.py",
    "tests/scheduler/test_job_graph.py",
    "tests/scheduler/test_declarations.py",
)
"""What must notice."""

CONFIGURATION = """
[tool.mutmut]
source_paths = ["{package}"]
only_mutate = {modules}
also_copy = ["tests"]
do_not_mutate_patterns = ["assert_never"]
pytest_add_cli_args = ["-p", "no:cov"]
pytest_add_cli_args_test_selection = {tests}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change, and what came of it.

    Attributes:
        name: mutmut's.
        module: that is changed, as in `MODULES`.
        status: "killed", "survived" and so on, as mutmut says it.
    """

    name: str
    module: str
    status: str

    @property
    def noticed(self) -> bool:
        """Whether a test failed, or ran for ever."""
        return self.status in ("killed", "timeout", "segfault", "caught by type check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/mutants.py", description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES, help="as seen from the scheduler")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-mutants-") as directory:
        copy = Path(directory)
        prepare(copy, asked.modules)
        mutmut(copy, "run", "--max-children", str(asked.processes), shown=True)
        mutants = list(results(copy, asked.modules))
        gaps = tell(copy, mutants)
    return 1 if gaps or not mutants else 0


# ---- the copy -------------------------------------------------------------------------------------------------------


def prepare(copy: Path, modules: Sequence[str]) -> None:
    """Copy what the tests need, with properties that mutmut can change."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (PACKAGE, "tests"):
        shutil.copytree(PROJECT / name, copy / name, ignore=ignored)
    paths = [f"{SCHEDULER}/{module}" for module in modules]
    for path in paths:
        (copy / path).write_text(with_plain_properties((copy / path).read_text()))
    configuration = CONFIGURATION.format(package=PACKAGE, modules=json.dumps(paths), tests=json.dumps(TESTS))
    (copy / "pyproject.toml").write_text((PROJECT / "pyproject.toml").read_text() + configuration)


def with_plain_properties(source: str) -> str:
    """The source with `name = property(_get_name)` after plain functions: mutmut leaves out what is decorated."""
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


def mutmut(copy: Path, *arguments: str, shown: bool = False) -> str:
    """Run mutmut in the copy, and return what it says."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=copy, check=False, text=True, stdout=None if shown else subprocess.PIPE)
    return done.stdout or ""


def results(copy: Path, modules: Sequence[str]) -> Iterator[Mutant]:
    """All mutants, in mutmut's order."""
    module_of = {f"{SCHEDULER}/{module}".removesuffix(".py").replace("/", "."): module for module in modules}
    for line in mutmut(copy, "results", "--all", "true").splitlines():
        name, separator, status = line.strip().rpartition(": ")
        module = module_of.get(name.rpartition(".")[0])
        if separator and module is not None:
            yield Mutant(name=name, module=module, status=status)


def change(copy: Path, mutant: Mutant) -> tuple[str, str]:
    """The lines that a mutant takes out, and those that it puts in."""
    lines = mutmut(copy, "show", mutant.name).splitlines()
    removed = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    added = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    return "\n".join(removed), "\n".join(added)


# ---- the report -----------------------------------------------------------------------------------------------------


def tell(copy: Path, mutants: Sequence[Mutant]) -> int:
    """Print the table and the gaps; return how many there are."""
    reasons: Mapping[str, str] = {
        _key(entry["module"], entry["from"], entry["to"]): entry["why"] for entry in json.loads(EQUIVALENT.read_text())
    }
    changes = {mutant: change(copy, mutant) for mutant in mutants if not mutant.noticed}
    equivalent = {mutant for mutant, lines in changes.items() if _key(mutant.module, *lines) in reasons}
    gaps = {mutant: lines for mutant, lines in changes.items() if mutant not in equivalent}
    print(f"\n{'module':34} mutants noticed equivalent gaps")
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        print(_row(module, [mutant for mutant in mutants if mutant.module == module], equivalent))
    print(_row("all", mutants, equivalent))
    for mutant, (removed, added) in gaps.items():
        print(f"\n{mutant.module} ({mutant.status}: {mutant.name})\n- {removed}\n+ {added}")
    unused = set(reasons) - {_key(mutant.module, *changes[mutant]) for mutant in equivalent}
    for key in sorted(unused):
        if key.partition("\n")[0] in {mutant.module for mutant in mutants}:
            print(f"\nlisted as equivalent, but there is no such mutant, or it was noticed:\n{key}")
    return len(gaps)


def _key(module: str, removed: str, added: str) -> str:
    return f"{module}\n- {removed}\n+ {added}"


def _row(title: str, mutants: Sequence[Mutant], equivalent: set[Mutant]) -> str:
    counts = Counter(
        "noticed" if mutant.noticed else "equivalent" if mutant in equivalent else "gaps" for mutant in mutants
    )
    return f"{title:34} {len(mutants):7} {counts['noticed']:7} {counts['equivalent']:10} {counts['gaps']:4}"


if __name__ == "__main__":
    sys.exit(main())
