"""Runs the benchmark: `make bench-kafka`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks import nexmark
from tests.benchmarks.balance import machine_line
from tests.benchmarks.nexmark.case import BACKLOG, LOW_RATE, Row, run
from tests.benchmarks.nexmark.programs import TOOLS
from tests.benchmarks.nexmark.results import QUERIES
from tests.benchmarks.nexmark.systems import CONNECTOR, systems
from tests.benchmarks.rescale.flink.installation import install
from tests.support.jars import resolve_all
from tests.support.kafka.cluster import running_kafka
from tests.support.published_tables import publish
from tests.support.repository import ROOT

FLINK: Final = ROOT / ".bench" / "flink"

HEADER: Final = (
    f"| Query | System | Backlog, events/s | to the first row | Delay at {LOW_RATE:,} events/s, median (ms) |"
    f" Worst delay while the load doubles (ms) | Delay at {2 * LOW_RATE:,} events/s, median (ms) | Lost | Duplicated | Wrong |"
    "\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as Markdown. The first row of a query is the one with which its other rows are compared."""
    yield HEADER
    first: dict[str, Row] = {}
    for row in rows:
        it = row.measured
        ratio = it.throughput / first.setdefault(row.query, row).measured.throughput
        times = f"{it.low_ms:,.0f} | {it.worst_ms:,.0f} | {it.high_ms:,.0f}"
        counts = f"{it.lost} | {it.duplicated} | {it.wrong}"
        yield f"| {row.query} | {row.system} | {it.throughput:,.0f} | {ratio:.2f} | {times} | {counts} |"


async def run_all(queries: Sequence[str]) -> list[Row]:
    """Run all cases, one after the other."""
    rows = []
    with running_kafka() as kafka, tempfile.TemporaryDirectory(prefix="airflow-adaptive-") as folder:
        for query in queries:
            for number, system in enumerate(systems(FLINK)):
                root = Path(folder) / f"{query}-{number}"
                root.mkdir()
                rows.append(await run(query, system, kafka, root))
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.nexmark", description=nexmark.__doc__)
    parser.add_argument("--write", type=Path, help="page whose section 'nexmark' is to be rewritten")
    parser.add_argument("queries", nargs="*", default=list(QUERIES), help="queries (all)")
    options = parser.parse_args()
    resolve_all(TOOLS, CONNECTOR)
    install(FLINK)
    rows = asyncio.run(run_all(options.queries))
    lines = [machine_line(), f"{BACKLOG:,} events in the backlog.", "", *table(rows)]
    print("\n".join(lines))
    if options.write is not None:
        publish("nexmark", "\n".join(lines), options.write)


if __name__ == "__main__":
    main()
