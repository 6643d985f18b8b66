"""How long Flink's job writes nothing when a process of it is killed, or when it is replaced by way of a savepoint."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_adaptive.local.waiting import wait_until
from tests.lab.benchmarks.rescale import feed
from tests.lab.benchmarks.rescale.case import seed
from tests.lab.benchmarks.rescale.flink.flink_case import SCRIPT
from tests.lab.benchmarks.rescale.flink.flink_log import SinkFiles
from tests.lab.benchmarks.rescale.flink.installation import SLOTS, Flink, find

KEYS: Final = 10_000
FILE_INTERVAL_S: Final = 0.5
EFFECT_S: Final = 240.0

FAILOVERS: Final[Mapping[str, str]] = {
    "Flink, killed TaskManager": "taskmanager-0",
    "Flink, killed JobManager (ZooKeeper)": "jobmanager",
    "Flink, changed job by savepoint": "",
}
"""Name -> process that is killed; "" for a job that is replaced."""


def measure_failovers(environment: Path, process: str, repetitions: int) -> list[float]:
    """Return the seconds without output of each repetition: until a record that was created after the kill can be seen, or between the rows of two jobs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        seed(root / "in", KEYS)
        (root / "out").mkdir()
        with Flink(find(environment), root / "flink", is_ha=process == "jobmanager") as flink:
            flink.start()
            flink.submit(SCRIPT, root / "in", root / "out")
            with feeding(root / "in") as created:
                wait_visible(root, lambda sink: len(sink.highest) == KEYS)
                return [measure_failover(flink, root, process, created) for _ in range(repetitions)]


@contextmanager
def feeding(folder: Path) -> Iterator[dict[int, float]]:
    """Write a file every half second, and yield when each of them was created, seconds since the epoch."""
    created: dict[int, float] = {}
    stopped = threading.Event()

    def feed_all() -> None:
        for number in itertools.count():
            if stopped.wait(FILE_INTERVAL_S):
                return
            feed.put(folder, number, KEYS)
            created[number] = time.time()

    thread = threading.Thread(target=feed_all)
    thread.start()
    try:
        yield created
    finally:
        stopped.set()
        thread.join()


def measure_failover(flink: Flink, root: Path, process: str, created: dict[int, float]) -> float:
    """Kill the process, or replace the job, once."""
    before = len(created) + 5
    wait_visible(root, lambda sink: before in sink.seen)
    if process:
        began = flink.kill(process)
    else:
        savepoint = flink.stop()
        began = max(visible(root).seen.values())
        flink.submit(SCRIPT, root / "in", root / "out", savepoint=savepoint)

    def seen() -> list[float]:
        return [at for number, at in visible(root).seen.items() if created.get(number, 0) > began and at > began]

    wait_until(lambda: len(seen()) >= 10, EFFECT_S, "records after the fault", 0.1)
    flink.wait_running(SLOTS)
    return min(seen()) - began


def visible(root: Path) -> SinkFiles:
    """Return what the sink has committed."""
    sink = SinkFiles()
    sink.read(root / "out")
    return sink


def wait_visible(root: Path, condition: Callable[[SinkFiles], bool]) -> None:
    """Wait until the output of the job fulfils a condition."""
    wait_until(lambda: condition(visible(root)), EFFECT_S, "the output of Flink", 0.5)
