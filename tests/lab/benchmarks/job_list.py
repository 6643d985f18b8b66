"""Response time of the list of jobs on PostgreSQL, for 1,000 jobs that have run for an hour.

The requests go through Airflow's app without a network. The first requests of the process, which fill its caches, are not measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

from tests.lab.benchmarks.scheduler import machine_line
from tests.support.published_tables import publish

JOBS: Final = 1000

RUNS: Final = 100

WARM_UP: Final = 3

TARGET_MS: Final = 150

LISTS: Final[Mapping[str, int]] = {"a page of 50 jobs": 50, "all jobs": 1000}
"""Description -> limit of the list."""


@contextmanager
def listing(jobs: int) -> Iterator[Callable[[int], int]]:
    """Create jobs on a PostgreSQL server, and yield a function that lists them and returns the size of the response in bytes."""
    from tests.support.airflow.airflow_app_fixtures import ENVIRONMENT  # noqa: PLC0415
    from tests.support.databases.postgresql import running_postgresql  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as home, running_postgresql() as server:
        environment = {
            **ENVIRONMENT,
            "AIRFLOW_HOME": home,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": server.create_database("benchmark"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": f"{home}/passwords.json",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }
        with mock.patch.dict(os.environ, environment), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Airflow's own, while it is imported and set up
            client = _client(jobs)
            yield lambda limit: len(
                client.get("/adaptive/api/v1/jobs", params={"limit": limit}).raise_for_status().content
            )


def measure(list_jobs: Callable[[int], int], runs: int) -> dict[str, tuple[list[float], int]]:
    """Return the durations in milliseconds, sorted, and the size of the response of each list."""
    found: dict[str, tuple[list[float], int]] = {}
    for name, limit in LISTS.items():
        size = [list_jobs(limit) for _ in range(WARM_UP)][-1]
        found[name] = (sorted(_duration(list_jobs, limit) for _ in range(runs)), size)
    return found


def table(measured: Mapping[str, tuple[Sequence[float], int]]) -> list[str]:
    """The measurements, as Markdown."""
    rows = [
        f"| {name} | {size / 1024:,.0f} | {statistics.median(times):,.0f} | {_p95(times):,.0f}"
        f" | {'met' if _p95(times) <= TARGET_MS else '**not met**'} |"
        for name, (times, size) in measured.items()
    ]
    return [f"| list | KiB | median (ms) | p95 (ms) | target of {TARGET_MS} ms |", "|---|---:|---:|---:|---|", *rows]


def _client(jobs: int) -> Any:
    from tests.support.airflow.airflow_app import AirflowApp  # noqa: PLC0415
    from tests.support.databases.many_jobs import insert_jobs  # noqa: PLC0415

    airflow_app = AirflowApp.begin()
    insert_jobs(airflow_app, jobs)
    return airflow_app.client()


def _duration(list_jobs: Callable[[int], int], limit: int) -> float:
    begin = time.perf_counter()
    list_jobs(limit)
    return (time.perf_counter() - begin) * 1000


def _p95(times: Sequence[float]) -> float:
    return times[min(len(times) - 1, int(len(times) * 0.95))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the section of a page on request."""
    parser = argparse.ArgumentParser(prog="tests.lab.benchmarks.job_list", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="number of jobs in the database")
    parser.add_argument("--runs", type=int, default=RUNS, help="requests of each list")
    parser.add_argument("--write", type=Path, help="page whose section 'job list' is to be rewritten")
    options = parser.parse_args(arguments)
    with listing(options.jobs) as list_jobs:
        measured = measure(list_jobs, options.runs)
    load = f"{options.runs} requests for each list. Load average of the machine, with the benchmark: {os.getloadavg()[1]:.1f}."
    lines = [f"{machine_line()} {load}", "", *table(measured)]
    print("\n".join(lines))
    if options.write is not None:
        publish("job list", "\n".join(lines), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
