"""Simulates ten thousand seeds and some fleets of 300 jobs, and publishes the results in docs/faults.md: `make fleet-long`.

The run takes hours. The outcomes are kept by commit in `.fleet`, so an interrupted run continues with the missing seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from airflow_adaptive.testing.fleet.campaign import run_seeds
from airflow_adaptive.testing.fleet.simulation import Outcome
from tests.support.published_tables import head, publish
from tests.support.repository import ROOT

FOLDER: Final = ROOT / ".fleet"
HEADER: Final = "| Jobs | Seeds | Virtual hours | Facts | Violations |\n|---|---|---:|---:|---|"


class Part(NamedTuple):
    """A part of the run.

    Attributes:
        title: number of jobs, for the table.
        jobs: number of jobs of each fleet, None for a number that depends on the seed.
        seeds: the seeds.
    """

    title: str
    jobs: int | None
    seeds: range


PARTS: Final = (Part("3 to 10", None, range(1, 10_001)), Part("300", 300, range(1, 11)))


class Results:
    """Outcomes of one part in a file, with one JSON document for each seed."""

    def __init__(self, path: Path) -> None:
        """Read the outcomes of earlier runs; the file need not exist."""
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.outcomes = [Outcome(**json.loads(line)) for line in lines]

    def missing(self, seeds: Iterable[int]) -> list[int]:
        """The seeds without an outcome."""
        known = {outcome.seed for outcome in self.outcomes}
        return [seed for seed in seeds if seed not in known]

    def add(self, outcome: Outcome) -> None:
        """Append an outcome."""
        self.outcomes.append(outcome)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def row(part: Part, outcomes: Sequence[Outcome]) -> str:
    """The row of a part: only the seeds that were simulated."""
    violations = sorted((it.seed, it.invariant) for it in outcomes if it.invariant)
    texts = ", ".join(f"{seed} ({invariant})" for seed, invariant in violations) or "none"
    hours, facts = sum(it.virtual_s for it in outcomes) / 3600, sum(it.facts for it in outcomes)
    seeds = f"{len(outcomes):,} of {part.seeds.start}-{part.seeds.stop - 1}"
    return f"| {part.title} | {seeds} | {hours:,.0f} | {facts:,} | {texts} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fleet.long_run", description=__doc__)
    parser.add_argument("--most", type=int, help="greatest number of seeds of each part in this run (all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="number of processes (all cores)")
    options = parser.parse_args(arguments)
    rows, is_violated, commit = [], False, head()
    for part in PARTS:
        results = Results(FOLDER / commit / f"{part.title.replace(' ', '-')}.jsonl")
        for outcome in run_seeds(results.missing(part.seeds)[: options.most], part.jobs, options.processes):
            print(outcome.summary, flush=True)
            results.add(outcome)
        rows.append(row(part, results.outcomes))
        is_violated = is_violated or any(outcome.invariant for outcome in results.outcomes)
    publish("fleets", "\n".join([HEADER, *rows]), commit=commit)
    return 1 if is_violated else 0


if __name__ == "__main__":
    sys.exit(main())
