"""Checks the scheduler with a file of conformance vectors. The exit code is 1 if a deviation has no explanation."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab.conformance.runner import AreaResult, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the vectors of a file, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.lab.conformance", description=__doc__)
    parser.add_argument("file", type=Path, help="JSON object that maps names of areas to lists of vectors")
    results = run(json.loads(parser.parse_args(arguments).file.read_text()))
    for line in report(results):
        sys.stdout.write(f"{line}\n")
    return 1 if any(result.deviating for result in results.values()) else 0


def report(results: dict[str, AreaResult]) -> list[str]:
    """Return one line for each area, then one line for each vector that did not pass."""
    lines = [f"{'area':26} passed differing not-applicable deviating"]
    details = []
    for area, result in results.items():
        differing, not_applicable, deviating = map(len, (result.differing, result.not_applicable, result.deviating))
        lines.append(f"{area:26} {result.passed:6} {differing:9} {not_applicable:14} {deviating:9}")
        details += [f"differs on purpose  {area} {vector}" for vector in result.differing]
        details += [f"not applicable      {area} {vector}" for vector in result.not_applicable]
        details += [f"DEVIATES            {area} {vector}" for vector in result.deviating]
    return [*lines, "", *details]


if __name__ == "__main__":
    sys.exit(main())
