"""Records the histories again that `tests/lab/unit/replay/test_histories.py` replays.

python -m tests.support.scheduler.record_histories             # those of the simulation
python -m tests.support.scheduler.record_histories --cluster   # also that of a real Spark cluster on this machine; a few minutes
"""

import argparse
import asyncio
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fsspec.implementations.local import LocalFileSystem

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.local.cluster import HOST, LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.lab.fakes.job_store import FakeStore
from tests.lab.replay.histories import Recorder
from tests.lab.simulation.one_job import Simulation

HISTORIES = Path(__file__).with_name("recorded_histories")
SIMULATED = "simulated cluster"
REAL = "embedded Spark cluster"

QUICK: Mapping[str, Any] = {
    "resource_wait_timeout": "60 s",
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "2 s",
    "max_trigger_delay": "3 s",
}


# ---- lives in the simulation ----------------------------------------------------------------------------------------


def request(job: Simulation, desired_state: DesiredState) -> Callable[[], None]:
    return lambda: setattr(job.store, "requests", ControlRequests(desired_state=desired_state))


def require(job: Simulation, lower: int, upper: int) -> Callable[[], None]:
    return lambda: setattr(job.store, "requests", ControlRequests(requirements={"job": ParallelismRange(lower, upper)}))


def workers_come_and_go(job: Simulation) -> None:
    """Workers join, one is lost, the job follows and is suspended."""
    joined: list[str] = []
    job.clock.at(20, lambda: joined.append(job.cluster.add_worker(cores=1, memory_mb=512)))
    job.clock.at(50, lambda: job.cluster.kill_worker(joined[0]))
    job.clock.at(90, lambda: job.cluster.add_worker(cores=2, memory_mb=1024))
    job.clock.at(130, request(job, DesiredState.SUSPENDED))


def driver_and_query_fail(job: Simulation) -> None:
    """A query fails, then the driver is killed, then a failure comes that no restart mends."""
    job.clock.at(20, job.drivers.fail_query)
    job.clock.at(50, lambda: job.cluster.kill_driver(list(job.cluster.submissions)[-1]))
    job.clock.at(90, lambda: job.drivers.fail_query("AnalysisException", "no such column"))


def driver_hangs(job: Simulation) -> None:
    """A driver misses its heartbeat, is killed and replaced; the next driver ignores a STOP request."""
    job.clock.at(20, lambda: setattr(job.drivers, "hang", True))
    job.clock.at(100, lambda: setattr(job.drivers, "hang", False))
    job.clock.at(160, lambda: setattr(job.drivers, "hang", True))
    job.clock.at(161, request(job, DesiredState.CANCELED))


def requirements_change(job: Simulation) -> None:
    """Bounds are lowered, raised within the cooldown, and raised beyond what there is; then the input ends."""
    job.cluster.add_worker(cores=2, memory_mb=1024)
    job.clock.at(30, require(job, 1, 1))
    job.clock.at(36, require(job, 1, 3))
    job.clock.at(70, require(job, 4, 4))
    job.clock.at(100, lambda: job.cluster.add_worker(cores=2, memory_mb=1024))
    job.clock.at(140, job.drivers.finish)


def minimum_never_comes(job: Simulation) -> None:
    """There is less than the job needs; more comes, still too little, and it gives up."""
    job.clock.at(30, lambda: job.cluster.add_worker(cores=1, memory_mb=512))


Live = Callable[[Simulation], None]

SCENARIOS: Mapping[Live, tuple[int, int]] = {
    workers_come_and_go: (1, 4),
    driver_and_query_fail: (1, 4),
    driver_hangs: (1, 4),
    requirements_change: (1, 4),
    minimum_never_comes: (3, 4),
}
"""Lives, and the bounds of the job that leads them."""


def record_simulation(live: Live, bounds: tuple[int, int]) -> None:
    job = Simulation(parallelism=bounds, **QUICK)
    job.cluster.add_worker(cores=2, memory_mb=1024)
    live(job)
    with Recorder(options=QUICK) as recorder:
        job.run_to_end()
    recorder.history(str(live.__doc__), SIMULATED).write(HISTORIES / f"{live.__name__}.json")


# ---- a life on a real cluster ---------------------------------------------------------------------------------------

SCRIPT = """
from airflow_adaptive.job import AdaptiveJob


def rates(spark, parallelism):
    stream = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    return stream.writeStream.format("noop").trigger(processingTime="1 second")


AdaptiveJob(rates).run()
"""
TIMEOUT_S = 240.0


class ScenarioBuilder:
    """What befalls a job on a real cluster, from a thread of its own."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.store = FakeStore()
        self.cluster = cluster

    def __call__(self) -> None:
        """A worker joins, is killed, the driver is killed, and the job is suspended."""
        self.until(parallelism=1, epoch=1)
        joined = self.cluster.add_worker(cores=1, memory_mb=1024)
        self.until(parallelism=2, epoch=1)
        self.cluster.kill_worker(joined)
        self.until(parallelism=1, epoch=1)
        self.cluster.kill_driver(self.store.views[-1].submission_id or "")
        self.until(parallelism=1, epoch=2)
        self.store.requests = ControlRequests(desired_state=DesiredState.SUSPENDED)

    def until(self, parallelism: int, epoch: int) -> None:
        def runs() -> bool:
            wanted = ("Executing", {"job": parallelism}, epoch)
            return any((it.state, it.parallelism, it.epoch) == wanted for it in self.store.views[-1:])

        wait_until(runs, TIMEOUT_S, f"parallelism {parallelism} of driver {epoch}")


def record_real() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalCluster() as cluster:
        cluster.add_worker(cores=2, memory_mb=2048)
        life = ScenarioBuilder(cluster)
        thread = threading.Thread(target=life, daemon=True)
        thread.start()
        with Recorder(options=QUICK) as recorder:
            asyncio.run(run(Path(directory), cluster, life.store))
        thread.join()
    recorder.history(str(ScenarioBuilder.__call__.__doc__), REAL).write(HISTORIES / "real_cluster.json")


async def run(root: Path, cluster: LocalCluster, store: FakeStore) -> None:
    script = root / "rates.py"
    script.write_text(SCRIPT)
    directory = FsspecJobDirectory(Storage(LocalFileSystem(), str(root / "jobs")), "rates")
    code = await stage(directory, script)
    spec = JobSpec(
        graph=JobGraph.single("rates", ParallelismRange(1, 4)),
        options=Options.of(QUICK),
        directory=directory.uri,
        script=code.script,
        py_files=code.py_files,
        driver=DriverShape(cores=1, memory_mb=512),
        executor=ExecutorShape(cores=1, memory_mb=512),
        attempt="attempt-1",
    )
    port, ui, rest = (urlsplit(url).port or 0 for url in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    master = MasterAddress(host=HOST, port=port, ui_port=ui, rest_port=rest)
    client = StandaloneCluster(ClusterAddress(masters=(master,)))
    try:
        await Loop(spec, Ports(cluster=client, directory=directory, store=store, clock=SystemClock())).run()
    finally:
        await client.close()


def main() -> None:
    """Record the histories, and print their names."""
    parser = argparse.ArgumentParser(prog="tests.support.scheduler.record_histories", description=__doc__)
    parser.add_argument("--cluster", action="store_true", help="also a life on a real Spark cluster")
    options = parser.parse_args()
    HISTORIES.mkdir(exist_ok=True)
    for live, bounds in SCENARIOS.items():
        record_simulation(live, bounds)
    if options.cluster:
        record_real()


if __name__ == "__main__":
    main()
