"""docs/proof.md lists every deliberate difference from Flink."""

import re

from airflow_adaptive.testing.conformance.differences import DIFFERENCES
from tests.support.repository import ROOT


def test_page_lists_every_deliberate_difference():
    page = (ROOT / "docs" / "proof.md").read_text()
    table = page.partition("| Area of the vectors | Difference from Flink |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    assert sorted(rows) == sorted((area, reason) for area, rules in DIFFERENCES.items() for reason in rules)
