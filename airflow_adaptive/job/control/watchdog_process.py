"""The program of the process that ends a driver whose lease has expired; see `fence.LeaseWatchdog`.

The program must not depend on other modules, because `fence` passes its source to a new interpreter.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from contextlib import suppress

CHECK_INTERVAL_S = 1.0
"""Interval between checks of the clock, in seconds, because a wait does not count the time of a suspension."""


def main(jvm: int, python: int, output: str) -> None:
    """Read limits from the standard input, and end the driver when the newest limit has passed.

    A limit is a time of the boot clock, or infinity. The standard input ends with the Python process of the driver. Its
    JVM then ends by itself, or has to be ended at the limit.

    Args:
        jvm: process id of the JVM.
        python: process id of the Python process, the parent of this process.
        output: file to which the reason is appended, if the file exists.
    """
    limit, line, inputs = math.inf, b"", [0]
    while inputs or (jvm and math.isfinite(limit)):
        if jvm and not is_alive(jvm):
            jvm = 0  # another process may get its number
        left = limit - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        if select.select(inputs, [], [], min(max(left, 0.0), CHECK_INTERVAL_S))[0]:
            data = os.read(0, 4096)
            *lines, line = (line + data).split(b"\n")
            limit = float(lines[-1]) if lines else limit
            inputs = inputs if data else []
        elif left <= 0:  # and no new limit has arrived, for example while this process was frozen
            end(jvm, python, output)
            return


def end(jvm: int, python: int, output: str) -> None:
    """Kill both processes, which may be frozen."""
    for process in filter(None, (jvm, python if os.getppid() == python else 0)):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if os.path.isfile(output):
        with open(output, "a") as file:
            file.write(
                "the lease of this driver has expired, and the driver did not respond: its processes were killed\n"
            )


def is_alive(process: int) -> bool:
    """Return whether a process with this number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
