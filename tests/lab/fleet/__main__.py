"""Simulates fleets of jobs from seeds.

    python -m tests.lab.fleet SEED

Each seed gives one history, with the same lines in each run. For a seed that violates an invariant, the command prints the shortest
history that it finds. The exit code is 1 if a seed violates an invariant.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tests.lab.fleet.campaign import run_seeds
from tests.lab.fleet.seeds import scenario_of
from tests.lab.fleet.simulation import Outcome, shortest_failure, simulate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    outcomes = []
    for outcome in run_seeds(options.seeds, options.jobs, options.processes):
        print(outcome.summary, flush=True)
        outcomes.append(outcome)
    failed = [outcome for outcome in outcomes if outcome.invariant]
    hours, facts = sum(it.virtual_s for it in outcomes) / 3600, sum(it.facts for it in outcomes)
    print(f"{len(outcomes)} seeds, {hours:,.1f} virtual hours, {facts:,} facts, {len(failed)} violations")
    if options.history:
        for seed in options.seeds:
            print(*simulate(scenario_of(seed, options.jobs)).history, sep="\n")
    if failed and options.shrink:
        _print_shortest(min(failed, key=lambda outcome: outcome.seed), options.jobs)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.fleet", description=__doc__)
    parser.add_argument("seeds", metavar="SEED", type=_seeds, help="a seed, or the first and the last one: 1-1000")
    parser.add_argument("--jobs", type=int, help="number of jobs (3 to 10, depending on the seed)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="number of processes (all cores)")
    parser.add_argument("--history", action="store_true", help="print the history of each seed")
    parser.add_argument(
        "--no-shrink", dest="shrink", action="store_false", help="search no shorter history of a failure"
    )
    return parser


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _print_shortest(outcome: Outcome, jobs: int | None) -> None:
    """Print the shortest history of a violation that was found, and the events that cause the violation."""
    scenario = shortest_failure(scenario_of(outcome.seed, jobs), outcome.invariant)
    simulated = simulate(scenario)
    print(f"\nShortest history of seed {outcome.seed} with {len(scenario.events)} events:")
    print(*simulated.history, sep="\n")
    print(*scenario.events, sep="\n")
    print(simulated.outcome.summary)


if __name__ == "__main__":
    sys.exit(main())
