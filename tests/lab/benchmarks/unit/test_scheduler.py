"""The benchmark of the scheduler runs, and its page is written where it says."""

from pathlib import Path

import pytest

from tests.lab.benchmarks.scheduler import main
from tests.support.page_sections import replace_section
from tests.support.published_tables import TABLES, age, head


def test_table_has_a_column_for_each_number_of_slots(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n\n<!-- scheduler: begin -->\nold\n<!-- scheduler: end -->\n\nmore\n")
    assert main(["--slots", "100", "200", "--runs", "1", "--write", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "| slots | 100 | 200 |" in printed
    assert "| workers | 10 | 20 |" in printed
    assert "| n log n | x 2.3 |" in printed
    line = age(TABLES["scheduler"], head())
    begin, end = "<!-- scheduler: begin -->\n", "<!-- scheduler: end -->"
    assert page.read_text() == f"# Benchmarks\n\n{begin}{printed}\n{line}\n{end}\n\nmore\n"


def test_page_without_the_section_is_not_touched(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("<!-- other: begin -->\n<!-- other: end -->\n")
    with pytest.raises(ValueError, match="no section 'scheduler'"):
        replace_section(page, "scheduler", "new")
    assert page.read_text() == "<!-- other: begin -->\n<!-- other: end -->\n"
