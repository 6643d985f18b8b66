"""Two jobs with fake drivers in a simulated Airflow, without the simulator's cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import httpx

from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive._core.protocol.codec import encode_status, journal_number
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE
from airflow_adaptive._engine.spec import JobSpec
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.driver import FakeDrivers
from tests.lab.fakes.master import answer
from tests.lab.fleet import seams
from tests.lab.fleet.airflow.job_operator import JobTask
from tests.lab.fleet.airflow.simulated_airflow import SimulatedAirflow
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage
from tests.lab.simulation.one_job import small_job

BASE = "s3://bucket/jobs"
CONNECTION = {"conn_type": "spark", "host": "spark://fake", "port": 7077}
OPTIONS = {"trigger_lifetime": timedelta(minutes=2), "resource_wait_timeout": timedelta(seconds=10)}


class StoredJob:
    """The directory of a job for `FakeDrivers`: the drivers read and write it without delay."""

    def __init__(self, storage: SimulatedStorage, job: str) -> None:
        self.job = job
        self._files = storage.files
        self._folder = f"bucket/jobs/{job}"

    @property
    def journal(self) -> dict[int, bytes]:
        paths = self._files.paths(f"{self._folder}/journal")
        return {number: self._files.read(path) for path in paths if (number := journal_number(path.rpartition("/")[2]))}

    def report(self, status: DriverStatus) -> None:
        self._files.write(f"{self._folder}/status.json", encode_status(status), 0.0)


class SmallFleet:
    """The environment of two jobs.

    Attributes:
        history: lines of the history.
    """

    def __init__(self, seed: int = 1, jobs: int = 2, **options: object) -> None:
        self.kernel = Kernel()
        self.entropy = Entropy(seed)
        self.history: list[str] = []
        self.storage = SimulatedStorage(self.kernel, self.entropy, self.record)
        self.airflow = SimulatedAirflow(self.kernel, self.entropy, self.record)
        self.cluster = FakeCluster()
        self.jobs = [f"job-{number}" for number in range(1, jobs + 1)]
        self.drivers = [FakeDrivers(self.cluster, StoredJob(self.storage, job), self.now) for job in self.jobs]  # type: ignore[arg-type]
        self._options = OPTIONS | options
        for _ in self.jobs:
            self.cluster.add_worker(cores=4, memory_mb=8192)
        self.airflow.users.set_connection("spark", CONNECTION)

    def now(self) -> float:
        return self.kernel.now

    def record(self, text: str) -> None:
        process = self.kernel.process
        self.history.append(f"{self.kernel.now:9.3f} {'-' if process is None else process.name}  {text}")

    def start(self, *triggerers: str, **task: Any) -> None:
        """Start triggerers, and the tasks of all jobs."""
        for name in triggerers:
            self.start_triggerer(name)
        for job in self.jobs:
            self.airflow.scheduler.add(JobTask(spec=self._spec(job), base=BASE, **task))
        self._tick()

    def start_triggerer(self, name: str) -> None:
        """Start a triggerer."""
        self.airflow.start_triggerer(SimulatedProcess(self.kernel, name))

    def run(self, seconds: float) -> None:
        """Continue for a time."""
        self.kernel.run(until=self.kernel.now + seconds)

    def process(self, name: str) -> SimulatedProcess:
        """Return the process of the newest triggerer of a name."""
        return [it.process for it in self.airflow.triggerers if it.process.name == name][-1]

    def document(self, job: str, key: str) -> Any:
        """Return a document in the asset state store of a job."""
        return self.airflow.api.database.asset_states[f"{JOBS}{job}"].get(key)

    def state(self, job: str) -> str | None:
        """Return the published state of a job."""
        summary = self.document(job, "summary")
        return None if summary is None else summary["state"]

    def request(self, job: str, desired_state: str) -> None:
        """Request a desired state."""
        self.airflow.users.request(job, DESIRED_STATE, desired_state)

    def find(self, *words: str) -> list[str]:
        """Return the lines of the history that contain all words."""
        return [line for line in self.history if all(word in line for word in words)]

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Replace Airflow, the network and the machine."""
        with (
            seams.installed(self.kernel, self.entropy),
            self.airflow.installed(self.storage),
            patch.object(httpx.AsyncHTTPTransport, "handle_async_request", self._respond),
        ):
            yield

    async def _respond(self, request: httpx.Request) -> httpx.Response:
        """Be the network to the fake master."""
        content = await answer(self.cluster, request.method, str(request.url), await request.aread())
        return httpx.Response(200, content=content)

    def _spec(self, job: str) -> JobSpec:
        return small_job(job, (1, 4), self._options)

    def _tick(self) -> None:
        for drivers in self.drivers:
            drivers.tick(self.cluster.states)
        self.kernel.after(1.0, self._tick)
