"""The product's `Storage` over the simulated filesystem, and the driver's view of the same files."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive.job.control.interfaces import DirectoryError
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.storage.driver_directory import SimulatedDriverDirectory
from tests.lab.fleet.storage.filesystem import SimulatedFileSystem
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage

ROOT = "bucket/jobs/job-3"


class Directory:
    """A directory through the eyes of a loop and of a driver, whose calls run in a simulated thread."""

    def __init__(self, kind="s3"):
        self.kernel = Kernel()
        self.simulated = SimulatedStorage(self.kernel, Entropy(1), lambda text: None, kind)
        self.storage = Storage(SimulatedFileSystem(self.simulated), ROOT)
        self.driver = SimulatedDriverDirectory(self.simulated, self.storage.uri())
        self.process = SimulatedProcess(self.kernel, "triggerer-1")

    def run(self, work, *arguments):
        results = []

        def call():
            try:
                results.append(work(*arguments))
            except (JobDirectoryError, DirectoryError) as error:
                results.append(error)

        self.process.soon(lambda: self.kernel.start_thread(call))
        self.kernel.run(until=self.kernel.now + 60)
        return results[0]


@pytest.mark.parametrize("kind", ["s3", "s3-compatible", "gs", "hdfs", "disk"])
def test_of_two_writers_one_creates_a_file_and_both_can_repeat_the_call(kind):
    directory = Directory(kind)
    assert directory.run(directory.storage.create, "journal/0000000001.json", b"a") is True
    assert directory.run(directory.storage.create, "journal/0000000001.json", b"b") is False
    assert directory.run(directory.storage.create, "journal/0000000001.json", b"a") is True
    assert directory.run(directory.storage.names, "journal") == ["0000000001.json"]
    assert directory.run(directory.storage.read, "journal/0000000001.json", 10) == b"a"


def test_a_loop_that_lost_the_response_reads_that_it_was_first():
    directory = Directory()
    directory.run(directory.storage.create, "journal/0000000001.json", b"a")
    directory.simulated.faults.lose_responses()
    assert directory.run(directory.storage.create, "journal/0000000002.json", b"a") is True


def test_missing_files_are_missing_for_both():
    directory = Directory()
    assert directory.run(directory.storage.names, "journal") == []
    assert directory.run(directory.storage.read, "status.json", 10) is None
    assert directory.run(directory.storage.remove, "status.json") is None
    assert directory.run(directory.driver.journal_numbers) == []
    assert directory.run(directory.driver.read_journal, 1) is None
    assert directory.run(directory.driver.read_status) is None


def test_loop_and_driver_read_the_files_of_each_other():
    directory = Directory()
    directory.run(directory.storage.create, "journal/0000000007.json", b"document")
    directory.run(directory.storage.create, "journal/notes.txt", b"text")
    directory.run(directory.driver.write_status, b"status")
    assert directory.run(directory.driver.journal_numbers) == [7]
    assert directory.run(directory.driver.read_journal, 7) == b"document"
    assert directory.run(directory.storage.read, "status.json", 10) == b"status"
    assert directory.run(directory.driver.read_status) == b"status"


def test_a_folder_is_removed_with_its_files_only():
    directory = Directory()
    for path in ("code/1/a.py", "code/1/b.py", "code/12/a.py"):
        directory.run(directory.storage.create, path, b"text")
    directory.run(directory.storage.remove_folder, "code/1")
    assert directory.run(directory.storage.names, "code") == ["12"]


@pytest.mark.parametrize("call", ["journal_numbers", "read_status"])
def test_errors_of_the_storage_reach_loop_and_driver_as_their_own(call):
    directory = Directory()
    directory.run(directory.storage.create, "journal/0000000007.json", b"document")
    directory.simulated.faults.fail()
    assert isinstance(directory.run(getattr(directory.driver, call)), DirectoryError)
    assert isinstance(directory.run(directory.driver.write_status, b"x"), DirectoryError)
    assert "503 Slow Down" in str(directory.run(directory.storage.read, "journal/0000000007.json", 10))


def test_checkpoints_are_below_the_job_directory():
    assert Directory().driver.checkpoint("q") == f"{ROOT}/checkpoints/q"
