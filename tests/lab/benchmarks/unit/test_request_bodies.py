"""The benchmark of request bodies sends bodies that the API accepts by their size, and writes its section of the page."""

from pathlib import Path

import pytest

from airflow_adaptive.plugin.api.request_body import MAX_BODY_BYTES
from tests.lab.benchmarks.request_bodies import BODIES, job, main, preview


@pytest.mark.parametrize("name", BODIES)
def test_bodies_almost_have_the_largest_size(name: str):
    assert 0.8 * MAX_BODY_BYTES < len(BODIES[name](MAX_BODY_BYTES)) <= MAX_BODY_BYTES


@pytest.mark.parametrize("name", BODIES)
def test_only_the_valid_body_reaches_the_dry_run(name: str):
    result = preview(BODIES[name](MAX_BODY_BYTES // 8), job(MAX_BODY_BYTES // 8))
    assert isinstance(result, dict) == (name == "valid bounds")


def test_section_of_the_page_has_a_row_for_each_body(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "benchmarks.md"
    page.write_text("<!-- request bodies: begin -->\nold\n<!-- request bodies: end -->\n")
    assert main(["--runs", "1", "--write", str(page)]) == 0
    printed = capsys.readouterr().out
    assert all(f"| {name} | " in printed for name in BODIES)
    assert printed in page.read_text()
