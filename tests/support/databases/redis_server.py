"""A Redis server for tests, the broker of Airflow's CeleryExecutor: a temporary folder and a free port on loopback.

The server needs the program of Redis, which `.ci/ensure_redis.sh` installs, and no service of the system. A guardian process ends the
server and deletes its folder if the owner process dies.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_adaptive.local import guardian
from airflow_adaptive.local.airflow import write_private
from airflow_adaptive.local.cluster import HOST, free_port
from airflow_adaptive.local.guardian import Guard, spawn
from airflow_adaptive.local.waiting import wait_until
from tests.support.databases.postgresql import MissingProgramError

INSTALL: Final = "The tests of Airflow's CeleryExecutor need redis-server: run .ci/ensure_redis.sh, or make test-servers SERVERS=postgresql."

START_TIMEOUT_S: Final = 240.0

STOP_GRACE_S: Final = 5.0


class RedisServer:
    """A Redis server that stores nothing on disk.

    Attributes:
        url: address of the first database, with the password.
    """

    def __init__(self, folder: Path) -> None:
        """Describe a server.

        Args:
            folder: folder of the configuration and the log, which exists.
        """
        self._folder = folder
        self._password = secrets.token_urlsafe()
        self._port = free_port()
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://:{self._password}@{HOST}:{self._port}/0"

    def start(self) -> None:
        """Start the server and wait until it accepts connections.

        Raises:
            MissingProgramError: Redis is not installed.
        """
        program = shutil.which("redis-server")
        if program is None:
            raise MissingProgramError(INSTALL)
        settings = [f"port {self._port}", f"bind {HOST}", f"requirepass {self._password}", f"dir {self._folder}"]
        configuration = self._folder / "redis.conf"
        write_private(configuration, "\n".join([*settings, 'save ""', ""]))
        environment = {**os.environ, guardian.MARK_VARIABLE: self._mark}
        with (self._folder / "log").open("ab") as log:
            self._process = spawn([program, str(configuration)], log, environment, self._folder)
        wait_until(self._answers, START_TIMEOUT_S, f"start of Redis; its log is {self._folder / 'log'}")

    def stop(self) -> None:
        """End the server and its connections."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_GRACE_S)

    def guard(self) -> Guard:
        """Return a guardian that ends the server and deletes its folder when this process dies."""
        return Guard(self._mark, STOP_GRACE_S, self._folder)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._port), 1) as connection:
                connection.sendall(f"AUTH {self._password}\r\n".encode())
                return connection.makefile("rb").readline() == b"+OK\r\n"
        except OSError:
            return False


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """Run a server for the duration of the block."""
    server = RedisServer(Path(tempfile.mkdtemp(prefix="airflow-adaptive-redis-")))
    guard = server.guard()
    try:
        server.start()
        yield server
    finally:
        server.stop()
        guard.end()
