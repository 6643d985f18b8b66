"""The guardian, with plain processes in place of a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_adaptive.local import guardian
from airflow_adaptive.local.waiting import wait_until

TIMEOUT_S = 60.0

WAIT = "import threading; threading.Event().wait()"

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"

PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAIT!r}]); {WAIT}"

OWNER = """
import subprocess, sys
subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE, start_new_session=True)
print(flush=True)
import threading; threading.Event().wait()
"""


@pytest.fixture
def marked_id() -> Iterator[str]:
    """A mark of which nothing is left afterwards."""
    marked_id = uuid.uuid4().hex
    yield marked_id
    guardian.kill(guardian.marked(marked_id))


def start(marked_id: str, code: str) -> subprocess.Popen[bytes]:
    """A process with the mark."""
    environment = {**os.environ, guardian.MARK_VARIABLE: marked_id}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)


def pids(marked_id: str) -> set[int]:
    return {process.pid for process in guardian.marked(marked_id)}


def test_mark_is_inherited_and_outlives_the_parent(marked_id: str) -> None:
    with start(marked_id, PARENT) as parent:
        wait_until(lambda: len(pids(marked_id)) == 2, TIMEOUT_S, "the child")
        parent.kill()
    (orphan,) = pids(marked_id)
    assert orphan != parent.pid
    guardian.end(marked_id, grace_s=TIMEOUT_S)
    assert pids(marked_id) == set()


def test_process_that_ignores_the_request_is_killed(marked_id: str) -> None:
    with start(marked_id, STUBBORN) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        guardian.end(marked_id, grace_s=0.2)
        assert stubborn.wait(TIMEOUT_S) == -signal.SIGKILL


def test_processes_of_others_are_left_alone(marked_id: str) -> None:
    with start(uuid.uuid4().hex, WAIT) as other:
        guardian.end(marked_id, grace_s=0)
        assert other.poll() is None
        other.kill()


def test_closed_pipe_ends_processes_and_removes_directories(marked_id: str, tmp_path: Path) -> None:
    directory = tmp_path / "work" / "deep"
    directory.mkdir(parents=True)
    with start(marked_id, WAIT) as process:
        command = [
            sys.executable,
            guardian.__file__,
            marked_id,
            "5",
            str(tmp_path / "work"),
            str(tmp_path / "never-was"),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as watch:
            assert process.poll() is None
            watch.communicate(timeout=TIMEOUT_S)
        assert process.wait(TIMEOUT_S) == -signal.SIGTERM
    assert not directory.parent.exists()


def test_killed_owner_is_noticed(marked_id: str) -> None:
    command = [sys.executable, "-c", OWNER, guardian.__file__, marked_id, "5"]
    with start(marked_id, WAIT) as process, subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        owner.kill()
        assert process.wait(TIMEOUT_S) == -signal.SIGTERM


def test_owner_that_is_no_longer_the_parent_is_gone() -> None:
    guardian.wait_for_owner(owner=os.getpid())
