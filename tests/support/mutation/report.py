"""The results of mutants, the survivors with a reason, and the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.mutation.packages import MAX_SURVIVORS
from tests.support.published_tables import head

HEAD: Final = (
    "| Package | Mutants | Detected | Survivors with a reason | Gaps | Commit |",
    "|---|---:|---:|---:|---:|---|",
)
SURVIVORS: Final = Path(__file__).with_name("survivors.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one mutant.

    Attributes:
        package: name of the package.
        module: path of the module.
        function: qualified name of the function.
        line: number of the first line that the mutant changes.
        removed: lines that the mutant removes.
        added: lines that the mutant adds.
        status: "detected", "timeout" or "survived".
        tests: number of tests that run the lines.
        seconds: duration of the tests.
    """

    package: str
    module: str
    function: str
    line: int
    removed: str
    added: str
    status: str
    tests: int
    seconds: float

    @property
    def is_detected(self) -> bool:
        """Whether a test failed, or did not end."""
        return self.status != "survived"

    @property
    def reason(self) -> str | None:
        """Why the mutant survives; None without a reason."""
        return survivors().get((self.module, self.removed, self.added))

    @property
    def is_gap(self) -> bool:
        """Whether a test is missing."""
        return not self.is_detected and self.reason is None


@cache
def survivors() -> Mapping[tuple[str, str, str], str]:
    """Return the reasons of the survivors."""
    entries = json.loads(SURVIVORS.read_text())
    return {(entry["module"], entry["from"], entry["to"]): entry["why"] for entry in entries}


def is_accepted(results: Sequence[Result], *, whole: bool) -> bool:
    """Return whether every survivor has a reason, and whether fewer than 5 % of a sample survive."""
    survived = sum(not result.is_detected for result in results)
    is_small = whole or survived < MAX_SURVIVORS * len(results)
    return bool(results) and is_small and not any(result.is_gap for result in results)


def print_table(rows: Mapping[str, Sequence[Result]]) -> None:
    """Print the table, the gaps, and the reasons that are no longer needed."""
    for results in rows.values():
        for result in results:
            if result.is_gap:
                print(f"\n{result.module}:{result.line} {result.function} ({result.tests} tests)")
                print(f"- {result.removed}\n+ {result.added}")
    for result in (result for results in rows.values() for result in results if result.is_detected and result.reason):
        print(f"\nsurvivors.json lists a mutant that a test detects: {result.module}:{result.line}\n+ {result.added}")
    print(f"\n{table(rows, head())}")


def table(rows: Mapping[str, Sequence[Result]], commit: str, previous: str = "") -> str:
    """Return the table as Markdown, with the rows of an earlier table that have no new results."""
    old = {line.split("`")[1]: line for line in previous.splitlines() if line.startswith("| `")}
    lines = old | {name: _row(name, results, commit) for name, results in rows.items()}
    return "\n".join([*HEAD, *lines.values()])


def _row(name: str, results: Sequence[Result], commit: str) -> str:
    detected, gaps = sum(result.is_detected for result in results), sum(result.is_gap for result in results)
    return f"| `{name}` | {len(results)} | {detected} | {len(results) - detected - gaps} | {gaps} | `{commit}` |"
