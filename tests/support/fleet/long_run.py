"""Simulates the seeds that follow the published ones, and adds them to the record in tests/lab/results/faults.md: `make lab TASK=fleet-long`.

Each thousand seeds also contain a fleet of 300 jobs. The run takes hours. The outcomes are kept by commit in `.fleet`, and the record
is published after each part, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from tests.lab.fleet.campaign import run_seeds
from tests.lab.fleet.simulation import Outcome
from tests.support.fleet.record import next_seed, row, rows, table
from tests.support.page_sections import section
from tests.support.published_tables import TABLES, head, publish_rows
from tests.support.repository import ROOT

FOLDER: Final = ROOT / ".fleet"
PAGE: Final = ROOT / TABLES["fleets"].page
SEEDS_OF_A_PART: Final = 100
SEEDS_PER_LARGE_FLEET: Final = 1000
LARGE: Final = 300


class Part(NamedTuple):
    """Seeds whose outcomes are published together.

    Attributes:
        jobs: number of jobs of each fleet, None for a number that depends on the seed.
        seeds: the seeds.
    """

    jobs: int | None
    seeds: range

    @property
    def title(self) -> str:
        """Number of jobs, for the table."""
        return "3 to 10" if self.jobs is None else str(self.jobs)


class Results:
    """Outcomes in a file, with one JSON document for each seed."""

    def __init__(self, path: Path) -> None:
        """Read the outcomes of earlier runs; the file need not exist."""
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._outcomes = [Outcome(**json.loads(line)) for line in lines]

    def missing(self, seeds: Iterable[int]) -> list[int]:
        """The seeds without an outcome."""
        known = {outcome.seed for outcome in self._outcomes}
        return [seed for seed in seeds if seed not in known]

    def of(self, seeds: range) -> list[Outcome]:
        """The outcomes of some seeds."""
        return [outcome for outcome in self._outcomes if outcome.seed in seeds]

    def add(self, outcome: Outcome) -> None:
        """Append an outcome."""
        self._outcomes.append(outcome)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def divide(first: int, large: int, number: int) -> Iterator[Part]:
    """Divide a run into parts.

    Args:
        first: first seed of the fleets of 3 to 10 jobs.
        large: first seed of the fleets of 300 jobs.
        number: of seeds.
    """
    for done in range(0, number, SEEDS_OF_A_PART):
        yield Part(None, range(first + done, first + min(done + SEEDS_OF_A_PART, number)))
        if done % SEEDS_PER_LARGE_FLEET == 0:
            yield Part(LARGE, range(large + done // SEEDS_PER_LARGE_FLEET, large + done // SEEDS_PER_LARGE_FLEET + 1))


def simulate(part: Part, commit: str, processes: int) -> list[Outcome]:
    """Return the outcomes of all seeds of a part; simulates those that an interrupted run at this commit lacks."""
    results = Results(FOLDER / commit / f"{part.title.replace(' ', '-')}.jsonl")
    for outcome in run_seeds(results.missing(part.seeds), part.jobs, processes):
        print(outcome.summary, flush=True)
        results.add(outcome)
    return results.of(part.seeds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fleet.long_run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds (1000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="number of processes (all cores)")
    options = parser.parse_args(arguments)
    commit, record = head(), rows(section(PAGE, "fleets"))
    violated = []
    for part in divide(next_seed(record, "3 to 10"), next_seed(record, str(LARGE)), options.seeds):
        outcomes = simulate(part, commit, options.processes)
        violated += [outcome for outcome in outcomes if outcome.invariant]
        record.append(row(part.title, commit, outcomes))
        publish_rows("fleets", table(record))
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
