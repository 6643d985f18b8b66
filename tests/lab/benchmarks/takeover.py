"""How long a job writes nothing when its driver is killed or replaced by a new deployment, with and without a prepared driver: `make lab TASK=bench-takeover`.

Each case is a job on an embedded cluster of its own, with input all the time. The times are those of the sink: from the kill, or from the end of the
last batch of the old driver, to the end of the first batch of the new one. All cases run in one call, in turn, so that their ratios mean something,
beside Flink: a killed TaskManager, a killed JobManager, and a job that is replaced by way of a savepoint.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.distribution import find_spark
from tests.lab.benchmarks.balance import machine_line
from tests.lab.benchmarks.rescale.flink.failover import FAILOVERS, measure_failovers
from tests.lab.benchmarks.rescale.flink.installation import install
from tests.lab.faults.harness.job_under_fault import JobUnderFault
from tests.support.published_tables import publish
from tests.support.repository import ROOT

CASES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "killed driver, no standby": ("kill", {}),
    "killed driver, `driver`": ("kill", {"standby": "driver"}),
    "killed driver, `driver+executors`": ("kill", {"standby": "driver+executors"}),
    "new deployment, not prepared": ("deploy", {"prepare_deployments": False}),
    "new deployment, prepared": ("deploy", {}),
}
"""Name -> what happens to the driver, and the options of the job. The ratios compare with the first case of each kind."""

ENVIRONMENT: Final = ROOT / ".bench" / "flink"

FILE_INTERVAL_S: Final = 0.5

FORGIVING: Final = {"restart_strategy": {"type": "exponential-delay", "reset-backoff-threshold": "1 s"}}
"""Each kill is the first failure of a healthy job."""


def warm_conf(archive: Path) -> dict[str, str]:
    """Return the conf of docs/guides/start-faster.md with an archive of classes, and a driver that C1 alone compiles."""
    jars, shared = str(find_spark().home / "jars" / "*"), f"-XX:SharedArchiveFile={archive.resolve()}"
    return {
        "spark.driver.defaultJavaOptions": f"{shared} -XX:TieredStopAtLevel=1",
        "spark.driver.extraClassPath": jars,
        "spark.executor.defaultJavaOptions": shared,
        "spark.executor.extraClassPath": jars,
    }


@contextmanager
def running(options: Mapping[str, Any], conf: Mapping[str, str]) -> Iterator[JobUnderFault]:
    """Run a job that has input all the time, on a worker with room for two drivers with an executor each."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, LocalCluster() as cluster:
        cluster.add_worker(cores=4, memory_mb=4096)
        root = Path(folder)
        (root / "jobs").mkdir()
        changes, stopped = {"options": {**FORGIVING, **options}, "conf": conf}, threading.Event()
        job = JobUnderFault(cluster, root / "job", root / "jobs", changes=changes)

        def feed() -> None:
            while not stopped.wait(FILE_INTERVAL_S):
                job.feed(1)

        job.start_loop()
        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            job.wait_for("the first batches", lambda: len(job.writes()) > 10)
            yield job
        finally:
            stopped.set()
            feeding.join()
            job.close()


def has_standby(job: JobUnderFault) -> bool:
    """Return whether a standby is prepared."""
    newest = job.newest()
    return newest is not None and bool(newest.scheduler["standby"]["is_prepared"])


def measure(job: JobUnderFault, kind: str, *, awaits_standby: bool, number: int) -> float:
    """Replace the driver once, and return the time without output in seconds."""
    if awaits_standby:
        job.wait_for("a standby", lambda: has_standby(job))
    time.sleep(5 * FILE_INTERVAL_S)
    before, began = job.epoch(), time.time() * 1000
    if kind == "kill":
        for process in job.driver_processes():
            process.kill()
    else:
        job.changes = {**job.changes, "conf": {**job.changes["conf"], "spark.deployed.by": str(number)}}
        job.start_loop(attempt=str(number + 2))

    def ends() -> list[int]:
        return [it.ended for it in job.writes() if it.epoch > before and it.ended is not None]

    job.wait_for("a batch of the next driver", ends)
    last = max(it.ended for it in job.writes() if it.epoch <= before and it.ended is not None)
    job.wait_for("ten batches of the next driver", lambda: len(ends()) >= 10)
    return (min(ends()) - (began if kind == "kill" else last)) / 1000


def table(found: Mapping[str, list[float]]) -> Iterator[str]:
    """The measurements as Markdown."""
    yield "| Case | Repetitions | Median (s) | Longest (s) | Median to the first row of its kind |"
    yield "|---|---:|---:|---:|---:|"
    base: dict[str, float] = {}
    for name, times in found.items():
        median = statistics.median(times)
        kind = CASES[name][0] if name in CASES else "kill" if FAILOVERS[name] else "deploy"
        ratio = median / base.setdefault(kind, median)
        yield f"| {name} | {len(times)} | {median:.1f} | {max(times):.1f} | {ratio:.2f} |"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.takeover", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--write", type=Path, help="page whose section is rewritten")
    parser.add_argument("--archive", type=Path, help="archive of classes for all jobs (class-archive.sh)")
    parser.add_argument(
        "--no-flink", action="store_true", help="without the comparison with Flink, which is installed if it is missing"
    )
    arguments = parser.parse_args()
    conf = {} if arguments.archive is None else warm_conf(arguments.archive)
    found: dict[str, list[float]] = {}
    for name, (kind, options) in CASES.items():
        with running(options, conf) as job:
            found[name] = [
                measure(job, kind, awaits_standby="standby" in options, number=number)
                for number in range(arguments.repetitions)
            ]
        print(name, [round(it, 1) for it in found[name]], flush=True)
    if not arguments.no_flink:
        install(ENVIRONMENT)
        for name, process in FAILOVERS.items():
            found[name] = measure_failovers(ENVIRONMENT, process, arguments.repetitions)
            print(name, [round(it, 1) for it in found[name]], flush=True)
    body = "\n".join([machine_line(), "", *table(found)])
    print(body)
    if arguments.write is not None:
        publish("takeover", body, arguments.write)


if __name__ == "__main__":
    main()
