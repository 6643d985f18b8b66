"""Runs the benchmark: `make lab TASK=bench-kafka`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.lab.benchmarks import nexmark
from tests.lab.benchmarks.balance import machine_line
from tests.lab.benchmarks.nexmark.case import BACKLOG, LOW_RATE, PHASE_S, Row, run
from tests.lab.benchmarks.nexmark.programs import TOOLS
from tests.lab.benchmarks.nexmark.results import QUERIES, WINDOW_MS
from tests.lab.benchmarks.nexmark.systems import CONNECTOR, SLOTS, systems
from tests.lab.benchmarks.rescale.flink.installation import install
from tests.support.jars import resolve_all
from tests.support.kafka.cluster import running_kafka
from tests.support.published_tables import publish
from tests.support.repository import ROOT

FLINK: Final = ROOT / ".bench" / "flink"

HEADER: Final = (
    f"| Query | System | Backlog, events/s | to the first row | Delay at {LOW_RATE:,} events/s, median (ms) |"
    f" Worst delay while the load doubles (ms) | Longest pause meanwhile (ms) | Delay at {2 * LOW_RATE:,} events/s, median (ms) |"
    " Lost | Duplicated | Wrong |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as Markdown. The first row of a query is the one with which its other rows are compared."""
    yield HEADER
    first: dict[str, Row] = {}
    for row in rows:
        it = row.measured
        ratio = it.throughput / first.setdefault(row.query, row).measured.throughput
        times = " | ".join(f"{time:,.0f}" for time in (it.low_ms, it.worst_ms, it.pause_ms, it.high_ms))
        counts = f"{it.lost} | {it.duplicated} | {it.wrong}"
        yield f"| {row.query} | {row.system} | {it.throughput:,.0f} | {ratio:.2f} | {times} | {counts} |"


def cost_of_batches(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how much later the results of Spark are than those of Flink, by query. Without both, nothing is known."""
    delays = {(row.query, row.system.partition(",")[0]): row.measured.low_ms for row in reversed(rows)}
    for query in dict.fromkeys(row.query for row in rows):
        if {(query, "Spark"), (query, "Flink")} <= delays.keys():
            spark, flink = delays[query, "Spark"], delays[query, "Flink"]
            yield (
                f"- {query}: at {LOW_RATE:,} events/s, the median result of Spark with {SLOTS} slots has a delay of {spark:,.0f} ms,"
                f" that of Flink {flink:,.0f} ms: a difference of {spark - flink:,.0f} ms."
            )


async def run_all(queries: Sequence[str], phase_s: float) -> list[Row]:
    """Run all cases, one after the other."""
    rows = []
    with running_kafka() as kafka, tempfile.TemporaryDirectory(prefix="airflow-adaptive-") as folder:
        for query in queries:
            for number, system in enumerate(systems(FLINK)):
                root = Path(folder) / f"{query}-{number}"
                root.mkdir()
                rows.append(await run(query, system, kafka, root, phase_s))
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="tests.lab.benchmarks.nexmark", description=nexmark.__doc__)
    parser.add_argument("--write", type=Path, help="page whose section 'nexmark' is to be rewritten")
    parser.add_argument(
        "--phase", type=float, default=PHASE_S, help="seconds that are measured at each rate (%(default)g)"
    )
    parser.add_argument("queries", nargs="*", default=list(QUERIES), help="queries (all)")
    options = parser.parse_args()
    if options.phase * 1000 < WINDOW_MS:
        parser.error("--phase: a window of the queries takes 10 seconds")
    resolve_all(TOOLS, CONNECTOR)
    install(FLINK)
    rows = asyncio.run(run_all(options.queries, options.phase))
    size = f"{BACKLOG:,} events in the backlog, {options.phase:g} s at each rate."
    lines = [machine_line(), size, "", *table(rows), "", *cost_of_batches(rows)]
    print("\n".join(lines))
    if options.write is not None:
        publish("nexmark", "\n".join(lines), options.write)


if __name__ == "__main__":
    main()
