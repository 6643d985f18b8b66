"""Runs many seeds in several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.lab.fleet import simulation
from tests.lab.fleet.seeds import scenario_of
from tests.lab.fleet.simulation import Outcome, simulate

SEEDS_PER_PROCESS = 50
"""Simulations after which a process is replaced, so that the memory of a long run stays small."""


def run_seeds(seeds: Sequence[int], jobs: int | None, processes: int) -> Iterator[Outcome]:
    """Simulate seeds, and return the outcomes in the order in which they end."""
    if len(seeds) == 1:
        yield run_seed(seeds[0], jobs)
        return
    context = get_context("forkserver")
    context.set_forkserver_preload([simulation.__name__])  # so that the processes import Airflow once, together
    size = processes * SEEDS_PER_PROCESS
    for start in range(0, len(seeds), size):
        # A pool for each part: a pool with max_tasks_per_child stops without a message (python/cpython#115634).
        with ProcessPoolExecutor(processes, context) as pool:
            for future in as_completed([pool.submit(run_seed, seed, jobs) for seed in seeds[start : start + size]]):
                yield future.result()


def run_seed(seed: int, jobs: int | None) -> Outcome:
    """Simulate one seed."""
    return simulate(scenario_of(seed, jobs)).outcome
