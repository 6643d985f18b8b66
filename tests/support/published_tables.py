"""The tables in the docs that programs measure, and the statement of each table's age: `make lab TASK=tables-age`.

A published table names the commit at which it was measured, and the paths that it describes. If the paths have changed since, committed or
not, `python -m tests.support.published_tables` adds below the table that the table is older than the code. With `--check`, the command
prints the tables that lack this statement, and changes nothing: no check fails because a change makes a table old.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.page_sections import replace_section, section
from tests.support.repository import ROOT

CODE: Final = ("airflow_adaptive", "tests")
"""A measurement at a commit must not include uncommitted changes of these paths."""

UNKNOWN: Final = "unknown"
"""In place of the commit, outside a clone and in a clone without the commit."""

OLDER: Final = "**This table is older than the code**: these paths have changed since."

COMMITS: Final = re.compile(r"`([0-9a-f]{7,}(?:-dirty)?)`")

AGE: Final = re.compile(r"^Measured at commit `([^`]*)`.*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table of the docs.

    Attributes:
        page: path of the page.
        task: of the laboratory that measures the table.
        paths: that the table describes.
    """

    page: str
    task: str
    paths: tuple[str, ...]


JOB: Final = (
    "airflow_adaptive/job",
    "airflow_adaptive/_engine",
    "airflow_adaptive/_core/scheduler",
    "airflow_adaptive/_clusters",
)
TRIGGERER: Final = (
    "airflow_adaptive/_airflow/process",
    "airflow_adaptive/_engine",
    "airflow_adaptive/_airflow/store",
    "airflow_adaptive/triggers",
)
BENCHMARKS: Final = "tests/lab/results/benchmarks.md"

TABLES: Final = {
    "table": PublishedTable(page="tests/lab/results/faults.md", task="faults", paths=(*JOB, "tests/lab/faults")),
    "matrix": PublishedTable(page="tests/lab/results/faults.md", task="faults", paths=(*JOB, "tests/lab/faults")),
    "kubernetes faults": PublishedTable(
        page="tests/lab/results/faults.md",
        task="faults-on-kubernetes",
        paths=(*JOB, "tests/lab/faults/kubernetes", "tests/support/kubernetes"),
    ),
    "fleets": PublishedTable(page="tests/lab/results/faults.md", task="fleet-long", paths=("airflow_adaptive",)),
    "fleet defects": PublishedTable(
        page="tests/lab/results/proof.md", task="fleet-defects", paths=("airflow_adaptive", "tests/support/fleet")
    ),
    "scheduler": PublishedTable(page=BENCHMARKS, task="bench-scheduler", paths=("airflow_adaptive/_core/scheduler",)),
    "request bodies": PublishedTable(page=BENCHMARKS, task="bench-bodies", paths=("airflow_adaptive/_web",)),
    "job list": PublishedTable(page=BENCHMARKS, task="bench-list", paths=("airflow_adaptive/_web",)),
    "balance": PublishedTable(page=BENCHMARKS, task="bench-balance", paths=JOB),
    "triggerer": PublishedTable(page=BENCHMARKS, task="bench-triggerer", paths=TRIGGERER),
    "outages": PublishedTable(page=BENCHMARKS, task="bench-outages", paths=TRIGGERER),
    "rescale": PublishedTable(page=BENCHMARKS, task="bench-rescale", paths=JOB),
    "rescale on Kubernetes": PublishedTable(
        page=BENCHMARKS, task="bench-rescale-on-kubernetes", paths=(*JOB, "tests/support/kubernetes")
    ),
    "takeover": PublishedTable(page=BENCHMARKS, task="bench-takeover", paths=JOB),
    "real-time mode": PublishedTable(page=BENCHMARKS, task="bench-real-time", paths=JOB),
    "nexmark": PublishedTable(page=BENCHMARKS, task="bench-kafka", paths=JOB),
}
"""By the names of the sections that contain the tables."""


def head() -> str:
    """The commit of the working tree, with `-dirty` if its code has uncommitted changes."""
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}-dirty" if commit and _git("status", "--porcelain", "--", *CODE) else commit or UNKNOWN


def date_of(commit: str) -> str:
    """The date of a commit."""
    return _git("log", "-1", "--format=%cs", commit.removesuffix("-dirty")) or UNKNOWN


def oldest(commits: Sequence[str]) -> str:
    """The commit that comes first in the history. A commit that is not in the history has no age, so it counts only without any other."""
    order = _git("rev-list", "--abbrev-commit", "--topo-order", "HEAD").splitlines()
    ages = {commit: _age(order, commit.removesuffix("-dirty")) for commit in commits}
    known = {commit: age for commit, age in ages.items() if age < len(order)} or ages
    return max(known, key=known.__getitem__, default=UNKNOWN)


def _age(order: Sequence[str], commit: str) -> int:
    return next((number for number, each in enumerate(order) if each.startswith(commit)), len(order))


def publish(name: str, body: str, page: Path | None = None, commit: str | None = None) -> None:
    """Put a table into its section, with the line about its age.

    Args:
        name: of the section.
        body: the table.
        page: that contains the section, by default the page of the docs.
        commit: at which the table was measured, by default `head`.
    """
    replace_section(page or ROOT / TABLES[name].page, name, f"{body}\n\n{age(TABLES[name], commit or head())}")


def publish_rows(name: str, body: str) -> None:
    """Publish a table whose rows name their commits. It is as old as its oldest row."""
    publish(name, body.rstrip(), commit=oldest(COMMITS.findall(body)))


def age(table: PublishedTable, commit: str) -> str:
    """The line below a table: its commit, its paths, and whether one of the paths has changed since."""
    paths = ", ".join(f"`{path}`" for path in table.paths)
    line = f"Measured at commit `{commit}` ({date_of(commit)}) by `make lab TASK={table.task}`; describes {paths}."
    return f"{line} {OLDER}" if _has_changed(commit, table.paths) else line


def refreshed(name: str) -> str | None:
    """The section of a table with a new line about its age, None if the line does not change or the commit is unknown."""
    body = section(ROOT / TABLES[name].page, name).rstrip("\n")
    found = AGE.search(body)
    if found is None or date_of(found[1]) == UNKNOWN:
        return None
    now = AGE.sub(lambda _: age(TABLES[name], found[1]), body)
    return None if now == body else now


def _has_changed(commit: str, paths: Sequence[str]) -> bool:
    """Whether the working tree differs from a commit in some paths; a commit that the clone lacks does not count."""
    return bool(_git("diff", "--stat", commit.removesuffix("-dirty"), "--", *paths))


def _git(*arguments: str) -> str:
    """The output of a git command; "" where it fails, for example outside a clone."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else ""


def main() -> None:
    """Bring all lines up to date, or list those that are not."""
    parser = argparse.ArgumentParser(prog="tests.support.published_tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    checks = parser.parse_args().check
    for name, table in TABLES.items():
        body = refreshed(name)
        if body is not None and not checks:
            replace_section(ROOT / table.page, name, body)
        if body is not None:
            print(f"{table.page}, table {name!r}: {'run `make lab TASK=tables-age`' if checks else 'updated'}")


if __name__ == "__main__":
    main()
