"""The patches that bring fixed defects back into the code, so that the fleet simulator can find the defects."""

import subprocess

import pytest

from tests.support.fleet.reverts import PATCHES, VIOLATED, Defect, Violation, defects, reverted, table
from tests.support.repository import ROOT

DEFECTS = defects()


def test_table_names_each_defect_and_each_patch_once():
    assert [defect.number for defect in DEFECTS] == list(range(1, 1 + len(DEFECTS)))
    assert len(DEFECTS) >= 11
    assert [defect.patch for defect in DEFECTS] == sorted(patch.name for patch in PATCHES.glob("*.patch"))


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.patch)
def test_patch_applies_and_the_patched_modules_compile(defect: Defect):
    patch = PATCHES / defect.patch
    changed = [line.removeprefix("+++ b/") for line in patch.read_text().splitlines() if line.startswith("+++ b/")]
    with reverted(defect) as copy:
        for path in changed:
            compile((copy / path).read_text(), path, "exec")
            assert (copy / path).read_text() != (ROOT / path).read_text()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.patch)
def test_unit_test_of_a_defect_exists(defect: Defect):
    path, _, name = defect.test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()


def test_patch_that_does_not_apply_fails():
    with pytest.raises(subprocess.CalledProcessError), reverted(Defect(number=0, patch="none", defect="", test="")):
        pass


def test_violation_that_the_simulator_prints_becomes_a_row():
    printed = "seed 17: violated activity at 412.5 s: the loop of job-1 has not read the driver status for 46 s"
    line = VIOLATED.fullmatch(printed)
    assert line is not None
    seed, invariant, seconds, text = line.groups()
    violation = Violation(seed=int(seed), invariant=invariant, seconds=float(seconds), text=text)
    rows = table([(DEFECTS[0], violation), (DEFECTS[1], None)]).splitlines()[2:]
    assert rows[0].endswith("| 17 | activity | 412 s |")
    assert rows[1].endswith("|  | **not found** |  |")
