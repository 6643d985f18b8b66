"""Mutation testing: change the code in small ways, and check that the tests detect each change.

    python -m tests.support.mutation.mutants [PACKAGE ...] [--all [--shard 1/4]]

Without `--all`, the mutants are a random sample of 150 per package, always the same one. `survivors.json` lists the mutants of the samples
that no test detects, with the reason. The exit code is 0 if every other mutant is detected, and fewer than 5 % of each sample survive.

The sample of each package is a row of the table in docs/proof.md, with its commit. A run continues where the previous run ended: a mutant
that was detected is not run again until its module changes, and a mutant that survived is not run again until a test changes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.support.mutation.fork_server import TIMEOUT
from tests.support.mutation.mutations import Mutant, MutatedModule
from tests.support.mutation.packages import PACKAGES, SAMPLE, MutatedPackage
from tests.support.mutation.report import Result, is_accepted, print_table, table
from tests.support.mutation.selection import HOURS, FailedTestsError, Recording, record
from tests.support.mutation.workspace import COPY, DIRECTORY, ForkServer, digest_of, mutated, update_copy
from tests.support.page_sections import section
from tests.support.published_tables import TABLES, head, publish_rows
from tests.support.repository import ROOT

RESULTS: Final = DIRECTORY / "results.jsonl"
WHOLE: Final = "1/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A mutant with its module."""

    mutant: Mutant
    module: MutatedModule


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants, print the table, and return the exit code."""
    options = parse(arguments)
    by_name = {package.name: package for package in PACKAGES}
    packages = [by_name[name] for name in options.packages or by_name]
    DIRECTORY.mkdir(exist_ok=True)
    update_copy()
    server = ForkServer()
    try:
        rows = {package.name: list(run_package(package, options, server)) for package in packages}
    finally:
        server.close()
    print_table(rows)
    if not options.all and options.shard == WHOLE:
        publish_rows("mutants", table(rows, head(), section(ROOT / TABLES["mutants"].page, "mutants")))
    return 0 if all(is_accepted(row, whole=options.all) for row in rows.values()) else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutation.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", choices=[package.name for package in PACKAGES], metavar="PACKAGE")
    parser.add_argument("--all", action="store_true", help="run all mutants, not only the samples")
    parser.add_argument("--shard", default=WHOLE, help="run a part of the mutants, for example 1/4")
    return parser.parse_args(arguments)


def run_package(package: MutatedPackage, options: argparse.Namespace, server: ForkServer) -> Iterator[Result]:
    """Yield the result of each chosen mutant of a package."""
    recording = record(server, package)
    tests = digest_of(sorted(path for test in package.folders for path in (COPY / test).rglob("*.py")))
    require_passing(recording, server)
    known = known_results()
    chosen = choose(candidates(package), options)
    for number, candidate in enumerate(chosen, start=1):
        identity = {"key": candidate.mutant.key, "module": digest_of([COPY / candidate.mutant.module]), "tests": tests}
        result = known_result(known.get(candidate.mutant.key), identity)
        if result is None:
            result = run_mutant(candidate, package, recording, server)
            with RESULTS.open("a") as file:
                file.write(json.dumps({"identity": identity, "result": asdict(result)}) + "\n")
            print(f"{package.name} {number}/{len(chosen)} {result.status} {result.module}", flush=True)
        yield result


def require_passing(recording: Recording, server: ForkServer) -> None:
    """Run some tests without a mutant, because a session that cannot start would detect every mutant."""
    for test in random.Random(0).sample(sorted(recording.seconds), 5):
        if code := server.run([test], HOURS):
            raise FailedTestsError(f"{test} fails without a mutant: exit code {code}. See .mutants/pytest.log.")


def candidates(package: MutatedPackage) -> list[Candidate]:
    """Return all mutants of a package, in a random order that depends on the mutants only."""
    modules = [MutatedModule(path, (ROOT / path).read_text()) for path in package.paths()]
    found = [Candidate(mutant=mutant, module=module) for module in modules for mutant in module.mutants]
    return sorted(found, key=lambda candidate: candidate.mutant.key)


def choose(found: Sequence[Candidate], options: argparse.Namespace) -> Sequence[Candidate]:
    """Return the sample, or the mutants of a shard."""
    number, count = map(int, options.shard.split("/"))
    return (found if options.all else found[:SAMPLE])[number - 1 :: count]


def known_results() -> dict[str, dict[str, Any]]:
    """Return the newest line of each mutant in the file of results."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    entries = map(json.loads, lines)
    return {entry["identity"]["key"]: entry for entry in entries}


def known_result(entry: dict[str, Any] | None, identity: dict[str, str]) -> Result | None:
    """Return the result of an earlier run if the run would have the same result."""
    if entry is None or entry["identity"]["module"] != identity["module"]:
        return None
    result = Result(**entry["result"])
    return result if result.is_detected or entry["identity"] == identity else None


def run_mutant(candidate: Candidate, package: MutatedPackage, recording: Recording, server: ForkServer) -> Result:
    """Run the tests of a mutant."""
    mutant, started = candidate.mutant, time.monotonic()
    groups = recording.tests_for(mutant, package.folders)
    source = candidate.module.mutated_source(mutant)
    status = "survived"
    with mutated(mutant.module, source):
        for names in groups:
            code = server.run_tests({name: recording.seconds[name] for name in names})
            if code:
                status = "timeout" if code == TIMEOUT else "detected"
                break
    removed, added = candidate.module.change(mutant)
    return Result(
        package=package.name,
        module=mutant.module,
        function=mutant.function,
        line=mutant.lines.start,
        removed=removed,
        added=added,
        status=status,
        tests=sum(map(len, groups)),
        seconds=round(time.monotonic() - started, 1),
    )


if __name__ == "__main__":
    sys.exit(main())
