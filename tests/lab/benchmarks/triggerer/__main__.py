"""Measures the triggerer, and writes what was found."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import tests.lab.benchmarks.triggerer
from tests.lab.benchmarks.scheduler import machine_line
from tests.lab.benchmarks.triggerer import Measurements, Outages
from tests.lab.benchmarks.triggerer.cluster import END, REQUESTS, serve_cluster
from tests.lab.benchmarks.triggerer.loops import run_triggerer
from tests.support.published_tables import publish

JOBS = (10, 100, 1_000)
SECONDS = 40.0
RUNS = 2

CPU = "CPU (cores)"


def measure(jobs: int, seconds: float, outages: Outages, profile: str | None = None) -> Measurements:
    """All measurements for a number of jobs."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-bench-") as folder:
        base = Path(folder)
        cluster, cluster_end = spawn.Pipe()
        triggerer, triggerer_end = spawn.Pipe()
        serving = spawn.Process(target=serve_cluster, args=(cluster_end, jobs, base, outages))
        serving.start()
        running = spawn.Process(
            target=run_triggerer, args=(triggerer_end, jobs, base, seconds, cluster.recv(), outages, profile)
        )
        running.start()
        triggerer_end.close()
        try:
            return relay(triggerer, cluster)
        finally:
            cluster.send(END)
            serving.join()
            running.join()


def relay(triggerer: Connection, cluster: Connection) -> Measurements:
    """Forward the messages of the triggerer to the cluster until the triggerer sends its measurements."""
    while isinstance(message := triggerer.recv(), str):
        cluster.send(message)
        if message == REQUESTS:
            triggerer.send(cluster.recv())
    measurements: Measurements = message
    return measurements


def table(measured: Mapping[int, Sequence[Measurements]]) -> Iterator[str]:
    """The medians of all runs as Markdown, and how far the CPU times lie apart."""
    jobs = sorted(measured)
    yield row("jobs", [f"{count:,}" for count in jobs])
    yield "|---|" + "---:|" * len(jobs)
    for name in measured[jobs[0]][0]:
        yield row(name, [f"{median(measured[count], name):,.2f}" for count in jobs])
        if name == CPU:
            yield row("of all runs, from - to", [spread([it[name] for it in measured[count]]) for count in jobs])
            yield row("for each job (ms/s)", [f"{median(measured[count], name) / count * 1000:,.2f}" for count in jobs])


def median(runs: Sequence[Measurements], name: str) -> float:
    """Of one figure."""
    return statistics.median(measurements[name] for measurements in runs)


def spread(measurements: Sequence[float]) -> str:
    """From the smallest to the largest."""
    return f"{min(measurements):,.2f} - {max(measurements):,.2f}"


def row(name: str, cells: Sequence[str]) -> str:
    """Of a table in Markdown."""
    return f"| {name} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None, load: Callable[[], tuple[float, ...]] = os.getloadavg) -> int:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(
        prog="tests.lab.benchmarks.triggerer", description=tests.lab.benchmarks.triggerer.__doc__
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=JOBS, help="numbers of jobs")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long is measured, for each")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of which the median is taken")
    parser.add_argument(
        "--master-delay", type=float, default=0.0, help="seconds that each response of the master takes"
    )
    parser.add_argument(
        "--storage-delay", type=float, default=0.0, help="seconds that each access to a job directory takes"
    )
    parser.add_argument("--store-hangs", action="store_true", help="Airflow's store answers no request")
    parser.add_argument("--restart", action="store_true", help="restart all loops before the measurement")
    parser.add_argument("--section", default="triggerer", help="section of the page")
    parser.add_argument("--write", type=Path, help="page whose section is to be rewritten")
    parser.add_argument("--profile", help="file for a profile of the event loop's thread")
    options = parser.parse_args(arguments)
    outages = Outages(
        master_delay_s=options.master_delay,
        storage_delay_s=options.storage_delay,
        store_hangs=options.store_hangs,
        restart=options.restart,
    )
    measured: dict[int, list[Measurements]] = {jobs: [] for jobs in options.jobs}
    loads = []
    for jobs in [*options.jobs] * options.runs:
        loads.append(load()[0])
        measured[jobs].append(measure(jobs, options.seconds, outages, options.profile))
        print(f"{jobs} jobs: {measured[jobs][-1]}", file=sys.stderr)
    others = f"Load average before each run: {spread(loads)}."
    lines = [f"{machine_line()} {others}", "", *table(measured)]
    print("\n".join(lines))
    if options.write is not None:
        publish(options.section, "\n".join(lines), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
