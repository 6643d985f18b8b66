"""The observable state of a job on a real cluster, and waits for its changes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from airflow_adaptive._core.protocol.documents import DocumentError, DriverStatus, JournalDocument, decode_document
from airflow_adaptive.local import guardian
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness import sink_log
from tests.lab.faults.harness.deployment import JOB
from tests.lab.faults.harness.sink_log import BatchWrite

ROWS = 10
"""In each file of the input."""

TIMEOUT_S = 240.0
"""Two cores and many JVMs, and perhaps others that use them, too."""

Found = TypeVar("Found")


@dataclass
class WatchedJob:
    """One job, as everybody may see it.

    Attributes:
        cluster: where its drivers run.
        root: of its input, the files of its sink, and its loops' logs.
        base: of the directories of all jobs.
        job: its name.
        changes: what differs from the usual deployment, see `job.deployed`.
        loops: processes that were started.
        files: of the input so far.
        faulted_at: monotonic, s.
        recovery_s: from the fault until what came with it was in the output.
    """

    cluster: LocalCluster
    root: Path
    base: Path
    job: str = JOB
    changes: Mapping[str, Any] = field(default_factory=dict)
    loops: list[subprocess.Popen[bytes]] = field(default_factory=list)
    files: int = 0
    faulted_at: float = 0.0
    recovery_s: float = 0.0

    @property
    def directory(self) -> Path:
        """Of the job."""
        return self.base / self.job

    def write_requests(self, desired_state: str, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Write the desired state and the bounds of each vertex to the file that the loops read."""
        written = self.root / "requests.new"
        written.write_text(json.dumps({"desired_state": desired_state, "requirements": bounds}))
        written.rename(self.root / "requests.json")

    def newest(self) -> JournalDocument | None:
        """The newest document of the log."""
        for file in sorted((self.directory / "journal").glob("[0-9]*.json"), reverse=True):
            try:
                return decode_document(JournalDocument, file.read_bytes())
            except (DocumentError, FileNotFoundError):
                continue
        return None

    def status(self) -> DriverStatus | None:
        """The driver status."""
        try:
            return decode_document(DriverStatus, (self.directory / "status.json").read_bytes())
        except (FileNotFoundError, DocumentError):
            return None

    def is_in(self, state: str) -> bool:
        """Whether the job is in that state."""
        newest = self.newest()
        return newest is not None and newest.scheduler["current"]["type"] == state

    def is_well(self) -> bool:
        """Whether the job runs and has taken in all that there is."""
        return self.is_in("Executing") and self.took_all()

    def took_all(self) -> bool:
        """Whether all rows of the input are in the output."""
        return set(self.rows()) >= self.expected_rows()

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

    def standby_epoch(self) -> int:
        """The epoch of the standby that is prepared, 0 without one."""
        newest = self.newest()
        standby = None if newest is None else newest.scheduler["standby"]
        return standby["driver"]["epoch"] if standby and standby["is_prepared"] and standby["driver"] else 0

    def journaled_processes(self, *, of_standby: bool = False) -> list[psutil.Process]:
        """The JVM and the Python of the driver that the journal names, or of its standby; empty without one."""
        newest = self.newest()
        scheduler: dict[str, Any] = {"driver": None} if newest is None else newest.scheduler
        driver = (scheduler.get("standby") or {}).get("driver") if of_standby else scheduler["driver"]
        return self.cluster._daemons.working_in(driver["submission_id"]) if driver and driver["submission_id"] else []

    def processes(self) -> list[psutil.Process]:
        """All that belong to the cluster."""
        return guardian.marked(self.cluster._daemons._mark)

    def drivers_left(self) -> list[psutil.Process]:
        """Processes of drivers, whether their workers live or not: their working directories have the drivers' names."""
        return [process for process in self.processes() if _directory(process).startswith("driver-")]

    def writes(self) -> list[BatchWrite]:
        """The attempts of all drivers to write a batch."""
        return sink_log.read_writes(self.root / "sink")

    def rows(self) -> list[int]:
        """Rows in the output, in the order of their batches."""
        return sink_log.row_ids(self.writes())

    def expected_rows(self) -> set[int]:
        """Rows of the input."""
        return set(range(self.files * ROWS))

    def logged(self, *words: str) -> bool:
        """Whether a line in the log of a loop contains all these words."""
        logs = [line for log in (self.root / "loops").glob("*.log") for line in log.read_text().splitlines()]
        return any(all(word in line for word in words) for line in logs)

    def wait_for(self, what: str, condition: Callable[[], Found | None], timeout_s: float = TIMEOUT_S) -> Found:
        """Wait. The error after the timeout contains the logs of the loops."""
        try:
            return wait_until(condition, timeout_s, what, 0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def story(self) -> str:
        """The logs of the loops, and the state of the job."""
        logs = "".join(f"--- {log.name}\n{log.read_text()}" for log in sorted((self.root / "loops").glob("*.log")))
        newest = self.newest()
        stands = None if newest is None else (newest.number, newest.directive.epoch, newest.scheduler["current"])
        return f"{logs}--- {stands}, {self.status()}, {len(self.rows())} of {self.files * ROWS} rows"


def _directory(process: psutil.Process) -> str:
    """The name of the one in which it works; "" if it has gone meanwhile."""
    try:
        return Path(process.cwd()).name
    except psutil.Error:
        return ""
