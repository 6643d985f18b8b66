"""Processes of the benchmark: each ends with it, whatever happens to it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

GRACE_S: Final = 5.0


def start(
    command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own; where `setpriv` is there it dies with this one, even killed with -9."""
    wrapper = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with log.open("ab") as file:
        return subprocess.Popen(
            [*wrapper, *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End them and all of their groups; those that do not follow are killed."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in (it for it in processes if it.poll() is None):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, how)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
