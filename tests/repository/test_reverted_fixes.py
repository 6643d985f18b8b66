"""The patches that bring fixed defects back (`make lab TASK=fleet-defects`) apply to the code of today."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.fleet.reverts import PATCHES, defects
from tests.support.repository import ROOT


@pytest.mark.parametrize("patch", sorted(PATCHES.glob("*.patch")), ids=lambda patch: patch.stem)
def test_patch_of_a_defect_applies(patch: Path) -> None:
    applied = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True, check=False)
    assert applied.stderr == ""


def test_each_defect_names_a_unit_test() -> None:
    tests = [defect.test.partition("::") for defect in defects()]
    assert [name for file, _, name in tests if f"def {name}(" not in (ROOT / file).read_text()] == []
