"""The tables in tests/lab/results that tasks of the laboratory measure. Each names the commit at which it was measured, so that a reader knows its age."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.page_sections import replace_section
from tests.support.repository import ROOT

CODE: Final = ("airflow_adaptive", "tests")
"""A measurement at a commit must not include uncommitted changes of these paths."""

UNKNOWN: Final = "unknown"
"""In place of the commit, outside a clone and in a clone without the commit."""

RESULTS: Final = ROOT / "tests" / "lab" / "results"

TASKS: Final = {
    "fleet defects": "fleet-defects",
    "scheduler": "bench-scheduler",
    "job list": "bench-list",
    "balance": "bench-balance",
    "triggerer": "bench-triggerer",
    "outages": "bench-outages",
    "rescale": "bench-rescale",
    "rescale of the largest state": "bench-rescale-largest",
    "rescale on Kubernetes": "bench-rescale-on-kubernetes",
    "takeover": "bench-takeover",
    "takeover on Kubernetes": "bench-takeover-on-kubernetes",
    "real-time mode": "bench-real-time",
    "nexmark": "bench-kafka",
}
"""The tasks of the laboratory by the sections that contain their tables."""


def head() -> str:
    """The commit of the working tree, with `-dirty` if its code has uncommitted changes."""
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}-dirty" if commit and _git("status", "--porcelain", "--", *CODE) else commit or UNKNOWN


def publish(name: str, body: str, page: Path = RESULTS / "benchmarks.md") -> None:
    """Put a table into its section, with the commit and the task that has measured it.

    Args:
        name: of the section.
        body: the table.
        page: that contains the section.
    """
    date = _git("log", "-1", "--format=%cs") or UNKNOWN
    measured = f"Measured at commit `{head()}` ({date}) by `make lab TASK={TASKS[name]}`."
    replace_section(page, name, f"{body}\n\n{measured}")


def _git(*arguments: str) -> str:
    """The output of a git command; "" where it fails, for example outside a clone."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else ""
