"""The files that a worker keeps of a driver's output stay small."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.job.entry.driver import CHECK_INTERVAL_S, DriverOutput

LIMIT = 1000


class Driver:
    """A driver's directory, its output, and a clock that stands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = 0.0
        self.warnings: list[str] = []
        self.output = DriverOutput(directory, clock=lambda: self.time, warn=self.warnings.append, max_bytes=LIMIT)

    def check(self) -> None:
        self.time += CHECK_INTERVAL_S
        self.output.truncate_if_due()

    def sizes(self) -> dict[str, int]:
        return {file.name: file.stat().st_size for file in sorted(self.directory.iterdir())}


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def test_weeks_of_output_leave_at_most_two_files_of_each_stream(driver: Driver):
    with (driver.directory / "stderr").open("ab") as worker, (driver.directory / "stdout").open("ab") as quiet:
        quiet.write(b"hello\n")
        quiet.flush()
        for number in range(10_000):
            worker.write(b"%09d\n" % number)
            worker.flush()
            driver.check()
    assert driver.sizes() == {"stderr": 10_000 * 10 % 1010, "stderr.old": 1010, "stdout": 6}
    kept = [int(line) for name in ("stderr.old", "stderr") for line in (driver.directory / name).read_text().split()]
    assert kept == list(range(kept[0], 10_000))


def test_sizes_are_checked_at_the_interval_only(driver: Driver):
    driver.output.truncate_if_due()
    (driver.directory / "stdout").write_bytes(b"x" * 2 * LIMIT)
    driver.time = CHECK_INTERVAL_S / 2
    driver.output.truncate_if_due()
    assert driver.sizes() == {"stdout": 2 * LIMIT}
    driver.check()
    assert driver.sizes() == {"stdout": 0, "stdout.old": 2 * LIMIT}


def test_file_that_cannot_be_copied_is_truncated_and_warned_of_once(driver: Driver):
    (driver.directory / "stderr.old").mkdir()
    for _ in range(2):
        (driver.directory / "stderr").write_bytes(b"x" * 2 * LIMIT)
        driver.check()
        assert (driver.directory / "stderr").stat().st_size == 0
    assert len(driver.warnings) == 1
    assert driver.warnings[0].startswith("cannot truncate the driver's output, or cannot keep a copy: ")


def test_directory_without_output_is_unchanged(driver: Driver):
    driver.check()
    assert driver.sizes() == {}
