"""The benchmark of the triggerer runs, and its table has what it promises."""

from pathlib import Path

import pytest

from tests.lab.benchmarks.triggerer.__main__ import main
from tests.support.published_tables import TABLES, age, head


def test_few_jobs_share_a_poll_and_each_reads_its_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "benchmarks.md"
    page.write_text("<!-- triggerer: begin -->\nold\n<!-- triggerer: end -->\n")
    options = ["--jobs", "3", "--runs", "1", "--seconds", "4", "--write", str(page)]
    assert main(options, load=lambda: (0.5, 0.0, 0.0)) == 0
    printed = capsys.readouterr().out
    line = age(TABLES["triggerer"], head())
    assert page.read_text() == f"<!-- triggerer: begin -->\n{printed}\n{line}\n<!-- triggerer: end -->\n"
    assert "Load average before each run: 0.50 - 0.50." in printed
    measurements = metrics_of(printed)
    assert 0.2 < measurements["polls of the master (1/s)"] <= 1.5
    assert measurements["reads of driver status (1/s)"] > measurements["polls of the master (1/s)"]
    assert measurements["reads of the change marker (1/s)"] == 0
    assert 0 < measurements["CPU (cores)"] < 2
    assert measurements["for each job (ms/s)"] > 0


def test_outages_begin_when_all_jobs_run_and_loops_restart(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    outages = ["--master-delay", "0.2", "--storage-delay", "0.01", "--store-hangs", "--restart"]
    assert main(["--jobs", "3", "--runs", "1", "--seconds", "4", *outages], load=lambda: (0.5, 0.0, 0.0)) == 0
    measurements = metrics_of(capsys.readouterr().out)
    assert measurements["reads of control requests (1/s)"] == 0
    assert measurements["longest wait for the state of the cluster (s)"] > 0, "the loops continue without the store"
    assert measurements["longest time between two reads of a driver status (s)"] > 0
    assert measurements["all have taken over after a restart (s)"] > 0


def metrics_of(printed: str) -> dict[str, float]:
    """The column of numbers, by the names of the rows."""
    cells = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    return {name: float(figure.replace(",", "")) for name, figure in cells if " - " not in figure}
