"""A process that has imported all libraries, and runs each pytest session in a forked child.

    python -m tests.support.mutation.fork_server MODULES.json <requests >answers

The import of Airflow takes seconds, and a fork takes milliseconds. The process forgets the modules of the project, so each child imports
them as they are on the disk at that time.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

TIMEOUT: Final = 124
"""Exit code of a session that did not end in time."""

OWN: Final = ("airflow_adaptive", "dags")
"""The packages whose modules change."""

MAX_BYTES: Final = 8 << 30
"""A mutant must not take the memory of the machine."""


def main() -> None:
    """Import the libraries, and answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library may print while it is imported
    for name in json.loads(Path(sys.argv[1]).read_text()):
        with suppress(Exception):
            import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]  # Airflow imports the modules of providers
    gc.freeze()
    for line in sys.stdin:
        answers.write(json.dumps(run(**json.loads(line))) + "\n")
        answers.flush()


def run(arguments: list[str], output: str, seconds: float, writes_bytecode: bool) -> dict[str, int]:
    """Run a session in a child, and return its exit code."""
    child = os.fork()
    if not child:
        run_session(arguments, output, seconds, writes_bytecode)
    code = wait(child, seconds)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that the tests started
    return {"code": code}


def wait(child: int, seconds: float) -> int:
    """Return the exit code of a child. The limit is CPU time; a child that waits has ten times as long, and at least a minute."""
    deadline = time.monotonic() + max(60, 10 * seconds)
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return TIMEOUT if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TIMEOUT


def run_session(arguments: list[str], output: str, seconds: float, writes_bytecode: bool) -> None:
    """Run pytest, and end the process."""
    os.setsid()
    limit = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    redirect(output)
    sys.dont_write_bytecode = not writes_bytecode
    sys.addaudithook(refuse_to_kill_others)
    code = 3
    try:
        import pytest  # noqa: PLC0415  the libraries are imported first

        code = int(pytest.main(arguments))
    except BaseException:  # noqa: BLE001  the process ends in any case
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def redirect(output: str) -> None:
    """Write all output of the child to a file, and give the child no input."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)


def refuse_to_kill_others(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise PermissionError if a mutant sends a signal to the server, to its group, to `init` or to all processes."""
    if event in ("os.kill", "os.killpg") and arguments[1] and abs(int(arguments[0])) in (0, 1, os.getppid()):
        raise PermissionError(f"a test must not send a signal to process {arguments[0]}")


if __name__ == "__main__":
    main()
