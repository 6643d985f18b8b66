"""How long Flink's job writes nothing when a process of it is killed, or when it is replaced by way of a savepoint."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_adaptive.local.waiting import wait_until
from tests.lab.benchmarks.rescale import feed
from tests.lab.benchmarks.rescale.case import seed
from tests.lab.benchmarks.rescale.flink.flink_case import SCRIPT
from tests.lab.benchmarks.rescale.flink.flink_log import SinkFiles
from tests.lab.benchmarks.rescale.flink.installation import SLOTS, Flink, find
from tests.support.waiting import repeated

KEYS: Final = 10_000
FILE_INTERVAL_S: Final = 0.5
EFFECT_S: Final = 240.0

FAILOVERS: Final[Mapping[str, str]] = {
    "Flink, killed TaskManager": "taskmanager-0",
    "Flink, killed JobManager (ZooKeeper)": "jobmanager",
    "Flink, changed job by savepoint": "",
}
"""Name -> process that is killed; "" for a job that is replaced."""


def measure_failovers(environment: Path, process: str, repetitions: int) -> list[tuple[float, ...]]:
    """Return the seconds without output of each repetition: until a record that was created after the kill can be seen, or between the rows of two jobs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        seed(root / "in", KEYS)
        (root / "out").mkdir()
        with Flink(find(environment), root / "flink", is_ha=process == "jobmanager") as flink:
            flink.start()
            flink.submit(SCRIPT, root / "in", root / "out")
            output = Output(root / "out")
            with feeding(root / "in") as created:
                output.wait("the state", lambda: len(output.sink.highest) == KEYS)
                return [measure_failover(flink, output, process, created) for _ in range(repetitions)]


@contextmanager
def feeding(folder: Path) -> Iterator[dict[int, float]]:
    """Write a file every half second, and yield when each of them was created, seconds since the epoch."""
    created: dict[int, float] = {}
    numbers = itertools.count()

    def feed_one() -> None:
        number = next(numbers)
        feed.put(folder, number, KEYS)
        created[number] = time.time()

    with repeated(feed_one, FILE_INTERVAL_S):
        yield created


def measure_failover(flink: Flink, output: Output, process: str, created: dict[int, float]) -> tuple[float, ...]:
    """Kill the process, or replace the job, once."""
    before = len(created) + 5
    output.wait("records before the fault", lambda: before in output.sink.seen)
    if process:
        began = flink.kill(process)
    else:
        savepoint = flink.stop()
        output.sink.read(output.folder)
        began = max(output.sink.seen.values())
        flink.submit(SCRIPT, output.folder.parent / "in", output.folder, savepoint=savepoint)

    def seen() -> list[float]:
        return [at for number, at in output.sink.seen.items() if created.get(number, 0) > began and at > began]

    output.wait("records after the fault", lambda: len(seen()) >= 10)
    flink.wait_running(SLOTS)
    return (min(seen()) - began,)


@dataclass(frozen=True, slots=True)
class Output:
    """What the sink has committed to a folder. Each file is read once, so that the reading does not disturb what is measured."""

    folder: Path
    sink: SinkFiles = field(default_factory=SinkFiles)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the output fulfils a condition."""

        def met() -> bool:
            self.sink.read(self.folder)
            return condition()

        wait_until(met, EFFECT_S, f"{what} in the output of Flink", 0.1)
