"""docs/proof.md lists every deliberate difference from Flink, and counts the vectors."""

import json
import re
from pathlib import Path

from tests.lab.conformance.differences import DIFFERENCES
from tests.lab.conformance.runner import run
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "proof.md").read_text()


def test_page_lists_every_deliberate_difference():
    table = PAGE.partition("| Area of the vectors | Difference from Flink |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    assert sorted(rows) == sorted((area, reason) for area, rules in DIFFERENCES.items() for reason in rules)


def test_page_counts_the_vectors():
    results = run(json.loads(Path(__file__).with_name("scheduler.json").read_text())).values()
    differing, not_applicable = (
        sum(len(getattr(it, name)) for it in results) for name in ("differing", "not_applicable")
    )
    passed = sum(result.passed for result in results)
    assert f" {passed} pass, {differing} differ on purpose, and {not_applicable} are not applicable." in PAGE
