"""The simulated storage: calls take time, have their effects without their callers, and fail as planned."""

from __future__ import annotations

import pytest

from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage

FILE = "bucket/jobs/job-3/journal/0000000001.json"
FOLDER = "bucket/jobs/job-3/journal"


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def history():
    return []


@pytest.fixture
def storage(kernel, history):
    return SimulatedStorage(kernel, Entropy(1), history.append)


class Client:
    """A process whose threads make one call each; the results and their times in the order in which the calls end."""

    def __init__(self, kernel, name="triggerer-1"):
        self.process = SimulatedProcess(kernel, name)
        self.results = []

    def call(self, work, *arguments):
        def run():
            try:
                result = work(*arguments)
            except OSError as error:
                result = error
            self.results.append(result)

        self.process.soon(lambda: self.process.kernel.start_thread(run))


def test_a_file_is_created_once_and_read_by_every_process(kernel, storage, history):
    first, second = Client(kernel, "triggerer-1"), Client(kernel, "triggerer-2")
    first.call(storage.create, FILE, b"a")
    kernel.run(until=1)
    second.call(storage.create, FILE, b"b")
    second.call(storage.read, FILE)
    second.call(storage.names, FOLDER)
    second.call(storage.names, "bucket/jobs")
    kernel.run(until=2)
    assert first.results == [None]
    assert sorted(map(repr, second.results)) == [
        f"FileExistsError({FILE!r})",
        "['0000000001.json']",
        "['job-3']",
        "b'a'",
    ]
    assert history == [f"{FILE} created by triggerer-1", f"{FILE} not created by triggerer-2: the file exists"]


def test_a_removed_file_leaves_no_folder(kernel, storage):
    client = Client(kernel)
    client.call(storage.write, FILE, b"a")
    kernel.run(until=1)
    client.call(storage.remove, FILE)
    kernel.run(until=2)
    for call in (storage.read, storage.names, storage.remove):
        client.call(call, FILE if call != storage.names else "bucket")
    kernel.run(until=3)
    assert [type(result) for result in client.results[2:]] == [FileNotFoundError] * 3


def test_a_write_has_its_effect_without_its_caller(kernel, storage):
    client = Client(kernel)
    client.call(storage.create, FILE, b"a")
    kernel.run(until=0.0001)
    client.process.kill()
    kernel.run(until=1)
    assert storage.files.read(FILE) == b"a"
    assert client.results == []


def test_a_new_file_is_missing_in_listings_only(kernel, storage):
    end = storage.faults.lag(1000.0)
    client = Client(kernel)
    client.call(storage.create, FILE, b"a")
    kernel.run(until=1)
    end()
    client.call(storage.read, FILE)
    kernel.run(until=2)
    client.call(storage.names, FOLDER)
    kernel.run(until=3)
    client.call(storage.create, FILE.replace("01.json", "02.json"), b"b")
    kernel.run(until=4)
    client.call(storage.names, FOLDER)
    kernel.run(until=1000)
    client.call(storage.names, FOLDER)
    kernel.run(until=1001)
    assert client.results == [None, b"a", [], None, ["0000000002.json"], ["0000000001.json", "0000000002.json"]]


def test_calls_that_hang_have_their_effects_when_the_fault_ends(kernel, storage):
    end = storage.faults.hang(path="*/job-3/*")
    client = Client(kernel)
    client.call(storage.create, FILE, b"a")
    client.call(storage.create, "bucket/jobs/job-4/x", b"a")
    kernel.run(until=100)
    assert storage.files.paths() == ["bucket/jobs/job-4/x"]
    end()
    kernel.run(until=101)
    assert storage.files.paths("bucket/jobs/job-3") == [FILE]
    assert client.results == [None, None]


@pytest.mark.parametrize(
    ("fault", "arguments", "error", "has_effect"),
    [
        ("fail", {}, "503 Slow Down", False),
        ("fail", {"hosts": "triggerer-*"}, "503 Slow Down", False),
        ("fail", {"hosts": "driver-*"}, None, True),
        ("fail", {"share": 0.0}, None, True),
        ("lose_responses", {}, "503 Slow Down", True),
        ("forbid", {"path": "*/job-3/*"}, "Permission denied", False),
        ("make_read_only", {}, "Read-only file system", False),
        ("fill", {}, "No space left on device", False),
    ],
)
def test_a_call_fails_during_a_fault_and_succeeds_after_it(kernel, storage, fault, arguments, error, has_effect):
    client = Client(kernel)
    end = getattr(storage.faults, fault)(**arguments)
    client.call(storage.write, FILE, b"a")
    kernel.run(until=1)
    assert [getattr(result, "strerror", None) for result in client.results] == [error]
    assert storage.files.contains(FILE) == has_effect
    end()
    client.call(storage.write, FILE, b"b")
    kernel.run(until=2)
    assert client.results[1:] == [None]


@pytest.mark.parametrize("fault", ["make_read_only", "fill"])
def test_a_storage_without_space_or_writes_can_be_read(kernel, storage, fault):
    client = Client(kernel)
    client.call(storage.write, FILE, b"a")
    kernel.run(until=1)
    getattr(storage.faults, fault)()
    client.call(storage.read, FILE)
    kernel.run(until=2)
    client.call(storage.remove, FILE)
    kernel.run(until=3)
    assert client.results[1] == b"a"
    assert storage.files.contains(FILE) == (fault == "make_read_only")


@pytest.mark.parametrize(("fault", "has_effect"), [("hold_responses", True), ("disconnect", False)])
def test_a_host_gets_no_answer_until_the_fault_ends(kernel, storage, fault, has_effect):
    client, other = Client(kernel, "triggerer-1"), Client(kernel, "triggerer-2")
    end = getattr(storage.faults, fault)(hosts="triggerer-1")
    client.call(storage.create, FILE, b"a")
    other.call(storage.create, "bucket/other", b"b")
    kernel.run(until=50)
    assert (client.results, other.results) == ([], [None])
    assert storage.files.contains(FILE) == has_effect
    end()
    kernel.run(until=51)
    assert [type(result) for result in client.results] == [type(None) if has_effect else OSError]


def test_a_slow_storage_answers_later(kernel, storage):
    client = Client(kernel)
    storage.faults.slow(20.0)
    client.call(storage.create, FILE, b"a")
    kernel.run(until=19)
    assert storage.files.contains(FILE)
    assert client.results == []
    kernel.run(until=21)
    assert client.results == [None]
