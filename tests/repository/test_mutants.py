"""What `make mutants` stands on: which code is mutated, the sample, the copy, and the list of survivors."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mutation import workspace
from tests.support.mutation.mutants import candidates, choose
from tests.support.mutation.mutations import MutatedModule, changed_lines
from tests.support.mutation.packages import PACKAGES, SAMPLE, MutatedPackage
from tests.support.mutation.report import SURVIVORS, Result, is_accepted, table
from tests.support.mutation.selection import is_unit_test_of, unit_tests_of
from tests.support.repository import ROOT

ENTRIES = json.loads(SURVIVORS.read_text())


def changes_of(source: str) -> list[tuple[str, str]]:
    module = MutatedModule("module.py", source)
    return [module.change(mutant) for mutant in module.mutants]


# ---- which code is mutated ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "removed", "added"),
    [
        ("MARGIN = 10\n", "MARGIN = 10", "MARGIN = 11"),
        ("class Loop:\n    margin: int = 10\n", "margin: int = 10", "margin: int = 11"),
        ("class Loop:\n    @property\n    def margin(self):\n        return 10\n", "return 10", "return 11"),
        ("def run(loop):\n    loop.claim()\n", "loop.claim()", "pass"),
        ("async def run(loop):\n    await loop.claim()\n", "await loop.claim()", "pass"),
        ("def run(loop):\n    if loop.phase:\n        loop.claim()\n", "if loop.phase:", "if not (loop.phase):"),
        ("def run(loop):\n    return loop.phase\n", "return loop.phase", "return None"),
        (
            "def run(loop, phase='claim'):\n    pass\n",
            "def run(loop, phase='claim'):",
            "def run(loop, phase='XXclaimXX'):",
        ),
    ],
)
def test_code_has_mutants(source: str, removed: str, added: str):
    assert (removed, added) in changes_of(source)


@pytest.mark.parametrize(
    "source",
    [
        'def run():\n    """Run the loop."""\n',
        "def run(job):\n    log.warning('the job %s hangs', job.name(1))\n",
        "def run(job):\n    raise ValueError(f'{job.name(1)} hangs', 'hangs')\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    LIMIT = 1\n",
        "log = logging.getLogger('loop')\n",
        "T = TypeVar('T')\n",
        "Text = str | bytes\n",
    ],
)
def test_types_and_human_readable_texts_have_no_mutants(source: str):
    assert changes_of(source) == []


def test_texts_are_not_replaced_as_arguments():
    assert changes_of("def run(end):\n    end('the job ends', 'ENDED')\n") == [
        ("end('the job ends', 'ENDED')", "pass"),
        ("end('the job ends', 'ENDED')", "end('the job ends', None)"),
        ("end('the job ends', 'ENDED')", "end('the job ends', )"),
        ("end('the job ends', 'ENDED')", "end('the job ends', 'XXENDEDXX')"),
        ("end('the job ends', 'ENDED')", "end('the job ends', 'ended')"),
    ]


def test_case_of_a_header_is_not_changed():
    added = [added for _, added in changes_of("def run(request):\n    return request.headers.get('origin', 'none')\n")]
    assert "return request.headers.get('XXoriginXX', 'none')" in added
    assert "return request.headers.get('origin', 'NONE')" in added
    assert "return request.headers.get('ORIGIN', 'none')" not in added


def test_equal_changes_of_a_function_are_different_mutants():
    module = MutatedModule("module.py", "def run():\n    a = 1\n    a = 1\n")
    assert len({mutant.key for mutant in module.mutants}) == len(module.mutants)
    assert len({module.mutated_source(mutant) for mutant in module.mutants}) == len(module.mutants)


def test_change_is_reported_without_equal_lines():
    assert changed_lines("a\n  b\nc\n", "a\n  d\n  e\nc\n") == ("b", "d\ne")


# ---- which mutants run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_pattern_finds_modules_and_every_test_directory_exists(package: MutatedPackage):
    assert all(list((ROOT / "airflow_adaptive").glob(pattern)) for pattern in package.modules)
    assert all((ROOT / folder).is_dir() for folder in package.folders)


def test_every_policy_is_mutated():
    policies = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_adaptive/scheduler/policies").glob("*.py")
    }
    assert policies <= set(PACKAGES[0].paths())


IMPORTS = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
for module in sys.argv[1:]:
    for name in [name for name in sys.modules if name.startswith("airflow_adaptive")]:
        del sys.modules[name]
    try:
        importlib.import_module(module.removesuffix(".py").replace("/", "."))
        print(module)
    except ImportError:
        pass
"""


def test_every_module_of_the_job_that_needs_no_spark_is_mutated():
    modules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_adaptive/job").rglob("[!_]*.py")]
    run = subprocess.run([sys.executable, "-c", IMPORTS, *modules], capture_output=True, text=True, check=True)
    job = next(package for package in PACKAGES if package.name == "job")
    assert set(run.stdout.split()) == {path for path in job.paths() if not path.endswith("__init__.py")}


def options(*, shard: str = "1/1", all: bool = False) -> argparse.Namespace:
    return argparse.Namespace(shard=shard, all=all)


def test_sample_has_a_fixed_size_and_does_not_depend_on_other_modules():
    found = candidates(next(package for package in PACKAGES if package.name == "spark"))
    sample = choose(found, options())
    assert len(sample) == SAMPLE
    module = sample[0].mutant.module
    of_module = [candidate.mutant.key for candidate in found if candidate.mutant.module == module]
    assert of_module == sorted(mutant.key for mutant in sample[0].module.mutants)


def test_every_mutant_belongs_to_one_shard():
    found = candidates(next(package for package in PACKAGES if package.name == "launch"))
    shards = [choose(found, options(shard=f"{number}/3", all=True)) for number in (1, 2, 3)]
    assert sorted(one.mutant.key for shard in shards for one in shard) == [one.mutant.key for one in found]


def test_prefix_contains_the_tests_of_a_module():
    prefix = unit_tests_of("airflow_adaptive/runtime/journal/storage.py")
    assert list(ROOT.glob(f"{prefix}*.py"))


@pytest.mark.parametrize(
    ("module", "test", "is_unit_test"),
    [
        ("control/watchdog_process", "control/test_watchdog.py::test_a", True),
        ("control/driver_loop", "control/test_driver_loop_fence.py::test_a", True),
        ("control/fence", "control/test_driver_loop_fence.py::test_a", False),
        ("control/watchdog", "entry/test_watchdog.py::test_a", False),
        ("control/watchdogs", "control/test_watchdog.py::test_a", False),
    ],
)
def test_unit_tests_of_a_module_are_recognized_by_their_names(module: str, test: str, is_unit_test: bool):
    assert is_unit_test_of(f"airflow_adaptive/job/{module}.py", f"tests/unit/job/{test}") is is_unit_test


def test_mutant_replaces_the_module_until_it_has_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace, "COPY", tmp_path)
    module = tmp_path / "module.py"
    module.write_text("A = 1\n")
    before = module.stat().st_mtime_ns
    with workspace.mutated("module.py", "A = 2\n"):
        assert module.read_text() == "A = 2\n"
        assert module.stat().st_mtime_ns - before >= 10**9  # bytecode has the time of the source in seconds
    assert module.read_text() == "A = 1\n"
    assert os.stat(module).st_mtime_ns // 10**9 == before // 10**9


# ---- the gate -------------------------------------------------------------------------------------------------------


def result(status: str, added: str = "pass") -> Result:
    return Result(
        package="p", module="m", function="f", line=1, removed="a()", added=added, status=status, tests=1, seconds=0
    )


def test_gate_accepts_fewer_than_5_percent_survivors_with_a_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.support.mutation.report.survivors", lambda: {("m", "a()", "pass"): "no effect"})
    detected, survivor = result("detected"), result("survived")
    assert is_accepted([detected] * 96 + [survivor] * 4, whole=False)
    assert not is_accepted([detected] * 95 + [survivor] * 5, whole=False)
    assert is_accepted([detected] * 95 + [survivor] * 5, whole=True)
    assert not is_accepted([detected] * 99 + [result("survived", added="b()")], whole=True)
    assert not is_accepted([], whole=True)


def test_new_sample_replaces_the_row_of_its_package_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.support.mutation.report.survivors", lambda: {("m", "a()", "pass"): "no effect"})
    first = table({"job": [result("detected")], "spark": [result("survived")]}, "0000001")
    second = table({"spark": [result("detected"), result("survived", added="b()")]}, "0000002", first)
    assert first.splitlines()[2:] == [
        "| `job` | 1 | 1 | 0 | 0 | `0000001` |",
        "| `spark` | 1 | 0 | 1 | 0 | `0000001` |",
    ]
    assert second.splitlines()[2:] == [
        "| `job` | 1 | 1 | 0 | 0 | `0000001` |",
        "| `spark` | 2 | 1 | 0 | 1 | `0000002` |",
    ]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry['module']}: {entry['to']}")
def test_survivor_is_a_mutant_of_a_line_that_exists(entry: dict[str, str]):
    lines = {line.strip() for line in (ROOT / entry["module"]).read_text().splitlines()}
    assert set(entry["from"].splitlines()) <= lines
    assert entry["from"] != entry["to"]
    assert entry["why"]
