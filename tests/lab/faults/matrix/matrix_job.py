"""The stateful job under fault, and how it is brought to where a fault is to strike."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import psutil

from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.local.cluster import LocalWorker
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness.job_under_fault import ROWS, JobUnderFault

SCRIPT = Path(__file__).with_name("job_script.py")

JOB = "distinct"
"""Name of the job."""

WORKERS = 2
WORKER = {"cores": 3, "memory_mb": 2048}
"""What is left of two when one dies has room for a driver and for both executors."""

MORE_SLOTS_THAN_AVAILABLE = 8
"""Slots."""

FEW_PARTITIONS = 2
"""State partitions, to begin with."""

POLL_S = 0.01
"""Interval between two polls of a job until a moment."""

OPTIONS: dict[str, Any] = {
    "poll_interval": "0.3 s",
    "max_trigger_delay": "1 s",
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "3 s"},
}


def graph(job: str, partitions: int) -> JobGraph:
    """The script asks for the parallelism of `read`, not for that of `distinct`."""
    one = ParallelismRange(1, 1)
    read = JobVertex(name="read", parallelism=one, max_parallelism=MORE_SLOTS_THAN_AVAILABLE, stateful=False)
    distinct = JobVertex(name="distinct", parallelism=one, max_parallelism=partitions, inputs=("read",))
    return JobGraph(job=job, vertices=(read, distinct))


@dataclass
class MatrixJob(JobUnderFault):
    """A job of two vertices, redeployed at will, and the loop that looks after it.

    Attributes:
        attempt: that deployed it last.
        partitions: of its state, as deployed.
        bounds: the newest requested bounds.
        desired_state: the newest requested state.
        poisons: rows that failed their batch, so far.
        standby: the option `standby`.
    """

    attempt: int = 1
    partitions: int = FEW_PARTITIONS
    bounds: dict[str, tuple[int, int]] = field(default_factory=lambda: {"read": (1, 1), "distinct": (1, 1)})
    desired_state: str = "running"
    poisons: int = 0
    standby: str = "none"

    program: ClassVar[Path] = SCRIPT

    def __post_init__(self) -> None:
        options = {**OPTIONS, "standby": self.standby}
        self.changes = {"graph": graph(self.job, FEW_PARTITIONS), "options": options, "conf": {}}
        super().__post_init__()

    # ---- what people do ----

    def request_state(self, desired_state: str = "running", parallelism: tuple[int, int] = (1, 1)) -> None:
        """Request a desired state; the bounds do not change."""
        del parallelism  # of a job with one vertex
        self.desired_state = desired_state
        self.write_requests(desired_state, self.bounds)

    def require(self, **bounds: tuple[int, int]) -> None:
        """Request other bounds of some vertices; the desired state does not change."""
        self.bounds |= bounds
        self.request_state(self.desired_state)

    def redeploy(self, partitions: int | None = None, conf: dict[str, str] | None = None) -> None:
        """Another attempt, with something changed."""
        self.attempt += 1
        self.partitions = partitions or self.partitions
        changed = {"graph": graph(self.job, self.partitions), "conf": {**self.changes["conf"], **(conf or {})}}
        self.changes = {**self.changes, **changed}
        self.look_after()

    def feed(self, files: int = 2) -> None:
        """More input; each row comes again in the next file."""
        feed_twice(self, files)

    def poison(self) -> None:
        """A row that fails its batch."""
        self.poisons += 1
        self.put(f"poison-{self.poisons}.json", range(-1, 0))

    def cure(self) -> None:
        """The bad rows are gone."""
        for number in range(1, self.poisons + 1):
            self.put(f"poison-{number}.json", range(0))

    # ---- its loop ----

    @property
    def loop(self) -> subprocess.Popen[bytes]:
        """The newest."""
        return self.loops[-1]

    def look_after(self) -> None:
        """Start a loop for the attempt that deployed last."""
        self.start_loop(attempt=str(self.attempt))

    def lose_loop(self) -> None:
        """-9."""
        self.loop.kill()
        self.loop.wait()

    # ---- observations ----

    def executors(self) -> list[psutil.Process]:
        """Their JVMs."""
        return [process for process in self.processes() if _is_executor(process)]

    def worker_to_lose(self) -> LocalWorker:
        """One without the driver; the standby's, if it has one."""
        newest = self.newest()
        standby = (newest and newest.scheduler["standby"]["driver"]) or {"submission_id": None}
        drivers = self.cluster.state()["activedrivers"]
        with_driver = {driver["worker"] for driver in drivers if driver["id"] != standby["submission_id"]}
        return min(self.cluster.workers, key=lambda worker: worker.worker_id in with_driver)

    def runs_on(self, **parallelism: int) -> bool:
        """Whether a plan with these parallelisms is active."""
        state = where(self)
        return state["type"] == "Executing" and parallelism.items() <= state["plan"]["parallelism"].items()

    # ---- on the way to a moment ----

    def have(self, **parallelism: int) -> None:
        """Wait until the job runs with these parallelisms."""
        self.require(**{name: (1, upper) for name, upper in parallelism.items()})
        self.wait_for(f"{parallelism} active", lambda: self._is_looked_after() and self.runs_on(**parallelism))

    def have_standby(self) -> None:
        """Wait until a standby is prepared, if the job has the option."""
        if self.standby != "none":
            self.wait_for("a standby", lambda: self._is_looked_after() and self.standby_epoch())

    def catch(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Look very often; whether the condition came true."""
        try:
            return wait_until(condition, timeout_s, "a moment", POLL_S)
        except TimeoutError:
            return False

    # ---- the end ----

    def wait_end(self) -> None:
        """The job ends as requested."""
        self.wait_for("Finished", lambda: self.is_in("Finished") or not self._is_looked_after())
        self.wait_exit(self.loop, 0)

    def resume(self) -> None:
        """The next attempt, of a job that has ended."""
        self.request_state("running")
        self.attempt += 1
        self.look_after()

    def begin(self) -> None:
        """The job runs and has taken in what there is."""
        self.look_after()
        self.run_well()


def feed_twice(job: JobUnderFault, files: int) -> None:
    """More input; each row comes again in the next file."""
    for _ in range(files):
        ids = range(max(0, (job.files - 1) * ROWS), (job.files + 1) * ROWS)
        job.put(f"{job.files:05d}.json", ids)
        job.files += 1


def where(job: JobUnderFault) -> dict[str, Any]:
    """Where the scheduler stands, as the log has it."""
    newest = job.newest()
    return {"type": ""} if newest is None else newest.scheduler["current"]


def backs_off(job: JobUnderFault) -> bool:
    """After a failure."""
    state = where(job)
    return state["type"] == "Restarting" and state["failure"] is not None


def _is_executor(process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and Path(process.cwd()).parent.name.startswith("app-")
    except psutil.Error:
        return False
