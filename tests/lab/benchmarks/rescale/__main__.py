"""Measures what a rescale costs, and writes what was found."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import tests.lab.benchmarks.rescale
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive.local.distribution import find_java
from tests.lab.benchmarks.rescale.case import Case, Found, files_within, first_line
from tests.lab.benchmarks.rescale.flink.flink_case import FlinkCase
from tests.lab.benchmarks.rescale.flink.installation import VERSION, install
from tests.lab.benchmarks.rescale.spark.places import KUBERNETES, STANDALONE
from tests.lab.benchmarks.rescale.spark.spark_case import SparkCase
from tests.lab.benchmarks.rescale.table import tables
from tests.support.published_tables import publish
from tests.support.repository import ROOT

FOLDER: Final = ROOT / ".bench"

REPEATS: Final = 10
WARM_UP: Final = 2
"""The first way down and the first way up find cold code and no files in the page cache: they do not count."""

LIMIT_S: Final = 47 * 60.0

ENDING_S: Final = 45.0
"""For what is left to come out, and for the job's end."""

OVERTIME_S: Final = 60.0
"""What hangs is given up so long after its share of the time."""

SMALL, LARGE = 10_000, 1_000_000
ENVIRONMENT: Final = FOLDER / "flink"

CASES: Final[dict[Case, float]] = {
    SparkCase(name="tier 0", keys=SMALL, tier=Tier.EXECUTORS): 290,
    SparkCase(name="tier 1", keys=SMALL, tier=Tier.QUERY): 260,
    FlinkCase(name="Flink", keys=SMALL, environment=ENVIRONMENT): 270,
    SparkCase(name="tier 2", keys=SMALL, tier=Tier.STATE): 310,
    SparkCase(name="tier 1", keys=LARGE, tier=Tier.QUERY): 280,
    FlinkCase(name="Flink", keys=LARGE, environment=ENVIRONMENT): 280,
    SparkCase(name="tier 2", keys=LARGE, tier=Tier.STATE): 480,
}
"""What is measured, in this order, and its share of the time. `takeover` measures tier 3, for a job that leaves room for a prepared driver."""

ON_KUBERNETES: Final[dict[Case, float]] = {
    SparkCase(name=f"tier {tier.value}, {where}", keys=SMALL, tier=tier, where=where): seconds
    for tier, seconds in ((Tier.EXECUTORS, 290), (Tier.QUERY, 260), (Tier.STATE, 310), (Tier.DRIVER, 650))
    for where in (KUBERNETES, STANDALONE)
}
"""What is measured on Kubernetes, each tier beside the same tier on a standalone cluster."""

LARGEST: Final[dict[Case, float]] = {SparkCase(name="tier 2", keys=10_000_000, tier=Tier.STATE): LIMIT_S}
"""What is measured on request only, because the state alone takes minutes."""

SECTIONS: Final = {STANDALONE: "rescale", KUBERNETES.lower(): "rescale on Kubernetes"}
"""Sections of the page."""


class OutOfTimeError(Exception):
    """A case hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How it is measured.

    Attributes:
        repeats: of each case.
        warm_up: as many before that do not count.
        files: that each job gets.
    """

    repeats: int
    warm_up: int
    files: int


def measure(case: Case, run: Run, seconds: float) -> Found:
    """One case; what goes wrong is what was found."""
    root = FOLDER / "run" / re.sub(r"\W+", "-", case.title)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    signal.alarm(round(seconds + OVERTIME_S))
    try:
        deadline = time.monotonic() + seconds - ENDING_S
        found = case.run(root, repeats=run.repeats, warm_up=run.warm_up, deadline=deadline, files=run.files)
    except Exception as error:  # noqa: BLE001  (the other cases are to be measured whatever this one does)
        print(f"{case.title}: {error}", file=sys.stderr)
        return Found(title=case.title, error=first_line(error))
    finally:
        signal.alarm(0)
    if not found.error:
        shutil.rmtree(root, ignore_errors=True)
    return found


def measure_all(chosen: dict[Case, float], run: Run, limit_s: float) -> Iterator[Found]:
    """Measure the cases in turn."""
    end, left = time.monotonic() + limit_s, dict(chosen)
    while left:
        case, share = next(iter(left.items()))
        seconds = (end - time.monotonic()) * share / sum(left.values())
        print(f"{case.title}: {seconds:.0f} s", file=sys.stderr, flush=True)
        yield measure(case, run, seconds)
        del left[case]


def machine_lines(run: Run, found: Sequence[Found], java: str, others: str) -> list[str]:
    """What it was measured on."""
    loads = [each.load for each in found if each.load] or [0.0]
    return [
        f"{os.cpu_count()} cores shared by all processes, {platform.system()} {platform.machine()}, Python"
        f" {platform.python_version()}, Java {java}, Spark {version('pyspark')}, {others}.",
        f"Load average before each case: {min(loads):.1f} - {max(loads):.1f}. Of each case {run.repeats} rescales, after"
        f" {run.warm_up} for warming up that do not count.",
    ]


def java_version() -> str:
    """Of the Java that runs both systems."""
    output = subprocess.run(
        [find_java() / "bin" / "java", "-version"], capture_output=True, text=True, check=False, timeout=30
    ).stderr
    found = re.search(r'"([\d.]+)', output)
    return found[1] if found else "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write if asked to; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(
        prog="tests.lab.benchmarks.rescale", description=tests.lab.benchmarks.rescale.__doc__
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="rescales of each case that count")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="rescales before them that do not")
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, help="seconds for all; who has no time left repeats less"
    )
    parser.add_argument("--only", nargs="+", default=[""], help='cases whose title begins so, as "tier 1" or "Flink"')
    parser.add_argument("--cluster", choices=[*SECTIONS], default=STANDALONE, help="where it is measured")
    parser.add_argument(
        "--largest", action="store_true", help="measure 10,000,000 keys instead, on a standalone cluster"
    )
    parser.add_argument("--archive", type=Path, help="measure tier 0 with this archive of classes, too")
    parser.add_argument("--write", type=Path, help="page whose section is to be rewritten")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGALRM, _give_up)
    cases, section = (CASES if options.cluster == STANDALONE else ON_KUBERNETES), SECTIONS[options.cluster]
    if options.largest:
        cases, section = LARGEST, "rescale of the largest state"
    if options.archive is not None:
        name = "tier 0 with an archive"
        cases = {SparkCase(name=name, keys=SMALL, tier=Tier.EXECUTORS, archive=options.archive): 290, **cases}
    run = Run(repeats=options.repeats, warm_up=options.warm_up, files=files_within(max(cases.values()) + OVERTIME_S))
    chosen = {case: seconds for case, seconds in cases.items() if case.title.startswith(tuple(options.only))}
    others = "a test cluster of Kubernetes with two nodes on this machine" if cases is ON_KUBERNETES else "no Flink"
    if any(isinstance(case, FlinkCase) for case in chosen):
        others = f"Flink {VERSION}"
        install(ENVIRONMENT)
    found = list(measure_all(chosen, run, options.limit))
    lines = [*machine_lines(run, found, java_version(), others), "", *tables(found)]
    print("\n".join(lines))
    if options.write is not None:
        publish(section, "\n".join(lines), options.write)
    return int(any(each.error for each in found))


def _give_up(*_: object) -> None:
    raise OutOfTimeError("given up: it took too long")


if __name__ == "__main__":
    sys.exit(main())
