"""A copy of the project in which mutants run, and the server that runs pytest in the copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tests.support.mutation.recorder import OUTPUT
from tests.support.repository import ROOT

DIRECTORY: Final = ROOT / ".mutants"
COPY: Final = DIRECTORY / "copy"
LIBRARIES: Final = DIRECTORY / "libraries.json"
RECORD: Final = DIRECTORY / "record.json"
LOG: Final = DIRECTORY / "pytest.log"

MIN_SECONDS: Final = 30.0

# Pytest searches all installed packages for plugins, which takes longer than most mutants.
PLUGINS: Final = ("pytest_asyncio.plugin", "_hypothesis_pytestplugin", "pytest_timeout", "pytest_cov.plugin")
ARGUMENTS: Final = (
    "-q",
    "-x",
    "--tb=line",
    "--hypothesis-seed=0",
    "-Wignore::pytest.PytestAssertRewriteWarning",
    *(f"-p{plugin}" for plugin in PLUGINS),
)


def update_copy() -> None:
    """Copy the files that have changed, and delete the files that no longer exist."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    for name in names:
        source, target = ROOT / name, COPY / name
        if not target.exists() or source.stat().st_mtime != target.stat().st_mtime:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for path in [path for path in COPY.rglob("*.py") if path.relative_to(COPY).as_posix() not in names]:
        path.unlink()


@contextmanager
def mutated(module: str, source: str) -> Iterator[None]:
    """Replace the source of a module of the copy."""
    path = COPY / module
    original, times = path.read_bytes(), path.stat()
    path.write_text(source)
    os.utime(path, (times.st_atime, times.st_mtime + 10))  # so that Python does not use the bytecode of the original
    try:
        yield
    finally:
        path.write_bytes(original)
        os.utime(path, (times.st_atime, times.st_mtime))


def digest_of(paths: Sequence[Path]) -> str:
    """Return a digest of the names and the contents of some files."""
    digest = sha256()
    for path in sorted(paths):
        digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class ForkServer:
    """Runs pytest sessions in the copy, one at a time."""

    def __init__(self) -> None:
        """Start the process. The first start determines which libraries the tests import."""
        if not LIBRARIES.exists():
            LIBRARIES.write_text("[]")
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        environment = os.environ | {
            "AIRFLOW_HOME": str(COPY / ".pytest_cache/d/airflow"),  # as in tests/conftest.py, which comes too late
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(COPY),
            "COVERAGE_FILE": str(DIRECTORY / "coverage"),
            OUTPUT: str(RECORD),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.mutation.fork_server", str(LIBRARIES)],
            cwd=COPY,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, arguments: Sequence[str], seconds: float, *, writes_bytecode: bool = False) -> int:
        """Run a session that may take some seconds of CPU time, and return its exit code."""
        temporary = DIRECTORY / "tmp"
        request: dict[str, Any] = {
            "arguments": [*ARGUMENTS, f"--basetemp={temporary}", *arguments],
            "output": str(LOG),
            "seconds": seconds,
            "writes_bytecode": writes_bytecode,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code: int = json.loads(self._process.stdout.readline())["code"]
        shutil.rmtree(temporary, ignore_errors=True)
        return code

    def run_tests(self, seconds: Mapping[str, float]) -> int:
        """Run tests, and return the exit code.

        A test that takes much longer than its recorded duration ends the session, because a mutant may loop for ever in a thread for which the
        test waits.

        Args:
            seconds: recorded duration of each test.
        """
        limit = MIN_SECONDS + 10 * max(seconds.values())
        arguments = [f"--timeout={limit:.0f}", "--timeout-method=thread", *seconds]
        return self.run(arguments, MIN_SECONDS + 5 * sum(seconds.values()))

    def restart(self, libraries: Sequence[str]) -> None:
        """Restart the process with more libraries."""
        self.close()
        known = json.loads(LIBRARIES.read_text())
        LIBRARIES.write_text(json.dumps([*known, *(name for name in libraries if name not in known)]))
        self._process = self._started()

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
