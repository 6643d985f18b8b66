"""A job on a real cluster for tests that break something: its loops as processes, its rows, and who ran queries when."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import psutil

from airflow_adaptive.job.documents import DocumentError, LogDocument, Status, decode_log, decode_status
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from airflow_adaptive.runtime.job_directory import JobDirectory
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.runtime.staging import stage
from airflow_adaptive.runtime.storage import Storage
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.options import Options
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.snapshot import encode
from tests.faults.runner import SUPERSEDED

JOB = "copy"
ROWS = 10
"""In each file of the input."""

LEASE_S = 12.0
OPTIONS: dict[str, Any] = {
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "1 s",
    "executing_stabilization_timeout": "1 s",
    "max_trigger_delay": "3 s",
    "slot_idle_timeout": 0,
    "stop_timeout": "10 s",
    "deploy_timeout": "2 min",
    "driver_heartbeat_timeout": f"{LEASE_S} s",
    "driver_lease_timeout": f"{LEASE_S} s",
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"},
    "history_size": 5,
}

PATIENCE_S = 240.0
"""Two cores and many JVMs, and perhaps others that use them, too."""

SAMPLE_S = 0.5
"""A mark says what its driver does for so long: more than twice the time between two."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known in the end of one run of a fault.

    Attributes:
        expected: rows that went in.
        found: rows that came out.
        doubled: of them, those that came out more than once.
        drivers_at_once: most drivers whose queries were active at one moment, as they saw it themselves.
        epochs: drivers that began a query.
        recovery_s: from the fault until the rows that came with it were in the output.
    """

    expected: int
    found: int
    doubled: int
    drivers_at_once: int
    epochs: int
    recovery_s: float


@dataclass
class FaultWorld:
    """One job, its directory, and its loops."""

    cluster: LocalCluster
    root: Path
    base: Path
    loops: list[subprocess.Popen[bytes]] = field(default_factory=list)
    files: int = 0
    faulted_at: float = 0.0
    recovery_s: float = 0.0

    def __post_init__(self) -> None:
        """Make the folders, and stage the script."""
        for folder in ("in", "marks", "loops"):
            (self.root / folder).mkdir()
        directory = JobDirectory(Storage.at(str(self.base)), JOB)
        self._code = asyncio.run(stage(directory, Path(__file__).with_name("script.py")))
        self._uri = directory.uri
        self.ask()

    # ---- what people do ----

    def ask(self, wish: str = "run", parallelism: tuple[int, int] = (1, 1)) -> None:
        """Leave a wish."""
        written = self.root / "wishes.new"
        written.write_text(json.dumps({"wish": wish, "requirements": {"job": parallelism}}))
        written.rename(self.root / "wishes.json")

    def feed(self, files: int = 2) -> None:
        """More input."""
        for _ in range(files):
            ids = range(self.files * ROWS, (self.files + 1) * ROWS)
            self.put(f"{self.files:05d}.json", ids)
            self.files += 1

    def put(self, name: str, ids: range) -> None:
        """A file of the input, all at once."""
        hidden = self.root / "in" / f".{name}"
        hidden.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
        hidden.rename(self.root / "in" / name)

    # ---- loops ----

    def start_loop(
        self, dies: str = "", attempt: str = "1", lifetime_s: float | None = None
    ) -> subprocess.Popen[bytes]:
        """Run a loop in a process of its own.

        Args:
            dies: where it dies, see `death`.
            attempt: that it works for.
            lifetime_s: when it leaves.
        """
        rest, ui = (urlsplit(url).port for url in (self.cluster.rest_url, self.cluster.ui_url))
        config = {
            "spec": encode(self.spec(attempt)),
            "base": str(self.base),
            "master": self.cluster.master_url,
            "extra": {"rest-port": rest, "ui-port": ui},
            "wishes": str(self.root / "wishes.json"),
            "dies": dies,
            "lifetime_s": lifetime_s,
        }
        name = self.root / "loops" / str(len(self.loops))
        name.with_suffix(".json").write_text(json.dumps(config))
        with name.with_suffix(".log").open("wb") as log:
            command = [sys.executable, "-m", "tests.faults.runner", str(name.with_suffix(".json"))]
            loop = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[2])
        self.loops.append(loop)
        return loop

    def spec(self, attempt: str) -> JobSpec:
        """The job as deployed."""
        return JobSpec(
            graph=JobGraph.single(JOB, ParallelismRange(1, 2)),
            options=Options.of(OPTIONS),
            directory=self._uri,
            script=self._code.script,
            py_files=self._code.py_files,
            args=(str(self.root),),
            conf={"spark.ui.enabled": "false", "spark.sql.streaming.noDataProgressEventInterval": "1000"},
            driver=DriverShape(cores=1, memory_mb=512),
            executor=ExecutorShape(cores=1, memory_mb=512),
            attempt=attempt,
        )

    def wait_death(self, loop: subprocess.Popen[bytes]) -> None:
        """A loop kills itself: the fault."""
        self.wait_for("the loop's death", lambda: loop.poll() is not None)
        assert loop.returncode == -signal.SIGKILL, f"the loop ended with {loop.returncode}"
        self.fault()

    def wait_exit(self, loop: subprocess.Popen[bytes], code: int) -> None:
        """A loop ends in order, with that exit code."""
        self.wait_for(f"exit {code} of the loop", lambda: loop.poll() is not None)
        assert loop.returncode == code

    def wait_superseded(self, loop: subprocess.Popen[bytes]) -> None:
        """A loop finds out that another has taken over."""
        self.wait_exit(loop, SUPERSEDED)

    # ---- what there is to see ----

    @property
    def directory(self) -> Path:
        """Of the job."""
        return self.base / JOB

    def newest(self) -> LogDocument | None:
        """The newest document of the log."""
        for file in sorted((self.directory / "log").glob("[0-9]*.json"), reverse=True):
            try:
                return decode_log(file.read_bytes())
            except (DocumentError, FileNotFoundError):
                continue
        return None

    def status(self) -> Status | None:
        """The driver's report."""
        try:
            return decode_status((self.directory / "status.json").read_bytes())
        except (FileNotFoundError, DocumentError):
            return None

    def is_in(self, state: str) -> bool:
        """Whether the job is in that state."""
        newest = self.newest()
        return newest is not None and newest.scheduler["current"]["type"] == state

    def is_well(self) -> bool:
        """Whether the job runs and has taken in all that there is."""
        return self.is_in("Executing") and len(self.rows()) == self.files * ROWS

    def epoch(self) -> int:
        """Of the newest driver."""
        newest = self.newest()
        return 0 if newest is None else newest.directive.epoch

    def driver(self) -> str:
        """The cluster's name of the driver that reports."""
        return self.wait_for("a report", lambda: self.status() and self.status().submission_id)  # type: ignore[union-attr]

    def submitted(self) -> list[str]:
        """Drivers that the cluster runs."""
        return [driver["id"] for driver in self.cluster.state()["activedrivers"] if driver["state"] == "RUNNING"]

    def driver_processes(self) -> list[psutil.Process]:
        """The JVM and the Python of the newest driver: their working directory has its name."""
        return self.cluster._daemons.working_in(self.driver())

    def rows(self) -> list[int]:
        """Rows in the output, in the order of their batches."""
        return [row["id"] for _, rows in sink_batches(self.root / "out") for row in rows]

    # ---- waiting ----

    def wait_for(self, what: str, condition: Callable[[], Found | None], timeout_s: float = PATIENCE_S) -> Found:
        """Wait; if it does not come true, tell what the loops said."""
        try:
            return wait_until(condition, timeout_s, what, 0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def wait_rows(self) -> None:
        """All rows are in the output, and the job runs."""
        expected = set(range(self.files * ROWS))
        self.wait_for("all rows", lambda: set(self.rows()) >= expected)
        self.wait_for("Executing", lambda: self.is_in("Executing"))

    def run_well(self) -> None:
        """The job runs and has taken in what there is."""
        self.feed()
        self.wait_rows()

    def fault(self) -> None:
        """It is now that something breaks; more input comes."""
        self.faulted_at = time.monotonic()
        self.feed()

    def since_fault(self) -> float:
        """Seconds."""
        return time.monotonic() - self.faulted_at

    def recover(self) -> None:
        """Wait until the job has taken in what came with the fault."""
        self.wait_rows()
        self.recovery_s = self.since_fault()

    # ---- the end ----

    def finish(self, loop: subprocess.Popen[bytes]) -> Outcome:
        """Suspend the job and see what has come out; no driver must be left."""
        self.ask("suspend")
        self.wait_exit(loop, 0)
        assert self.is_in("Finished")
        return self.outcome()

    def outcome(self) -> Outcome:
        """What has come out, when all drivers have found their end."""
        self.wait_for("the end of all drivers", lambda: not self.cluster.state()["activedrivers"])
        rows, batches = self.rows(), list(sink_batches(self.root / "out"))
        writers = [max(row["epoch"] for row in rows) for _, rows in batches if rows]
        assert writers == sorted(writers), f"a driver wrote after its successor: {writers}"
        assert sorted(set(rows)) == list(range(self.files * ROWS)), self.story()
        assert len(rows) == len(set(rows)), "rows doubled"
        return Outcome(
            expected=self.files * ROWS,
            found=len(rows),
            doubled=len(rows) - len(set(rows)),
            drivers_at_once=self.drivers_at_once(),
            epochs=len(set(writers)),
            recovery_s=self.recovery_s,
        )

    def drivers_at_once(self) -> int:
        """Most drivers whose queries were active at the same moment."""
        activity = list(self.activity())
        moments = [moment for _, moments in activity for moment in moments]
        return max((self._active_at(moment, activity) for moment in moments), default=0)

    def activity(self) -> Iterator[tuple[int, list[float]]]:
        """For each driver its epoch, and when its queries were active."""
        for file in (self.root / "marks").iterdir():
            samples = [line.split() for line in file.read_text().splitlines() if line.count(" ") == 1]
            yield int(file.name.partition("-")[0]), [float(at) for at, active in samples if active == "1"]

    @staticmethod
    def _active_at(moment: float, activity: list[tuple[int, list[float]]]) -> int:
        return sum(any(abs(moment - other) < SAMPLE_S / 2 for other in moments) for _, moments in activity)

    def story(self) -> str:
        """What the loops said, and where the job is."""
        logs = "".join(f"--- {log.name}\n{log.read_text()}" for log in sorted((self.root / "loops").glob("*.log")))
        newest = self.newest()
        stands = None if newest is None else (newest.number, newest.directive.epoch, newest.scheduler["current"])
        return f"{logs}--- {stands}, {self.status()}, {len(self.rows())} of {self.files * ROWS} rows"

    def close(self) -> None:
        """Kill what is left of the loops."""
        for loop in self.loops:
            if loop.poll() is None:
                loop.send_signal(signal.SIGCONT)
                loop.kill()
            loop.wait()


@contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """Processes stand still meanwhile."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            if process.is_running():
                process.resume()


def sink_batches(sink: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of each batch of a file sink of JSON, as its own metadata has them: what was cut does not count."""
    folder = sink / "_spark_metadata"
    files = [file for file in folder.iterdir() if file.name.partition(".")[0].isdecimal()] if folder.is_dir() else []
    compacted = max((int(file.stem) for file in files if file.suffix == ".compact"), default=-1)
    later = [file for file in files if not file.suffix and int(file.name) > compacted]
    for file in sorted([*later, *(it for it in files if it.name == f"{compacted}.compact")], key=_number):
        entries = [json.loads(line) for line in file.read_text().splitlines()[1:]]
        texts = [Path(unquote(urlsplit(entry["path"]).path)).read_text() for entry in entries]
        lines = itertools.chain.from_iterable(text.splitlines() for text in texts)
        yield _number(file), [json.loads(line) for line in lines]


def _number(file: Path) -> int:
    return int(file.name.partition(".")[0])
