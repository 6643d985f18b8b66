"""What `make mutants` stands on: its lists name what there is, and its copy does what the original does."""

import json
from types import SimpleNamespace

import pytest

from tests.support.mutation.mutants import EQUIVALENT, PROJECT, SCHEDULER, SCOPES, with_plain_properties

MODULES = [module for scope in SCOPES.values() for module in scope.modules]
ENTRIES = json.loads(EQUIVALENT.read_text())


def source(module: str) -> str:
    return (PROJECT / SCHEDULER / module).read_text()


@pytest.mark.parametrize("path", [test for scope in SCOPES.values() for test in scope.tests])
def test_tests_that_must_notice_are_there(path: str):
    assert (PROJECT / path).exists()


def test_every_policy_is_broken():
    policies = {f"policies/{file.name}" for file in (PROJECT / SCHEDULER / "policies").glob("[!_]*.py")}
    assert policies <= set(MODULES)


def test_every_state_is_broken():
    states = {f"states/{file.name}" for file in (PROJECT / SCHEDULER / "states").glob("[!_]*.py")}
    assert states <= set(MODULES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry['module']}: {entry['to']}")
def test_equivalent_mutant_is_of_a_line_that_there_is(entry: dict[str, str]):
    lines = {line.strip() for line in source(entry["module"]).splitlines()}
    assert set(entry["from"].splitlines()) <= lines
    assert entry["from"] != entry["to"]
    assert entry["why"]


PROPERTIES = '''
class Slots:
    held = 2

    @property
    def twice(self) -> int:
        """Twice as many."""
        return self.held * 2

    def tripled(self) -> int:
        return self.held * 3

    @property
    def both(self) -> int:
        return self.twice + self.tripled()
'''


def test_properties_are_plain_functions_that_give_the_same():
    plain = with_plain_properties(PROPERTIES)
    assert "@property" not in plain
    assert "def _get_twice(self) -> int:" in plain
    made: dict[str, type] = {}
    exec(plain, made)
    slots = made["Slots"]()
    assert SimpleNamespace(twice=slots.twice, both=slots.both) == SimpleNamespace(twice=4, both=10)


@pytest.mark.parametrize("module", MODULES)
def test_module_without_decorated_properties_is_still_one(module: str):
    compile(with_plain_properties(source(module)), module, "exec")
