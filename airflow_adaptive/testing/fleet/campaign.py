"""Runs many seeds in several processes. A run that was interrupted continues with the seeds that are missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from airflow_adaptive.testing.fleet.seeds import scenario_of
from airflow_adaptive.testing.fleet.simulation import Outcome, simulate

SEEDS_PER_PROCESS = 50
"""Simulations after which a process is replaced, so that the memory of a long run stays small."""


def run_seeds(seeds: Sequence[int], jobs: int | None, processes: int) -> Iterator[Outcome]:
    """Simulate seeds, and return the outcomes in the order in which they end."""
    if len(seeds) == 1 or processes == 1:
        yield from (run_seed(seed, jobs) for seed in seeds)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), max_tasks_per_child=SEEDS_PER_PROCESS) as pool:
        for future in as_completed([pool.submit(run_seed, seed, jobs) for seed in seeds]):
            yield future.result()


def run_seed(seed: int, jobs: int | None) -> Outcome:
    """Simulate one seed."""
    return simulate(scenario_of(seed, jobs)).outcome


class Results:
    """Outcomes of a long run in a file, with one JSON document for each seed."""

    def __init__(self, path: Path, commit: str) -> None:
        """Read the outcomes of earlier runs.

        Args:
            path: the file; it need not exist.
            commit: commit of the code; outcomes of another commit do not count.
        """
        self._path = path
        self._commit = commit
        lines = path.read_text().splitlines() if path.exists() else []
        documents = (json.loads(line) for line in lines)
        self.outcomes = [Outcome(**found["outcome"]) for found in documents if found["commit"] == commit]

    def missing(self, seeds: Iterable[int]) -> list[int]:
        """Return the seeds without an outcome."""
        known = {outcome.seed for outcome in self.outcomes}
        return [seed for seed in seeds if seed not in known]

    def add(self, outcome: Outcome) -> None:
        """Append an outcome."""
        self.outcomes.append(outcome)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"commit": self._commit, "outcome": asdict(outcome)}) + "\n")
