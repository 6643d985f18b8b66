"""A PostgreSQL server for tests: a temporary folder, a free port on loopback, and an account that is not root.

The server needs the programs of PostgreSQL, which `.ci/ensure_postgresql.sh` installs, and no service of the system. A guardian process
ends the server and deletes its folder if the owner process dies.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import OperationalError

from airflow_adaptive.local import guardian
from airflow_adaptive.local.cluster import HOST, free_port
from airflow_adaptive.local.guardian import Guard
from airflow_adaptive.local.waiting import wait_until

ACCOUNTS: Final = ("postgres", "daemon")
"""Accounts that run the server if the tests run as root, because PostgreSQL refuses root. The first existing account is used."""

PACKAGED: Final = Path("/usr/lib/postgresql")
"""Folder of the programs of Debian and Ubuntu. It is not in the PATH."""

INSTALL: Final = "The tests on PostgreSQL need the program {program}: run .ci/ensure_postgresql.sh, or make test-servers SERVERS=postgresql."

START_TIMEOUT_S: Final = 240.0

STOP_GRACE_S: Final = 10.0

CLIENT_TIMEOUT_S: Final = 120.0

SYNCHRONOUS: Final = "SELECT pid FROM pg_stat_replication WHERE sync_state = 'sync'"

SETTINGS: Final = (
    f"listen_addresses={HOST}",
    "unix_socket_directories=",
    "max_connections=200",
    "fsync=off",  # The databases need not outlive a power failure. They outlive the death of the server's processes.
    "full_page_writes=off",
    "log_lock_waits=on",
)


class MissingProgramError(Exception):
    """PostgreSQL is not installed. The message names the command that installs it."""


class PostgresqlServer:
    """A PostgreSQL server without a database of Airflow.

    Attributes:
        folder: folder of the data and the log.
    """

    def __init__(self, folder: Path) -> None:
        """Describe a server.

        Args:
            folder: folder of the server, which exists and is empty.
        """
        self.folder = folder
        self._password = secrets.token_urlsafe()
        self._port = free_port()
        self._account = _account()
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self._data = folder / "data"

    @property
    def log(self) -> str:
        """The log of the server, which names statements that fail, and deadlocks."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Create the data folder, start the server and wait until it accepts connections.

        Raises:
            MissingProgramError: PostgreSQL is not installed.
        """
        initdb, postgres = find_program("initdb"), find_program("postgres")
        (self.folder / "password").write_text(self._password)
        for path in (self.folder, self.folder / "password"):
            shutil.chown(path, *(self._account or (os.getuid(), os.getgid())))
        self._run(
            [initdb, "-D", str(self._data), "-U", "airflow", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
             "--auth=scram-sha-256", f"--pwfile={self.folder / 'password'}"]
        ).wait()  # fmt: skip
        self._start_processes(postgres)

    def stop(self) -> None:
        """End the server and its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(STOP_GRACE_S)

    @contextmanager
    def crashed(self) -> Iterator[None]:
        """The server is down during the block: its processes die without a shutdown, and the next ones recover the data from the log."""
        assert self._process is not None, "the server runs"
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(STOP_GRACE_S)
        yield
        self._start_processes(find_program("postgres"))

    @contextmanager
    def failed_over(self) -> Iterator[None]:
        """The server dies for good at the begin of the block. At the end, its standby is promoted at the same address.

        Replication is synchronous, so the standby has each transaction that the server has committed. The standby restarts with the port
        of the server, in place of a proxy or an IP address that moves.
        """
        assert self._process is not None, "the server runs"
        standby = self._start_standby()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(STOP_GRACE_S)
        yield
        standby.send_signal(signal.SIGINT)
        standby.wait(STOP_GRACE_S)
        self._start_processes(find_program("postgres"))
        self.execute("SELECT pg_promote()")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server does not answer during the block, as if its host hangs: connections stay open, and new connections wait."""
        assert self._process is not None, "the server runs"
        server = psutil.Process(self._process.pid)
        server.suspend()  # The server creates no other process from now on.
        processes = [server, *server.children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def create_database(self, name: str) -> str:
        """Create an empty database, and return its URL for `[database] sql_alchemy_conn`."""
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def backup(self, database: str) -> Path:
        """Write the content of a database to a file, and return the file."""
        file = self.folder / f"{database}.backup"
        self._complete([find_program("pg_dump"), "--format=custom", f"--file={file}", database])
        return file

    def restore(self, database: str, backup: Path) -> None:
        """Replace a database with the content of a backup. Connections to the database are closed."""
        self.execute(f'DROP DATABASE "{database}" WITH (FORCE)')
        self.create_database(database)
        self._complete([find_program("pg_restore"), f"--dbname={database}", str(backup)])

    def execute(self, statement: str, database: str = "postgres") -> Sequence[Any]:
        """Execute one statement in a transaction of its own, and return its rows."""
        engine = create_engine(self.url(database), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                result = connection.execute(text(statement))
                return result.all() if result.returns_rows else []
        finally:
            engine.dispose()

    def url(self, database: str) -> str:
        """Return the URL of a database, with the password."""
        parts = {"username": "airflow", "password": self._password, "host": HOST, "port": self._port}
        url = URL.create("postgresql+psycopg2", **parts, database=database)  # type: ignore[arg-type]
        return url.render_as_string(hide_password=False)

    def _start_standby(self) -> subprocess.Popen[bytes]:
        """Start a standby, which waits for transactions on a port of its own, and return its process. It has the next data folder."""
        self._data = self.folder / uuid.uuid4().hex
        self._complete(
            [find_program("pg_basebackup"), "-D", str(self._data), "--checkpoint=fast", "--write-recovery-conf"]
        )
        standby = self._spawn(find_program("postgres"), free_port())
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self.execute(SYNCHRONOUS), START_TIMEOUT_S, "synchronous replication")
        return standby

    def _start_processes(self, postgres: str) -> None:
        self._process = self._spawn(postgres, self._port)
        wait_until(self._answers, START_TIMEOUT_S, f"start of PostgreSQL; its log is {self.folder / 'log'}")

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended with exit code {self._process.returncode}: {self.log}")
        try:
            return bool(self.execute("SELECT 1"))
        except OperationalError:
            return False

    def _spawn(self, postgres: str, port: int) -> subprocess.Popen[bytes]:
        settings = [part for setting in (*SETTINGS, f"port={port}") for part in ("-c", setting)]
        return self._run([postgres, "-D", str(self._data), *settings])

    def _complete(self, command: Sequence[str]) -> None:
        """Run a client of the server to its end."""
        if (code := self._run(command).wait(CLIENT_TIMEOUT_S)) != 0:
            raise RuntimeError(f"{command[0]} ended with exit code {code}: {self.log}")

    def _run(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        user, group = self._account or (None, None)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **self._client_environment, guardian.MARK_VARIABLE: self._mark},
                user=user, group=group, extra_groups=None if user is None else [],
            )  # fmt: skip

    @property
    def _client_environment(self) -> dict[str, str]:
        return {"PGHOST": HOST, "PGPORT": str(self._port), "PGUSER": "airflow", "PGPASSWORD": self._password}

    def guard(self) -> Guard:
        """Return a guardian that ends the server and deletes its folder when this process dies."""
        return Guard(self._mark, STOP_GRACE_S, self.folder)


@contextmanager
def running_postgresql() -> Iterator[PostgresqlServer]:
    """Run a server for the duration of the block."""
    server = PostgresqlServer(Path(tempfile.mkdtemp(prefix="airflow-adaptive-postgresql-")))
    guard = server.guard()
    try:
        server.start()
        yield server
    finally:
        server.stop()
        guard.end()


def find_program(name: str) -> str:
    """Return the path of a program of PostgreSQL.

    Raises:
        MissingProgramError: the program is not installed.
    """
    versions = sorted((int(found.parent.name) for found in PACKAGED.glob("[0-9]*/bin")), reverse=True)
    folders = [os.environ.get("PATH", os.defpath), *(f"{PACKAGED}/{version}/bin" for version in versions)]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise MissingProgramError(INSTALL.format(program=name))
    return found


def _account() -> tuple[int, int] | None:
    """Return user and group of the server, None for the user of the tests."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = next(known[name] for name in ACCOUNTS if name in known)
    return entry.pw_uid, entry.pw_gid
