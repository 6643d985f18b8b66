"""How long a job writes nothing when its driver is killed, moved or replaced by a new deployment, with and without a prepared driver: `make lab TASK=bench-takeover`.

Each case is a job with input all the time, on an embedded cluster of its own, or in a namespace of its own on Kubernetes. The times are those of the sink:
from the kill, or from the end of the last batch of the old driver, to the begin and the end of the first batch of the new one. All cases run in one call, in turn, so that
their ratios mean something; those of an embedded cluster beside Flink: a killed TaskManager, a killed JobManager, and a job that is replaced by way of a savepoint.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.benchmarks.balance import machine_line
from tests.lab.benchmarks.rescale.flink.failover import FAILOVERS, FILE_INTERVAL_S, measure_failovers
from tests.lab.benchmarks.rescale.flink.installation import install
from tests.lab.benchmarks.rescale.spark.places import KUBERNETES, STANDALONE, archive_conf
from tests.lab.faults.harness.job_under_fault import JobUnderFault
from tests.lab.faults.harness.sink_log import BatchWrite
from tests.lab.faults.kubernetes.cluster_job import ClusterJob, created_job
from tests.support.kubernetes.api import KubernetesApi
from tests.support.kubernetes.cluster import KubernetesCluster, running_cluster
from tests.support.kubernetes.namespace import cordon, created_namespace, drain
from tests.support.published_tables import publish
from tests.support.repository import ROOT
from tests.support.waiting import repeated

KILLED: Final = "killed"
"""Part of the names of the cases whose time begins with the kill of a process. The ratios compare with the first case of its kind."""

CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "killed driver, no standby": {},
    "killed driver, `driver`": {"standby": "driver"},
    "killed driver, `driver+executors`": {"standby": "driver+executors"},
    "new deployment, not prepared": {"prepare_deployments": False},
    "new deployment, prepared": {},
}
"""Name -> options of the job."""

ON_KUBERNETES: Final[Mapping[str, tuple[str, bool]]] = {
    "killed driver, no standby": ("none", False),
    "killed driver, `driver+executors`": ("driver+executors", False),
    "drained node, no standby": ("none", False),
    "drained node, no standby, disruption budget": ("none", True),
    "drained node, `driver+executors`": ("driver+executors", False),
}
"""Name -> standby, and whether a disruption budget lets the drain wait."""

SECTIONS: Final = {STANDALONE: "takeover", KUBERNETES.lower(): "takeover on Kubernetes"}
"""Sections of the page."""

ENVIRONMENT: Final = ROOT / ".bench" / "flink"

FORGIVING: Final = {"restart_strategy": {"type": "exponential-delay", "reset-backoff-threshold": "1 s"}}
"""Each kill is the first failure of a healthy job."""


Gap = tuple[float, ...]
"""Seconds without output: until the first batch of the next driver is written, and, but for Flink, until it begins. They count from the kill, or from the end of the last batch."""


def warm_conf(archive: Path) -> dict[str, str]:
    """Return the conf of an archive of classes, and of a driver that C1 alone compiles."""
    conf, options = archive_conf(archive), "spark.driver.defaultJavaOptions"
    return {**conf, options: f"{conf[options]} -XX:TieredStopAtLevel=1"}


@contextmanager
def running(options: Mapping[str, Any], conf: Mapping[str, str]) -> Iterator[JobUnderFault]:
    """Run a job that has input all the time, on a worker with room for two drivers with an executor each. At the end, each row must be in the output once."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, LocalCluster() as cluster:
        cluster.add_worker(cores=4, memory_mb=4096)
        root = Path(folder)
        (root / "jobs").mkdir()
        changes = {"options": {**FORGIVING, **options}, "conf": conf}
        job = JobUnderFault(cluster, root / "job", root / "jobs", changes=changes)
        job.start_loop()
        try:
            with repeated(partial(job.feed, 1), FILE_INTERVAL_S):
                job.wait_for("the first batches", lambda: len(job.writes()) > 10)
                yield job
            job.wait_rows()
            print(job.so_far().check(), flush=True)
        finally:
            job.close()


def has_standby(job: JobUnderFault) -> bool:
    """Return whether a standby is prepared."""
    newest = job.newest()
    return newest is not None and bool(newest.scheduler["standby"]["is_prepared"])


def measure(job: JobUnderFault | ClusterJob, replace: Callable[[], None], *, is_kill: bool) -> Gap:
    """Replace the driver once, and return how long nothing was written."""
    time.sleep(5 * FILE_INTERVAL_S)
    before, began = max(it.epoch for it in job.writes()), time.time() * 1000
    replace()

    def written() -> list[BatchWrite]:
        return [it for it in job.writes() if it.epoch > before and it.ended is not None]

    job.wait_for("a batch of the next driver", written)
    last = max(it.ended for it in job.writes() if it.epoch <= before and it.ended is not None)
    job.wait_for("ten batches of the next driver", lambda: len(written()) >= 10)
    since = began if is_kill else last
    first = written()[0]
    return ((first.ended or first.began) - since) / 1000, (first.began - since) / 1000


def measure_case(name: str, conf: Mapping[str, str], repetitions: int) -> list[Gap]:
    """Measure a case on an embedded cluster."""
    options, is_kill = CASES[name], KILLED in name
    times: list[Gap] = []
    with running(options, conf) as job:

        def replace() -> None:
            if is_kill:
                for process in job.driver_processes():
                    process.kill()
            else:
                job.changes = {**job.changes, "conf": {**conf, "spark.deployed.by": str(len(times))}}
                job.start_loop(attempt=str(len(times) + 2))

        while len(times) < repetitions:
            if "standby" in options:
                job.wait_for("a standby", lambda: has_standby(job))
            times.append(measure(job, replace, is_kill=is_kill))
    return times


def measure_on_kubernetes(name: str, cluster: KubernetesCluster, repetitions: int) -> list[Gap]:
    """Measure a case on Kubernetes: the processes of the driver are killed, or its node is drained."""
    standby, has_budget = ON_KUBERNETES[name]
    is_kill, plane = KILLED in name, cluster.control_plane
    times: list[Gap] = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        plane.api(plane.admin) as api,
        created_namespace(api) as team,
    ):
        Path(folder).chmod(0o755)  # The user of containers is another one.
        team.create_service_account("spark")
        (budget,) = yaml.safe_load_all((ROOT / "docs/kubernetes/driver-budget.yaml").read_text())
        if has_budget:
            team.create(budget["kind"], "budget", {"spec": budget["spec"]}, group=budget["apiVersion"])
        with created_job(cluster, team, Path(folder) / "job", {**FORGIVING, "standby": standby}) as job:
            job.deploy()
            job.run_well()
            with repeated(partial(job.feed, 1), FILE_INTERVAL_S):
                while len(times) < repetitions:
                    job.wait_for("two slots", lambda: job.is_executing(2))
                    if standby != "none":
                        job.wait_for("a standby", lambda: job.standby_pod)
                    node = job.driver_node.name
                    replace = job.driver_killer() if is_kill else partial(drain_for_a_moment, api, node)
                    times.append(measure(job, replace, is_kill=is_kill))
            job.recover()
            print(job.finish(*([f"{budget['kind']} budget"] if has_budget else [])).check(), flush=True)
    return times


def drain_for_a_moment(api: KubernetesApi, node: str) -> None:
    """Drain a node, and let it accept pods again before the job needs it for its next standby."""
    drain(api, node)
    cordon(api, node, unschedulable=False)


def table(found: Mapping[str, list[Gap]]) -> Iterator[str]:
    """The measurements as Markdown."""
    yield "| Case | Repetitions | First batch begins: median, longest (s) | First batch is written: median (s) | Longest (s) | Median to the first row of its kind |"
    yield "|---|---:|---:|---:|---:|---:|"
    base: dict[bool, float] = {}
    for name, gaps in found.items():
        times, *begins = zip(*gaps, strict=True)
        median = statistics.median(times)
        ratio = median / base.setdefault(KILLED in name, median)
        began = "".join(f"{statistics.median(it):.1f}, {max(it):.1f}" for it in begins)
        yield f"| {name} | {len(times)} | {began} | {median:.1f} | {max(times):.1f} | {ratio:.2f} |"


def measure_all(arguments: argparse.Namespace) -> dict[str, list[Gap]]:
    """Measure the chosen cases in turn, and print what each took."""
    found: dict[str, list[Gap]] = {}

    def keep(name: str, measured: Callable[[], list[Gap]]) -> None:
        if arguments.only in name:
            found[name] = measured()
            print(name, found[name], flush=True)

    if arguments.cluster != STANDALONE:
        with running_cluster() as cluster:
            cluster.start_nodes()
            for name in ON_KUBERNETES:
                keep(name, partial(measure_on_kubernetes, name, cluster, arguments.repetitions))
        return found
    conf = {} if arguments.archive is None else warm_conf(arguments.archive)
    for name in CASES:
        keep(name, partial(measure_case, name, conf, arguments.repetitions))
    if not arguments.no_flink:
        install(ENVIRONMENT)
        for name, process in FAILOVERS.items():
            keep(name, partial(measure_failovers, ENVIRONMENT, process, arguments.repetitions))
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.takeover", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--write", type=Path, help="page whose section is rewritten")
    parser.add_argument("--archive", type=Path, help="archive of classes for all jobs (class-archive.sh)")
    parser.add_argument(
        "--no-flink", action="store_true", help="without the comparison with Flink, which is installed if it is missing"
    )
    parser.add_argument("--cluster", choices=[*SECTIONS], default=STANDALONE)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    arguments = parser.parse_args()
    found = measure_all(arguments)
    body = "\n".join([machine_line(), "", *table(found)])
    print(body)
    if arguments.write is not None:
        publish(SECTIONS[arguments.cluster], body, arguments.write)


if __name__ == "__main__":
    main()
