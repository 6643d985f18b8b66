"""Brings fixed defects back, and checks that the fleet simulator finds each of them by its named seed: `make lab TASK=fleet-defects`.

    python -m tests.support.fleet.reverts                         # run all named seeds, and publish the table
    python -m tests.support.fleet.reverts 4 7                     # run the seeds of two defects
    python -m tests.support.fleet.reverts --search 1-500 4        # search a seed that finds a defect

`reverted_fixes/defects.toml` lists the defects. A seed counts only if no invariant is violated in the code without the patch.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.published_tables import RESULTS, publish
from tests.support.repository import ROOT

PACKAGE: Final = "airflow_adaptive"
PATCHES: Final = Path(__file__).with_name("reverted_fixes")
LISTED: Final = PATCHES / "defects.toml"
SIMULATOR: Final = (sys.executable, "-m", "tests.lab.fleet", "--no-shrink", "--processes", "1")

VIOLATED: Final = re.compile(r"seed (?P<seed>\d+): violated (?P<invariant>\S+) at (?P<seconds>[\d.]+) s: (?P<text>.*)")
"""Line of the simulator for a seed that violates an invariant."""

HEADER: Final = "| Defect | | Patch | Seed | Invariant | Virtual time |\n|---:|---|---|---:|---|---:|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A fixed defect that a patch brings back.

    Attributes:
        number: number of the defect.
        patch: name of the patch.
        defect: what happens.
        test: unit test that fails with the patch.
        seed: seed that finds the defect, None before one is known.
        invariant: invariant that the seed violates.
    """

    number: int
    patch: str
    defect: str
    test: str
    seed: int | None = None
    invariant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What the simulator reports for a seed.

    Attributes:
        seed: the seed.
        invariant: invariant that does not hold.
        seconds: virtual time.
        text: what has happened.
    """

    seed: int
    invariant: str
    seconds: float
    text: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fleet.reverts", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="defects (all)")
    parser.add_argument("--search", metavar="FIRST-LAST", help="search a seed for each defect")
    options = parser.parse_args(arguments)
    chosen = [defect for defect in defects() if not options.numbers or defect.number in options.numbers]
    if options.search:
        return max(_search(defect, options.search) for defect in chosen)
    found = [(defect, _run_named_seed(defect)) for defect in chosen]
    if not options.numbers:
        publish("fleet defects", table(found), RESULTS / "proof.md")
    return 0 if all(violation is not None for _, violation in found) else 1


def defects() -> list[Defect]:
    """Return the listed defects."""
    return [Defect(**entry) for entry in tomllib.loads(LISTED.read_text())["defect"]]


def table(found: Sequence[tuple[Defect, Violation | None]]) -> str:
    """Return the table of the documentation."""
    return "\n".join([HEADER, *(_row(defect, violation) for defect, violation in found)])


def _row(defect: Defect, violation: Violation | None) -> str:
    cells = ("", "**not found**", "") if violation is None else (violation.seed, violation.invariant, violation.seconds)
    seed, invariant, seconds = cells
    time = f"{seconds:.0f} s" if seconds else ""
    return f"| {defect.number} | {defect.defect} | `{defect.patch}` | {seed} | {invariant} | {time} |"


# ---- the simulator --------------------------------------------------------------------------------------------------


def _run_named_seed(defect: Defect) -> Violation | None:
    """Return what the named seed finds with the patch; None if it does not find the defect, or finds something without the patch."""
    violation = None
    if defect.seed is not None and not list(violations(ROOT, str(defect.seed))):
        with reverted(defect) as copy:
            violation = next(violations(copy, str(defect.seed)), None)
    if violation is not None and violation.invariant != defect.invariant:
        violation = None
    print(f"defect {defect.number}: {violation or 'not found'}", flush=True)
    return violation


def _search(defect: Defect, seeds: str) -> int:
    """Print the first seed that finds a defect; returns the exit code."""
    with reverted(defect) as copy:
        for violation in violations(copy, seeds):
            is_new = not list(violations(ROOT, str(violation.seed)))
            print(f"defect {defect.number}: {'' if is_new else 'also without the patch: '}{violation}", flush=True)
            if is_new:
                return 0
    print(f"defect {defect.number}: not found by the seeds {seeds}", flush=True)
    return 1


@contextmanager
def reverted(defect: Defect) -> Iterator[Path]:
    """Copy the package and the simulator to a temporary directory, and apply the patch of a defect to the copy."""
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-revert-") as directory:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", "ui")
        for folder in (PACKAGE, "tests/lab", "tests/support"):
            shutil.copytree(ROOT / folder, Path(directory, folder), ignore=ignored)
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(Path(directory).parent)}
        command = ["git", "apply", str(PATCHES / defect.patch)]
        subprocess.run(command, cwd=directory, env=environment, check=True)
        yield Path(directory)


def violations(folder: Path, seeds: str) -> Iterator[Violation]:
    """Yield the violations that the simulator of the package in a folder finds, in the order of the seeds.

    Raises:
        RuntimeError: the simulator itself failed.
    """
    environment = os.environ | {"PYTHONPATH": str(folder)}
    with subprocess.Popen([*SIMULATOR, seeds], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            for line in filter(None, map(VIOLATED.fullmatch, map(str.rstrip, run.stdout))):
                seed, invariant, seconds, text = line.groups()
                yield Violation(seed=int(seed), invariant=invariant, seconds=float(seconds), text=text)
            if run.wait() > 1:
                raise RuntimeError(f"the simulator ended with exit code {run.returncode}")
        finally:
            run.kill()


if __name__ == "__main__":
    sys.exit(main())
