"""A small process that outlives the one that started a cluster, and then kills whatever the cluster left behind.

Every process of a cluster inherits a *mark*, an environment variable: the master, the workers, and the drivers,
executors and Python processes that workers start, even when their parent was killed with -9 and they are orphans.
So one rule finds them all. The guardian waits until its owner closes the pipe between them or dies, by whatever
cause, then ends every process with the mark and removes the directories that it was given.

Run as a script by its path, so that it needs nothing but the standard library and psutil:
`guardian.py MARK GRACE_SECONDS DIRECTORY...`
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

import psutil

MARK_VARIABLE = "AIRFLOW_ADAPTIVE_LOCAL_CLUSTER"

OWNER_CHECK_S = 1.0
"""How often the owner is looked at: a fork of it may hold the pipe open after its death."""

CHECK_S = 0.1

KILL_TIMEOUT_S = 10.0
"""Until killed processes are given up; only uninterruptible sleep takes so long."""


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry the mark; a zombie has none."""
    return [process for process in psutil.process_iter() if _mark_of(process) == mark]


def end(mark: str, grace_s: float) -> None:
    """End all processes with the mark: SIGTERM, so that JVMs remove their temporary files, then SIGKILL."""
    for process in marked(mark):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    if not _gone(mark, grace_s):
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while not _gone(mark, CHECK_S) and time.monotonic() < deadline:
            kill(marked(mark))


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to all of them that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def wait_for_owner(owner: int) -> None:
    """Return when the owner has closed the pipe on standard input, or is no longer our parent."""
    while os.getppid() == owner:
        readable, _, _ = select.select([sys.stdin], [], [], OWNER_CHECK_S)
        if readable:
            return


def main(arguments: Sequence[str]) -> None:
    """Guard one cluster to its end."""
    owner = os.getppid()
    mark, grace_s, *directories = arguments
    wait_for_owner(owner)
    end(mark, float(grace_s))
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _gone(mark: str, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while marked(mark):
        if time.monotonic() >= deadline:
            return False
        time.sleep(CHECK_S)
    return True


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK_VARIABLE)
    except (psutil.Error, OSError):
        return None  # another user's, or gone in the meantime


if __name__ == "__main__":
    main(sys.argv[1:])
