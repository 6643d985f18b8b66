"""A job on a real cluster for tests that break something: its loops as processes, its rows, and who ran queries when."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psutil

from airflow_adaptive._core.codec import encode
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.staging import stage
from tests.lab.faults.harness.deployment import JOB, LEASE_S, OPTIONS, SCRIPT, SINK, deployed
from tests.lab.faults.harness.loop_process import SUPERSEDED
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.watched_job import ROWS, TIMEOUT_S, WatchedJob
from tests.support.repository import ROOT

__all__ = ["JOB", "LEASE_S", "OPTIONS", "ROWS", "TIMEOUT_S", "JobUnderFault", "Outcome", "frozen", "start_loops"]

log = logging.getLogger(__name__)


@dataclass
class JobUnderFault(WatchedJob):
    """One job, its directory, and its loops.

    Attributes:
        program: its script.
        imports: modules that the script imports.
    """

    program: ClassVar[Path] = SCRIPT
    imports: ClassVar[tuple[Path, ...]] = (SINK,)

    def __post_init__(self) -> None:
        """Make the folders, and stage the script."""
        for folder in ("in", "loops"):
            (self.root / folder).mkdir(parents=True)
        self._directory = FsspecJobDirectory(Storage.at(str(self.base)), self.job)
        self._code = asyncio.run(stage(self._directory, self.program, list(self.imports)))
        self.request_state()

    # ---- what people do ----

    def request_state(self, desired_state: str = "running", parallelism: tuple[int, int] = (1, 1)) -> None:
        """Write control requests."""
        self.write_requests(desired_state, {"job": parallelism})

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

    def start_loop(self, dies: str = "", **config: Any) -> subprocess.Popen[bytes]:
        """Run a loop in a process of its own.

        Args:
            dies: where it dies, see `death`.
            config: see `configured`.
        """
        return start_loops([self], dies=dies, **config)

    def configured(
        self, dies: str = "", attempt: str = "1", lifetime_s: float | None = None, victim: tuple[int, int] | None = None
    ) -> Path:
        """A file that tells `runner` how to run a loop of this job.

        Args:
            dies: where it dies, see `death`.
            attempt: that it works for.
            lifetime_s: when it leaves, never if None.
            victim: process that gets a signal there in its place.
        """
        rest, ui = (urlsplit(url).port for url in (self.cluster.rest_url, self.cluster.ui_url))
        config = {
            "spec": encode(deployed(self.job, self._directory, self._code, self.root, attempt, self.changes)),
            "base": str(self.base),
            "master": self.cluster.master_url,
            "extra": {"rest-port": rest, "ui-port": ui},
            "requests": str(self.root / "requests.json"),
            "dies": dies,
            "victim": victim,
            "lifetime_s": lifetime_s,
        }
        file = self.root / "loops" / f"{len(self.loops):02d}.json"
        file.write_text(json.dumps(config))
        return file

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

    # ---- until it is well ----

    def wait_rows(self) -> None:
        """All rows are in the output, and the job runs."""
        self.wait_for("all rows", lambda: self._is_looked_after() and self.took_all())
        self.wait_for("Executing", lambda: self.is_in("Executing"))

    def _is_looked_after(self) -> bool:
        """Raises if no loop lives: nothing would come of any waiting."""
        assert not self.loops or any(loop.poll() is None for loop in self.loops), f"no loop lives\n{self.story()}"
        return True

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

    def last(self, seconds: float) -> None:
        """The fault lasts for so long."""
        self.wait_for("the fault to last", lambda: self.since_fault() >= seconds)

    def recover(self) -> None:
        """Wait until the job has taken in what came with the fault."""
        self.wait_rows()
        self.recovery_s = self.since_fault()

    # ---- the end ----

    def finish(self, loop: subprocess.Popen[bytes]) -> Outcome:
        """Suspend the job and see what has come out; no driver must be left."""
        self.request_state("suspended")
        self.wait_exit(loop, 0)
        assert self.is_in("Finished")
        return self.outcome()

    def outcome(self) -> Outcome:
        """What has come out, when all drivers have found their end."""
        self.wait_for("the end of all drivers", lambda: not self.cluster.state()["activedrivers"])
        self.wait_for("the end of their processes", lambda: not self.drivers_left())
        return self.so_far()

    def so_far(self) -> Outcome:
        """What has come out of a job that has taken in what there is. Logs the story of a job that violated a guarantee."""
        outcome = Outcome.of(self.writes(), self.expected_rows(), self.recovery_s)
        if outcome.violations:
            log.error("%s", self.story())
        return outcome

    def close(self) -> None:
        """Kill what is left of the loops."""
        for loop in self.loops:
            if loop.poll() is None:
                loop.send_signal(signal.SIGCONT)
                loop.kill()
            loop.wait()


def start_loops(jobs: Sequence[JobUnderFault], **config: Any) -> subprocess.Popen[bytes]:
    """Run the loops of some jobs in one process, as a triggerer does; for `config` see `JobUnderFault.configured`."""
    files = [str(job.configured(**config)) for job in jobs]
    with Path(files[0]).with_suffix(".log").open("wb") as log:
        command = [sys.executable, "-m", "tests.lab.faults.harness.loop_process", *files]
        loop = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
    for job in jobs:
        job.loops.append(loop)
    return loop


@contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """Processes stand still meanwhile, those of them that live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
