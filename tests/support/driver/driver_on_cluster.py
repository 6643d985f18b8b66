"""Drives a real driver as the scheduler does: submits it, writes its log, reads its status."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies
from airflow_adaptive._clusters.standalone.rest import create_request
from airflow_adaptive._core.ports import DriverSubmission
from airflow_adaptive._core.protocol.documents import (
    Action,
    Directive,
    DocumentError,
    DriverPlan,
    DriverStatus,
    JournalDocument,
    decode_document,
    encode_document,
    journal_name,
)
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.command import committed_files
from airflow_adaptive.local.waiting import wait_until

JOB = "departures"
SCRIPT = "departures.py"
NONCE = "n1"
NO_DEPENDENCIES = Dependencies()
ROWS = 10
TIMEOUT_S = 240.0
"""Two cores and many JVMs: a first batch may take long."""


def plan(executors: int, *, state_partitions: int = 2, query_version: int = 1, **parallelism: int) -> DriverPlan:
    """A plan for queries that were built under that version."""
    return DriverPlan(
        parallelism=parallelism or {"read": executors},
        executors=executors,
        state_partitions={JOB: state_partitions},
        query_version=query_version,
    )


def rejects(version: int) -> Callable[[DriverStatus], bool]:
    """Return the condition that the driver has rejected the plan of this version."""
    return lambda status: status.rejected_version == version


class Input:
    """A directory of files of `ROWS` rows that appear at once."""

    def __init__(self, root: Path) -> None:
        self._directory = root / "in"
        self._directory.mkdir()
        self._files = 0

    def write(self, files: int) -> None:
        for _ in range(files):
            first = self._files * ROWS
            self.put(f"{self._files:05d}.json", range(first, first + ROWS))
            self._files += 1

    def put(self, name: str, ids: Sequence[int]) -> None:
        hidden = self._directory / f".{name}"
        hidden.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
        hidden.rename(self._directory / name)

    @property
    def ids(self) -> list[int]:
        return list(range(self._files * ROWS))


@dataclass
class DriverOnCluster:
    """A job directory, and the drivers submitted for it."""

    cluster: LocalCluster
    root: Path
    number: int = 0
    epoch: int = 1
    submissions: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.root / JOB

    def direct(
        self, action: Action, version: int, wanted: DriverPlan | None = None, *, epoch: int | None = None
    ) -> None:
        """Create the next log document, in one step."""
        self.number += 1
        directive = Directive(epoch=epoch or self.epoch, nonce=NONCE, version=version, action=action, plan=wanted)
        document = JournalDocument(job=JOB, number=self.number, at="", owner="test", directive=directive, scheduler={})
        path = self.directory / "journal" / journal_name(self.number)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".written")
        written.write_bytes(encode_document(document))
        os.link(written, path)
        written.unlink()

    def submit(
        self,
        script: str,
        executors: int,
        conf: Mapping[str, str] | None = None,
        *,
        max_executors: int = 3,
        dependencies: Dependencies = NO_DEPENDENCIES,
        secret_env: Mapping[str, str] | None = None,
    ) -> str:
        """Stage a script and what it needs, and submit the script, as the operator and the standalone client do."""
        file = self.root / SCRIPT
        file.write_text(script)
        directory = FsspecJobDirectory(Storage.at(str(self.root)), JOB)
        code = asyncio.run(stage(directory, file, dependencies.local_py_files, dependencies.local_files))
        submission = DriverSubmission(
            name=JOB,
            epoch=self.epoch,
            nonce=NONCE,
            script=code.script,
            py_files=code.py_files,
            args=[str(self.root)],
            conf={
                "spark.airflow.adaptive.job": JOB,
                "spark.airflow.adaptive.directory": self.directory.as_uri(),
                "spark.airflow.adaptive.epoch": str(self.epoch),
                "spark.airflow.adaptive.nonce": NONCE,
                "spark.sql.streaming.noDataProgressEventInterval": "1000",
                **dependencies.properties(conf or {}, code.files),
            },
            driver_memory_mb=512,
            executors=executors,
            max_executors=max_executors,
            executor_memory_mb=512,
            secret_env=secret_env or {},
        )
        request = create_request(submission, self.cluster.master_url)
        answer = self._call("POST", "create", json=request)
        self.submissions.append(answer["submissionId"])
        return self.submissions[-1]

    def status(self) -> DriverStatus | None:
        try:
            return decode_document(DriverStatus, (self.directory / "status.json").read_bytes())
        except (FileNotFoundError, DocumentError):
            return None

    def wait_status(
        self, what: str, condition: Callable[[DriverStatus], bool], timeout_s: float = TIMEOUT_S
    ) -> DriverStatus:
        """Wait until the status is as wanted; a driver that ends meanwhile fails the test with its output."""

        def wanted() -> DriverStatus | None:
            status = self.status()
            if status is not None and condition(status):
                return status
            if self.driver_state() in {"FAILED", "ERROR"}:
                raise AssertionError(f"driver ended, {status}\n{self.output()}")
            return None

        try:
            return wait_until(wanted, timeout_s, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {self.status()}\n{self.output()}") from error

    def wait_end(self, timeout_s: float = TIMEOUT_S) -> str:
        """Wait for the end of the newest driver; its state as the master sees it."""
        wait_until(lambda: self.driver_state() not in {"RUNNING", "SUBMITTED"}, timeout_s, "the driver's end")
        return self.driver_state()

    def driver_state(self) -> str:
        return str(self._call("GET", f"status/{self.submissions[-1]}").get("driverState", "UNKNOWN"))

    def application_cores(self) -> int:
        """Cores that the master has granted to the running application, 0 if there is none."""
        return sum(application["cores"] for application in self.cluster.state()["activeapps"])

    def processes(self) -> list[psutil.Process]:
        """The newest driver's Python process, its watchdog process and its JVM."""
        (java,) = [child for child in self._jvms() if "org.apache.spark.deploy.SparkSubmit" in _arguments(child)]
        return [*java.children(recursive=True), java]

    def kill_executor(self, executor_id: str) -> None:
        """Kill an executor's JVM (SIGKILL)."""
        (executor,) = [child for child in self._jvms() if ("--executor-id", executor_id) in pairwise(_arguments(child))]
        executor.kill()

    def _jvms(self) -> list[psutil.Process]:
        """What the workers have started."""
        return [child for worker in self.cluster.workers for child in psutil.Process(worker.pid).children()]

    def spark(self, path: str) -> Any:
        """The application in Spark's REST interface of the driver."""
        status = self.wait_status("its address", lambda now: now.ui_url is not None)
        url = f"{status.ui_url}/api/v1/applications/{status.application_id}/{path}"
        return httpx.get(url, timeout=TIMEOUT_S, trust_env=False).raise_for_status().json()

    def output(self) -> str:
        """What the newest driver has written; Python output goes to its stdout."""
        files = self.cluster.directory.glob(f"work/*/{self.submissions[-1]}/std*")
        lines = "".join(file.read_text(errors="replace") for file in files).splitlines()
        return "\n".join(line for line in lines if " INFO " not in line)

    def batches(self, kind: str) -> list[int]:
        """Numbers of the batches in the query's offset log (`offsets`) or commit log (`commits`)."""
        files = (self.directory / "checkpoints" / JOB / kind).glob("*")
        return sorted(int(file.name) for file in files if file.name.isdecimal())

    def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = httpx.request(
            method, f"{self.cluster.rest_url}/v1/submissions/{path}", timeout=TIMEOUT_S, trust_env=False, **options
        )
        found: dict[str, Any] = answer.json()
        return found


def _arguments(process: psutil.Process) -> list[str]:
    """The process's command line; a process that has ended has none."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def sink_rows(sink: Path) -> list[Any]:
    """The rows of a file sink of JSON in its committed files."""
    return [json.loads(line) for file in committed_files(sink) for line in file.read_text().splitlines()]
