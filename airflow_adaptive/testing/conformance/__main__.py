"""The command line: judge a file of vectors, print what came of it, fail on deviations without a reason."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_adaptive.testing.conformance.runner import Tally, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a file; return the exit code."""
    parser = argparse.ArgumentParser(prog="airflow_adaptive.testing.conformance", description=__doc__)
    parser.add_argument("file", type=Path, help="JSON object of areas, each a list of vectors")
    asked = parser.parse_args(arguments)
    tallies = run(json.loads(asked.file.read_text()))
    for line in report(tallies):
        sys.stdout.write(f"{line}\n")
    return 1 if any(tally.deviating for tally in tallies.values()) else 0


def report(tallies: dict[str, Tally]) -> list[str]:
    """A line per area, then a line per vector that did not simply pass."""
    lines = [f"{'area':26} passed differing not-applicable deviating"]
    details = []
    for area, tally in tallies.items():
        differing, not_applicable, deviating = map(len, (tally.differing, tally.not_applicable, tally.deviating))
        lines.append(f"{area:26} {tally.passed:6} {differing:9} {not_applicable:14} {deviating:9}")
        details += [f"differs on purpose  {area} {told}" for told in tally.differing]
        details += [f"not applicable      {area} {told}" for told in tally.not_applicable]
        details += [f"DEVIATES            {area} {told}" for told in tally.deviating]
    return [*lines, "", *details]


if __name__ == "__main__":
    sys.exit(main())
